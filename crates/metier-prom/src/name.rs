//! Names of metrics and labels: which are right, and the nearest right one for any text.

use std::borrow::Cow;

/// Longest name that is written or read, in bytes.
pub(crate) const LONGEST: usize = 512;

/// Whether every version of Prometheus takes it as a metric's name.
pub fn is_metric_name(name: &str) -> bool {
    is_name(name, true)
}

/// Whether every version of Prometheus takes it as a label's name.
pub fn is_label_name(name: &str) -> bool {
    is_name(name, false)
}

fn is_name(name: &str, colons: bool) -> bool {
    let is_start = |b: u8| b.is_ascii_alphabetic() || b == b'_' || (colons && b == b':');
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|first| is_start(*first))
        && bytes.len() <= LONGEST
        && bytes.iter().all(|b| is_start(*b) || b.is_ascii_digit())
}

/// The text as a metric's name: every other character becomes `_`, and a name that is too long is cut.
pub fn metric_name(text: &str) -> Cow<'_, str> {
    nearest(text, true)
}

/// The text as a label's name.
pub fn label_name(text: &str) -> Cow<'_, str> {
    nearest(text, false)
}

fn nearest(text: &str, colons: bool) -> Cow<'_, str> {
    if is_name(text, colons) {
        return Cow::Borrowed(text);
    }
    let fitting = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':');
    let mut name: String = text.chars().take(LONGEST - 1).map(|c| if fitting(c) { c } else { '_' }).collect();
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
            assert_eq!(metric_name(text), want);
        }
        assert_eq!(label_name("a:b"), "a_b");
        assert!(is_metric_name(&metric_name(&"é".repeat(10_000))));
    }
}
