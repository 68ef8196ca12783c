//! Times as people type and read them: `250ms`, `1.5s`, `2 days ago`.

use std::time::Duration;

use jiff::civil;
use jiff::tz::TimeZone;
use metier_types::Timestamp;

/// What a duration should look like.
pub const DURATION: &str = "a time such as 250ms, 1.5s, 2m or 1h";
/// What a moment should look like.
pub const MOMENT: &str =
    "how long ago (90m, 12h, 2d, 3w), a date (2026-01-31, 2026-01-31T14:00) or an RFC 3339 time";

/// Longest duration that makes sense here; a century is a mistake, not a time limit.
const LONGEST: f64 = 366.0 * 86_400.0;

/// Reads `250ms`, `1.5s`, `2m`, `1h`, `3d`, `1w`; `None` if it is none of them.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    // Rust reads "." and "1." as numbers too; people who type them mean something else.
    if number.is_empty() || number.starts_with('.') || number.ends_with('.') {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    let scale = match unit.trim_start() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 7.0 * 86_400.0,
        "" if number == 0.0 => 1.0,
        _ => return None,
    };
    let seconds = number * scale;
    (seconds <= LONGEST).then(|| Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// Reads a moment: how long before `now`, a date or time in the local zone, or an RFC 3339 time.
pub fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim();
    if let Some(ago) = duration(text.trim_end_matches(" ago")) {
        return now.checked_sub(ago).ok();
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let local = match text.parse::<civil::DateTime>() {
        Ok(time) => time,
        Err(_) => text.parse::<civil::Date>().ok()?.to_datetime(civil::Time::midnight()),
    };
    local.to_zoned(TimeZone::system()).ok().map(|zoned| zoned.timestamp())
}

/// A moment as one looks back at it: `12 s ago`, `3 h ago`, then the date.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    match seconds {
        ..0 => local(then),
        0..2 => "now".to_string(),
        2..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        172_800..1_209_600 => format!("{} d ago", seconds / 86_400),
        _ => then.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string(),
    }
}

/// A moment in the local zone, to the second.
pub fn local(then: Timestamp) -> String {
    then.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_type_them() {
        for (text, millis) in [
            ("250ms", 250),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0", 0),
            ("1 s", 1000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in
            ["", "banana", "5", "-1s", "1.2.3s", ".s", "1e9s", "5 parsecs", "9999999h", "s", "1.s", "∞"]
        {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange_and_whole_milliseconds_read_back(text in ".{0,20}", millis in 0u64..10_000_000) {
            let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
            let (_, _) = (duration(&text), moment(&text, now));
            proptest::prop_assert_eq!(duration(&format!("{millis}ms")), Some(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn moments_are_ages_dates_or_timestamps() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        assert_eq!(moment("2d", now), "2026-03-08T12:00:00Z".parse().ok());
        assert_eq!(moment("90m ago", now), "2026-03-10T10:30:00Z".parse().ok());
        assert_eq!(moment("2026-01-31T14:00:00Z", now), "2026-01-31T14:00:00Z".parse().ok());
        assert!(moment("2026-01-31", now).is_some() && moment("2026-01-31T14:00", now).is_some());
        for bad in ["", "yesterdayish", "2026-13-01", "31.1.2026"] {
            assert_eq!(moment(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn the_past_is_told_in_the_unit_that_fits() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let before = |seconds: i64| ago(Timestamp::from_second(now.as_second() - seconds).unwrap(), now);
        assert_eq!(before(1), "now");
        assert_eq!(before(50), "50 s ago");
        assert_eq!(before(300), "5 min ago");
        assert_eq!(before(10_000), "2 h ago");
        assert_eq!(before(500_000), "5 d ago");
        assert!(before(50_000_000).starts_with("2024-"));
    }
}
