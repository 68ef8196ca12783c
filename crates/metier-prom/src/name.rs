//! Metric and label names: validation, and conversion of any text to a valid name.

use std::borrow::Cow;

/// Maximum length of a name in bytes, for reading and writing.
pub(crate) const MAX_NAME_BYTES: usize = 512;

/// Whether every version of Prometheus accepts the text as a metric name.
pub fn is_metric_name(name: &str) -> bool {
    is_name(name, true)
}

/// Whether every version of Prometheus accepts the text as a label name.
pub fn is_label_name(name: &str) -> bool {
    is_name(name, false)
}

fn is_name(name: &str, colons: bool) -> bool {
    let is_start = |b: u8| b.is_ascii_alphabetic() || b == b'_' || (colons && b == b':');
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|first| is_start(*first))
        && bytes.len() <= MAX_NAME_BYTES
        && bytes.iter().all(|b| is_start(*b) || b.is_ascii_digit())
}

/// Converts a text to a metric name: invalid characters become `_`, and long names are truncated.
pub fn sanitize_metric_name(text: &str) -> Cow<'_, str> {
    sanitize_name(text, true)
}

/// Converts a text to a label name.
pub fn sanitize_label_name(text: &str) -> Cow<'_, str> {
    sanitize_name(text, false)
}

fn sanitize_name(text: &str, colons: bool) -> Cow<'_, str> {
    if is_name(text, colons) {
        return Cow::Borrowed(text);
    }
    let fitting = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':');
    let mut name: String =
        text.chars().take(MAX_NAME_BYTES - 1).map(|c| if fitting(c) { c } else { '_' }).collect();
    if name.bytes().next().is_none_or(|first| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_a_right_name_and_right_names_stay() {
        for (text, want) in [
            ("up", "up"),
            ("job:rate:5m", "job:rate:5m"),
            ("", "_"),
            ("9lives", "_9lives"),
            ("RAM usage (MB)", "RAM_usage__MB_"),
            ("größe", "gr__e"),
        ] {
            assert_eq!(sanitize_metric_name(text), want);
        }
        assert_eq!(sanitize_label_name("a:b"), "a_b");
        assert!(is_metric_name(&sanitize_metric_name(&"é".repeat(10_000))));
    }
}
