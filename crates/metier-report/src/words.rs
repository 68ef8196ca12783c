//! Formats values for readers.

use metier_types::{
    Bytes, Celsius, Exit, Hertz, Joules, Quality, Ratio, Run, RunState, Seconds, Timestamp, Unit, Watts,
};

/// Formats a value with its unit.
pub fn in_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => Seconds(value).to_string(),
        Unit::Nanoseconds => Seconds(value / 1e9).to_string(),
        Unit::Bytes => Bytes(value.max(0.0).round() as u64).to_string(),
        Unit::Joules => Joules(value).to_string(),
        Unit::Microjoules => Joules(value / 1e6).to_string(),
        Unit::Watts => Watts(value).to_string(),
        Unit::Ratio => Ratio(value).to_string(),
        Unit::Hertz => Hertz(value).to_string(),
        Unit::Celsius => Celsius(value).to_string(),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a change with its sign.
pub fn signed(change: Ratio) -> String {
    let sign = if change.get() < 0.0 { "−" } else { "+" };
    format!("{sign}{}", Ratio(change.get().abs()))
}

/// The mark for a value that is not exact.
pub fn mark(run: &Run, path: &str) -> &'static str {
    match run.quality.get(path) {
        Some(Quality::Sampled) => " ~",
        Some(Quality::Estimated) => " ≈",
        _ => "",
    }
}

/// Formats a time to the second, in UTC: reports are read in other time zones.
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats a count: `1 run`, `3 runs`.
pub fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Formats a command line with shell quoting.
pub fn command(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    shortened(&words.iter().map(quoted).collect::<Vec<_>>().join(" "), 2000)
}

/// Shortens a text to a number of characters and marks the cut.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_string(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// Describes how a run ended, in few words.
pub fn ending(state: RunState, exit: Option<&Exit>) -> String {
    use metier_types::Cause;
    match (state, exit) {
        (RunState::Running, _) => "still running".to_string(),
        (RunState::Interrupted, _) => "interrupted".to_string(),
        (RunState::Finished, None) => "finished".to_string(),
        (_, Some(exit)) => {
            let mut text = match (exit.cause, exit.code, exit.signal) {
                (Cause::Exited, Some(0), _) => "ended well".to_string(),
                (Cause::Exited, Some(code), _) => format!("exit code {code}"),
                (Cause::Signalled, _, Some(signal)) => format!("ended by signal {signal}"),
                (Cause::Timeout, ..) if exit.planned => "ended as planned".to_string(),
                (Cause::Timeout, ..) => "its time was up".to_string(),
                (Cause::Oom, ..) => "killed for want of memory".to_string(),
                (Cause::Interrupted, ..) => "interrupted".to_string(),
                (Cause::Lost, ..) => "lost".to_string(),
                (Cause::Unstarted, ..) => "never started".to_string(),
                _ => "ended".to_string(),
            };
            if let Some(detail) = &exit.detail {
                text.push_str(&format!(": {detail}"));
            }
            text
        }
    }
}
