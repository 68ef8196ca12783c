//! Formats values for readers.

use metier_types::{Exit, Quality, Run, RunState, Timestamp};

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

/// Words as a shell would need them.
pub fn shell_words(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The command line as a shell would need it, of bounded length.
pub fn command(words: &[String]) -> String {
    shortened(&shell_words(words), 2000)
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
