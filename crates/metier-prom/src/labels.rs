//! Label sets: pairs, or text that is rendered once and used for many samples.
//!
//! Values are truncated at [`RenderedLabels::MAX_VALUE_BYTES`] bytes, which bounds the size of a
//! page. Invalid names are replaced by valid ones.

use crate::name::{is_label_name, sanitize_label_name};

/// A label set that can be rendered between a sample's braces.
pub trait LabelSet {
    /// Appends `name="value",…` without braces; nothing for an empty set.
    fn write(&self, out: &mut String);
}

/// A label set that is rendered once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RenderedLabels(String);

impl RenderedLabels {
    /// Maximum length of a value in bytes; longer values are truncated.
    pub const MAX_VALUE_BYTES: usize = 1024;

    pub const fn new() -> Self {
        Self(String::new())
    }

    #[must_use]
    pub fn with_label(mut self, name: &str, value: &str) -> Self {
        self.push_label(name, value);
        self
    }

    /// Adds a label if there is a value.
    #[must_use]
    pub fn with_optional_label(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with_label(name, value),
            None => self,
        }
    }

    pub fn push_label(&mut self, name: &str, value: &str) {
        write_pair(name, value, &mut self.0);
    }

    /// Joins this set with further labels for one sample.
    pub const fn join<'a, L: LabelSet + ?Sized>(&'a self, more: &'a L) -> JoinedLabels<'a, L> {
        JoinedLabels(self, more)
    }

    /// The rendered text, without braces.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A rendered label set joined with further labels.
#[derive(Debug)]
pub struct JoinedLabels<'a, L: ?Sized>(&'a RenderedLabels, &'a L);

impl LabelSet for RenderedLabels {
    fn write(&self, out: &mut String) {
        out.push_str(&self.0);
    }
}

impl<L: LabelSet + ?Sized> LabelSet for JoinedLabels<'_, L> {
    fn write(&self, out: &mut String) {
        self.0.write(out);
        let between = out.len();
        self.1.write(out);
        if between < out.len() && !self.0.0.is_empty() {
            out.insert(between, ',');
        }
    }
}

impl LabelSet for () {
    fn write(&self, _: &mut String) {}
}

impl LabelSet for [(&str, &str)] {
    fn write(&self, out: &mut String) {
        let begin = out.len();
        for (at, (name, value)) in self.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_label(name, value, out);
        }
        debug_assert!(self.is_empty() || out.len() > begin);
    }
}

impl<const N: usize> LabelSet for [(&str, &str); N] {
    fn write(&self, out: &mut String) {
        self.as_slice().write(out);
    }
}

fn write_pair(name: &str, value: &str, out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
    write_label(name, value, out);
}

fn write_label(name: &str, value: &str, out: &mut String) {
    if is_label_name(name) {
        out.push_str(name);
    } else {
        out.push_str(&sanitize_label_name(name));
    }
    out.push_str("=\"");
    write_escaped(truncate_value(value), true, out);
    out.push('"');
}

fn truncate_value(value: &str) -> &str {
    if value.len() <= RenderedLabels::MAX_VALUE_BYTES {
        return value;
    }
    let mut end = RenderedLabels::MAX_VALUE_BYTES;
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

/// Escapes backslash and line feed, and also double quotes if `quotes` is set.
pub(crate) fn write_escaped(text: &str, quotes: bool, out: &mut String) {
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'"' if quotes => "\\\"",
            _ => continue,
        };
        out.push_str(&text[done..at]);
        out.push_str(escaped);
        done = at + 1;
    }
    out.push_str(&text[done..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_joined_and_cut() {
        let labels = RenderedLabels::new()
            .with_label("a", "q\"\\\n")
            .with_optional_label("b", None)
            .with_label("9 c", "ü");
        assert_eq!(labels.as_str(), r#"a="q\"\\\n",_9_c="ü""#);
        let mut out = String::new();
        labels.join(&[("le", "1")]).write(&mut out);
        assert_eq!(out, r#"a="q\"\\\n",_9_c="ü",le="1""#);
        out.clear();
        RenderedLabels::new().join(&[("le", "1")]).write(&mut out);
        assert_eq!(out, r#"le="1""#);
        out.clear();
        labels.join(&()).write(&mut out);
        assert_eq!(out, labels.as_str());
        let long = RenderedLabels::new().with_label("x", &"é".repeat(2000));
        assert!(long.as_str().len() <= RenderedLabels::MAX_VALUE_BYTES + 4);
    }
}
