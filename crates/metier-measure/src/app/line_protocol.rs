//! The line protocol: `name value [unit] [key=value…] [@seconds]`, on a descriptor, a FIFO, a
//! socket or a file.
//!
//! The unit determines the kind of number: `s`, `ms`, `us`, `ns` mean a duration, `count` adds to a
//! counter, `rate` (or `hz`, `fps`, `/s`) is a rate, `value` any number; another word becomes the
//! label `unit`. Without a unit the name determines the kind. Lines that begin with `#` are
//! comments.

use metier_types::{StageKind, StageSource};

use super::message::{
    self, AppMessage, MessageNumber, WANT_FINITE_NUMBER, format_labels, infer_kind, parse_kind_word,
};

/// Maximum number of parsed words in a line.
const MAX_WORDS: usize = 20;

/// Parses one line; `None` for a comment. The error describes what is expected.
pub fn parse_line(line: &[u8], read_ns: i64) -> Result<Option<AppMessage<'_>>, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "UTF-8 text")?;
    if line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let name = words.next().ok_or("name value [unit] [key=value…]")?;
    if let Some(want) = message::find_name_defect(name) {
        return Err(want);
    }
    let value = words.next().ok_or("name value [unit] [key=value…]")?;
    let mut value: f64 = value.parse().map_err(|_| WANT_FINITE_NUMBER)?;
    let mut unit = None;
    let mut pairs = Vec::new();
    let mut at_ns = read_ns;
    for (place, word) in words.enumerate() {
        if place >= MAX_WORDS {
            return Err("at most 20 words after the value");
        }
        match (word.split_once('='), word.strip_prefix('@')) {
            (Some(pair), _) => pairs.push(pair),
            (_, Some(seconds)) => at_ns = plausible_time_ns(seconds.parse().ok(), read_ns),
            _ if place == 0 => unit = Some(word),
            _ => return Err("name value [unit] [key=value…]: one unit, then labels"),
        }
    }
    let (kind, scale) = match unit.map(parse_kind_word) {
        Some(Some(known)) => known,
        Some(None) => {
            pairs.extend(unit.map(|unit| ("unit", unit)));
            (StageKind::Value, 1.0)
        }
        None => infer_kind(name),
    };
    value *= scale;
    let labels = if pairs.is_empty() { String::new() } else { format_labels(pairs)? };
    let number = if kind == StageKind::Counter {
        MessageNumber::Increment(value)
    } else {
        MessageNumber::Observation(value)
    };
    Ok(Some(AppMessage {
        name: name.into(),
        labels: labels.into(),
        kind,
        source: StageSource::Lines,
        number,
        at_ns: Some(at_ns),
    }))
}

/// The message's own time, given in seconds since 1970, if plausible; otherwise the time of the
/// read.
pub fn plausible_time_ns(seconds: Option<f64>, read_ns: i64) -> i64 {
    const DAY: i64 = 86_400_000_000_000;
    let named = seconds.filter(|s| (0.0..4e9).contains(s)).map(|s| (s * 1e9) as i64);
    named.filter(|at| *at > read_ns - DAY && *at < read_ns + 1_000_000_000).unwrap_or(read_ns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(line: &str) -> AppMessage<'_> {
        parse_line(line.as_bytes(), 7).unwrap().unwrap()
    }

    #[test]
    fn the_unit_says_what_the_number_is() {
        let content = |line| {
            let message = parse(line);
            (message.kind, message.number, message.labels.into_owned())
        };
        let none = String::new();
        assert_eq!(
            content("inference 0.0125 s"),
            (StageKind::Duration, MessageNumber::Observation(0.0125), none.clone())
        );
        assert_eq!(content("inference 12.5 ms").1, MessageNumber::Observation(0.0125));
        assert_eq!(
            content("frames 3 count"),
            (StageKind::Counter, MessageNumber::Increment(3.0), none.clone())
        );
        assert_eq!(
            content("camera 29.5 fps"),
            (StageKind::Rate, MessageNumber::Observation(29.5), none.clone())
        );
        assert_eq!(
            content("decode_ms 2"),
            (StageKind::Duration, MessageNumber::Observation(0.002), none.clone())
        );
        assert_eq!(content("people 4"), (StageKind::Value, MessageNumber::Observation(4.0), none));
        assert_eq!(content("core 51.5 C zone=1").2, r#"unit="C",zone="1""#);
    }

    #[test]
    fn a_bad_line_is_refused_with_what_would_be_right() {
        for bad in [
            "",
            "name",
            "name x",
            "a 1 s two",
            "a 1 =x",
            "a 1 s 1k=v",
            "a",
            "\u{1}a 1",
            "@ 1",
            "@1767225600 1",
        ] {
            assert!(parse_line(bad.as_bytes(), 0).is_err(), "{bad:?}");
        }
        assert_eq!(parse_line(b"# a comment", 0), Ok(None));
        assert!(parse_line(b"a\xff 1", 0).is_err());
    }

    #[test]
    fn a_moment_is_believed_only_near_to_when_it_was_read() {
        let read = 1_700_000_000_000_000_000;
        assert_eq!(plausible_time_ns(Some(1_699_999_990.5), read), 1_699_999_990_500_000_000);
        for strange in [Some(1_700_000_000_000.0), Some(5.0), Some(f64::NAN), Some(-1.0), None] {
            assert_eq!(plausible_time_ns(strange, read), read);
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_line(&line, 0);
        }
    }
}
