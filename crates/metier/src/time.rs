//! Parses and prints durations and moments: `250ms`, `1.5s`, `2 days ago`.

use std::time::Duration;

use jiff::civil;
use jiff::tz::TimeZone;
pub use metier_session::runfile::quantity::DURATION;
use metier_session::runfile::quantity::{self, MAX_DURATION};
use metier_types::UtcTimestamp;

/// Syntax of a moment, for errors.
pub const MOMENT_SYNTAX: &str =
    "how long ago (90m, 12h, 2d, 3w), a date (2026-01-31, 2026-01-31T14:00) or an RFC 3339 time";

/// Parses a duration of run files; weeks too.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let weeks = || Some(7 * quantity::duration(&format!("{}d", text.trim().strip_suffix('w')?))?);
    quantity::duration(text).or_else(weeks).filter(|time| *time <= MAX_DURATION)
}

/// Parses a flag's duration for clap.
pub fn parse_duration_flag(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("want {DURATION}"))
}

/// Parses a duration of whole seconds for clap; Kepler's tools pass a bare number of seconds.
pub fn parse_whole_seconds_flag(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(seconds) => Ok(seconds),
        Err(_) => parse_duration(text)
            .filter(|time| time.subsec_nanos() == 0)
            .map(|time| time.as_secs())
            .ok_or_else(|| "want whole seconds: a duration such as 30s or 5m, or a number".to_string()),
    }
}

/// Parses a moment: an age before `now`, a local date or time, or an RFC 3339 time.
pub fn parse_moment(text: &str, now: UtcTimestamp) -> Option<UtcTimestamp> {
    let text = text.trim();
    if let Some(ago) = parse_duration(text.trim_end_matches(" ago")) {
        return now.checked_sub(ago).ok();
    }
    if let Ok(time) = text.parse::<UtcTimestamp>() {
        return Some(time);
    }
    let local = match text.parse::<civil::DateTime>() {
        Ok(time) => time,
        Err(_) => text.parse::<civil::Date>().ok()?.to_datetime(civil::Time::midnight()),
    };
    local.to_zoned(TimeZone::system()).ok().map(|zoned| zoned.timestamp())
}

/// A past moment, relative: `12 s ago`, `3 h ago`, then the date.
pub fn time_ago(then: UtcTimestamp, now: UtcTimestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    match seconds {
        ..0 => local_time(then),
        0..2 => "now".to_string(),
        2..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        172_800..1_209_600 => format!("{} d ago", seconds / 86_400),
        _ => then.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string(),
    }
}

/// A moment in the local zone, to the second.
pub fn local_time(then: UtcTimestamp) -> String {
    then.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_are_seven_days() {
        assert_eq!(parse_duration("2 w"), Some(14 * Duration::from_secs(86_400)));
        assert_eq!(parse_duration("1.5s"), Some(Duration::from_millis(1500)));
        for bad in ["w", "-1w", "1wd", "53w", "1.w"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange_and_whole_milliseconds_read_back(text in ".{0,20}", millis in 0u64..10_000_000) {
            let now: UtcTimestamp = "2026-03-10T12:00:00Z".parse().unwrap();
            let (_, _) = (parse_duration(&text), parse_moment(&text, now));
            proptest::prop_assert_eq!(parse_duration(&format!("{millis}ms")), Some(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn whole_seconds_are_durations_or_numbers() {
        for (text, seconds) in [("300", 300), ("5m", 300), ("3s", 3), ("0", 0), ("2000ms", 2)] {
            assert_eq!(parse_whole_seconds_flag(text), Ok(seconds), "{text}");
        }
        for bad in ["", "1.5s", "1.5", "-3", "x"] {
            assert!(parse_whole_seconds_flag(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn moments_are_ages_dates_or_timestamps() {
        let now: UtcTimestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        assert_eq!(parse_moment("2d", now), "2026-03-08T12:00:00Z".parse().ok());
        assert_eq!(parse_moment("90m ago", now), "2026-03-10T10:30:00Z".parse().ok());
        assert_eq!(parse_moment("2026-01-31T14:00:00Z", now), "2026-01-31T14:00:00Z".parse().ok());
        assert!(parse_moment("2026-01-31", now).is_some() && parse_moment("2026-01-31T14:00", now).is_some());
        for bad in ["", "yesterdayish", "2026-13-01", "31.1.2026"] {
            assert_eq!(parse_moment(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn the_past_is_told_in_the_unit_that_fits() {
        let now: UtcTimestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let before =
            |seconds: i64| time_ago(UtcTimestamp::from_second(now.as_second() - seconds).unwrap(), now);
        assert_eq!(before(1), "now");
        assert_eq!(before(50), "50 s ago");
        assert_eq!(before(300), "5 min ago");
        assert_eq!(before(10_000), "2 h ago");
        assert_eq!(before(500_000), "5 d ago");
        assert!(before(50_000_000).starts_with("2024-"));
    }
}
