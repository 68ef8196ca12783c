//! pywaggle's log mode: with `PYWAGGLE_LOG_DIR` set, an unmodified plugin writes each message as a
//! line of `data.ndjson` (`name`, `value`, `meta`, `timestamp`), and copies uploads into
//! `uploads/`.
//!
//! `timeit` publishes nanoseconds under the plugin's name for the value. Names with a part
//! `duration` before the last, or that begin with `timeit.`, are treated as nanoseconds. Texts and
//! uploads are counted. A few keys of `meta` become labels. Times are local without a zone, and
//! lose their dot and six digits when the microseconds are 0; only their differences are used.

use std::borrow::Cow;
use std::collections::BTreeMap;

use metier_types::{StageKind, StageSource};
use serde::Deserialize;

use super::message::{AppMessage, MessageNumber, format_labels, infer_kind};

/// The file's name in the log folder.
pub const DATA_FILE: &str = "data.ndjson";
/// Keys of `meta` that become labels; others may change with each message.
const LABEL_KEYS: [&str; 5] = ["camera", "model", "sensor", "stage", "zone"];
const WANTED_MESSAGE: &str = r#"{"name":…,"value":…,"meta":{…},"timestamp":"2026-01-31T12:00:00.000000000"}"#;

#[derive(Deserialize)]
struct PywaggleLine<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    value: serde_json::Value,
    #[serde(default)]
    meta: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    timestamp: Option<String>,
}

/// Parses one line. The error describes what is expected.
pub fn parse_message(line: &[u8]) -> Result<AppMessage<'_>, &'static str> {
    let line: PywaggleLine<'_> = serde_json::from_slice(line).map_err(|_| WANTED_MESSAGE)?;
    let (kind, number) = match line.value.as_f64() {
        Some(nanoseconds) if is_timeit_name(&line.name) => {
            (StageKind::Duration, MessageNumber::Observation(nanoseconds * 1e-9))
        }
        Some(value) => {
            let (kind, scale) = infer_kind(&line.name);
            (kind, MessageNumber::Observation(value * scale))
        }
        // Texts and uploads have no number: count them.
        None if line.value.is_string() => (StageKind::Counter, MessageNumber::Increment(1.0)),
        None => return Err("a number or a text as value"),
    };
    let known = LABEL_KEYS.iter().filter_map(|key| Some((*key, line.meta.get(*key)?.as_str()?)));
    let labels = format_labels(known).unwrap_or_default();
    Ok(AppMessage {
        at_ns: line.timestamp.as_deref().and_then(parse_time_ns),
        name: line.name,
        labels: labels.into(),
        kind,
        source: StageSource::Pywaggle,
        number,
    })
}

/// Whether `timeit` publishes nanoseconds under this name.
fn is_timeit_name(name: &str) -> bool {
    let mut parts = name.rsplit('.').skip(1);
    name.starts_with("timeit.") || parts.any(|part| part == "duration")
}

/// Parses `2026-01-31T12:00:00.123456789`, or `2026-01-31T12:00:00789` if the microseconds were 0,
/// to nanoseconds.
fn parse_time_ns(text: &str) -> Option<i64> {
    let (whole, rest) = text.split_at_checked(19)?;
    let nanoseconds: i64 = match rest.strip_prefix('.') {
        Some(digits) if (1..=9).contains(&digits.len()) => format!("{digits:0<9}").parse().ok()?,
        None if rest.len() <= 3 => format!("0{rest}").parse().ok()?,
        _ => return None,
    };
    let time: jiff::civil::DateTime = whole.parse().ok()?;
    let seconds = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn timeit_gives_durations_and_other_names_what_they_are() {
        let line = br#"{"meta":{"camera":"top","frame":"17"},"name":"plugin.duration.inference","timestamp":"2026-01-31T12:00:01.500000123","value":12500000}"#;
        let message = parse_message(line).unwrap();
        assert_eq!(
            (message.kind, message.number),
            (StageKind::Duration, MessageNumber::Observation(12500000.0 * 1e-9))
        );
        assert_eq!(message.labels, r#"camera="top""#);
        let next = br#"{"meta":{},"name":"timeit.x","timestamp":"2026-01-31T12:00:02123","value":5}"#;
        let next = parse_message(next).unwrap();
        assert_eq!(next.kind, StageKind::Duration);
        assert_eq!(
            next.at_ns.unwrap() - message.at_ns.unwrap(),
            500_000_000,
            "the fraction that is lost is 0"
        );
        let upload =
            br#"{"meta":{"filename":"a.jpg"},"name":"upload","timestamp":"x","value":"/d/uploads/1-a.jpg"}"#;
        let upload = parse_message(upload).unwrap();
        assert_eq!(
            (upload.kind, upload.number, upload.at_ns),
            (StageKind::Counter, MessageNumber::Increment(1.0), None)
        );
        let count = br#"{"meta":{},"name":"env.count.people","timestamp":"2026-01-31T12:00:01.5","value":3}"#;
        assert_eq!(parse_message(count).unwrap().kind, StageKind::Value);
    }

    #[test]
    fn what_is_no_line_of_pywaggle_is_refused() {
        for bad in
            ["", "x", "{}", r#"{"name":"a"}"#, r#"{"name":"a","value":[1]}"#, r#"{"name":1,"value":1}"#]
        {
            assert!(parse_message(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_and_no_time_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), time in ".{0,40}") {
            let _ = parse_message(&bytes);
            let _ = parse_time_ns(&time);
        }
    }
}
