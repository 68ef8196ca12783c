//! One application message: a name, a number and the kind of number.
//!
//! The Waggle wire does not carry the kind. It is then inferred from the name if that is
//! unambiguous, and is `value` otherwise. An application can always state it (`kind` on the socket,
//! the unit on a line).

use std::borrow::Cow;

use metier_types::{StageKind, StageSource};

/// Longest name of a stage, in bytes.
pub const MAX_NAME_BYTES: usize = 200;
/// Longest labels of a stage as text, in bytes.
pub const MAX_LABEL_BYTES: usize = 400;

/// The number of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MessageNumber {
    /// One observation: a duration in seconds, a rate, any value.
    Observation(f64),
    /// An increment of a counter.
    Increment(f64),
    /// The current value of a counter; only its growth counts.
    CounterValue(f64),
}

/// One application message.
#[derive(Debug, Clone, PartialEq)]
pub struct AppMessage<'a> {
    pub name: Cow<'a, str>,
    /// Its labels as `key="value",…`, sorted by key.
    pub labels: Cow<'a, str>,
    /// The kind of its numbers.
    pub kind: StageKind,
    pub source: StageSource,
    pub number: MessageNumber,
    /// Time in nanoseconds on the source's clock, if known; only differences are used.
    pub at_ns: Option<i64>,
}

/// The defect of a name, if it has one.
pub fn find_name_defect(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Some("a name of 1 to 200 bytes");
    }
    if name.starts_with('@') {
        return Some("a name that does not begin with @, which marks a time");
    }
    name.chars().any(|c| c.is_control() || c.is_whitespace()).then_some("a name without blanks")
}

/// Expected form of a message's number.
pub const WANT_FINITE_NUMBER: &str = "a finite number as value";

/// Infers the kind of a stage from its name, with the factor that converts its values to seconds.
///
/// Names that end in a unit of time, or in `duration`, `latency` or `elapsed`, are durations; names
/// that contain `fps`, `rate`, `hz`, `throughput` or `per_second` are rates; all others are values.
/// Names that end in `time` are durations unless they mean a moment (`start_time`).
pub fn infer_kind(name: &str) -> (StageKind, f64) {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.rsplit(['_', '.', '-', ':', '/']);
    let last = words.next().unwrap_or_default();
    let before = words.next().unwrap_or_default();
    if let Some(seconds) = seconds_per_unit(last).filter(|_| last.len() > 1 || !before.is_empty()) {
        return match before {
            "per" => (StageKind::Rate, 1.0),
            _ => (StageKind::Duration, seconds),
        };
    }
    match (before, last) {
        (_, "duration" | "latency" | "elapsed" | "timer") => (StageKind::Duration, 1.0),
        ("start" | "end" | "unix" | "boot" | "last" | "up" | "now" | "", "time") => (StageKind::Value, 1.0),
        (_, "time") => (StageKind::Duration, 1.0),
        (_, "fps" | "rate" | "hz" | "throughput") => (StageKind::Rate, 1.0),
        ("per", "second") => (StageKind::Rate, 1.0),
        _ if last == "fps" || before == "fps" => (StageKind::Rate, 1.0),
        _ => (StageKind::Value, 1.0),
    }
}

/// Seconds per unit of time.
pub fn seconds_per_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" | "sec" | "secs" | "seconds" => 1.0,
        "ms" | "millis" | "milliseconds" => 1e-3,
        "us" | "µs" | "μs" | "micros" | "microseconds" => 1e-6,
        "ns" | "nanos" | "nanoseconds" => 1e-9,
        _ => return None,
    })
}

/// The kind that a word declares, with the factor to seconds. Accepts metier's words and those of
/// the Waggle class.
pub fn parse_kind_word(word: &str) -> Option<(StageKind, f64)> {
    Some(match word {
        "duration" | "timer" => (StageKind::Duration, 1.0),
        "rate" | "/s" | "1/s" | "hz" | "Hz" | "fps" => (StageKind::Rate, 1.0),
        "value" | "number" | "gauge" => (StageKind::Value, 1.0),
        "count" | "counter" => (StageKind::Counter, 1.0),
        unit => (StageKind::Duration, seconds_per_unit(unit)?),
    })
}

/// Formats labels as `key="value",…`, sorted by key, with quotes, backslashes and line ends
/// escaped. The error describes what is expected.
pub fn format_labels<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<String, &'static str> {
    let mut pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    pairs.sort_unstable();
    let mut text = String::new();
    for (key, value) in pairs {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if key.is_empty() || !key.chars().all(is_word) || key.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("labels as key=value with a key of letters, digits and _");
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(key);
        text.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c if c.is_control() => text.push('\u{fffd}'),
                c => text.push(c),
            }
        }
        text.push('"');
    }
    if text.len() > MAX_LABEL_BYTES { Err("labels of at most 400 bytes") } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_tells_its_kind_and_any_other_is_a_value() {
        let kind = |name| infer_kind(name);
        for name in ["inference_seconds", "inference.duration", "latency", "inference_time", "decode_s"] {
            assert_eq!(kind(name), (StageKind::Duration, 1.0), "{name}");
        }
        assert_eq!(kind("decode_ms"), (StageKind::Duration, 1e-3));
        assert_eq!(kind("plugin.duration.inference_ns"), (StageKind::Duration, 1e-9));
        for name in ["fps", "FPS", "frame_rate", "frames_per_second", "fps_camera", "frames_per_s"] {
            assert_eq!(kind(name).0, StageKind::Rate, "{name}");
        }
        for name in ["RAM_usage", "people", "start_time", "time", "s", "objects", "class", ""] {
            assert_eq!(kind(name), (StageKind::Value, 1.0), "{name}");
        }
    }

    #[test]
    fn labels_are_sorted_and_escaped() {
        assert_eq!(format_labels([("b", "x\"y"), ("a", "1\\")]).unwrap(), r#"a="1\\",b="x\"y""#);
        assert!(
            format_labels([("", "x")]).is_err()
                && format_labels([("1a", "x")]).is_err()
                && format_labels([("a b", "x")]).is_err()
        );
        assert!(format_labels([("a", &*"x".repeat(500))]).is_err());
    }
}
