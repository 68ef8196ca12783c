//! Formats values for readers.

use metier_types::{Run, RunExit, RunState, UtcTimestamp, ValueQuality};

/// The mark for a value that is not exact.
pub fn quality_mark(run: &Run, path: &str) -> &'static str {
    match run.quality.get(path) {
        Some(ValueQuality::Sampled) => " ~",
        Some(ValueQuality::Estimated) => " ≈",
        _ => "",
    }
}

/// Formats a time to the second, in UTC: reports are read in other time zones.
pub fn format_moment(at: UtcTimestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats a count: `1 run`, `3 runs`.
pub fn format_count(n: usize, what: &str) -> String {
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
pub fn shell_command_line(words: &[String]) -> String {
    shorten(&shell_words(words), 2000)
}

/// Shortens a text to a number of characters and marks the cut.
pub fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_string(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// Describes how a run ended, in few words.
pub fn describe_end(state: RunState, exit: Option<&RunExit>) -> String {
    use metier_types::ExitCause;
    match (state, exit) {
        (RunState::Running, _) => "still running".to_string(),
        (RunState::Interrupted, _) => "interrupted".to_string(),
        (RunState::Finished, None) => "finished".to_string(),
        (_, Some(exit)) => {
            let mut text = match (exit.cause, exit.code, exit.signal) {
                (ExitCause::Exited, Some(0), _) => "ended well".to_string(),
                (ExitCause::Exited, Some(code), _) => format!("exit code {code}"),
                (ExitCause::Signalled, _, Some(signal)) => format!("ended by signal {signal}"),
                (ExitCause::Timeout, ..) if exit.planned => "ended as planned".to_string(),
                (ExitCause::Timeout, ..) => "its time was up".to_string(),
                (ExitCause::Oom, ..) => "killed for want of memory".to_string(),
                (ExitCause::Interrupted, ..) => "interrupted".to_string(),
                (ExitCause::Lost, ..) => "lost".to_string(),
                (ExitCause::Unstarted, ..) => "never started".to_string(),
                _ => "ended".to_string(),
            };
            if let Some(detail) = &exit.detail {
                text.push_str(&format!(": {detail}"));
            }
            text
        }
    }
}
