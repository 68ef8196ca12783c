//! A parser for one line of a page, which tracks its column.
//!
//! Blanks are spaces and tabs. Names may be quoted, as Prometheus 3 writes names with other
//! characters.

use std::borrow::Cow;

use super::{MetricSample, ScrapeLimits};
use crate::format::ExpositionFormat;
use crate::name;
use crate::number;

/// A fault in a line, with its byte offset.
#[derive(Debug)]
pub(super) struct LineError {
    pub at: usize,
    pub what: String,
}

/// A line and the position of the parser in it.
#[derive(Debug)]
pub(super) struct LineReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> LineReader<'a> {
    pub const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub fn is_comment(&self) -> bool {
        self.peek() == Some(b'#')
    }

    pub fn error_here<T>(&self, what: impl Into<String>) -> Result<T, LineError> {
        Err(LineError { at: self.at, what: what.into() })
    }

    /// Describes the next character for an error.
    fn describe_next(&self) -> String {
        match self.rest().chars().next() {
            Some(c) => format!("{c:?}"),
            None => "the end of the line".to_string(),
        }
    }

    /// Takes everything up to the next blank or the end.
    pub fn take_word(&mut self) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find([' ', '\t']).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// Takes the rest of the line.
    pub fn take_rest(&mut self) -> &'a str {
        let rest = self.rest();
        self.at = self.text.len();
        rest
    }

    fn take_byte(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// Takes a metric or label name, plain or quoted.
    pub fn take_name(&mut self, what: &str, colons: bool) -> Result<Cow<'a, str>, LineError> {
        if self.peek() == Some(b'"') {
            let begin = self.at;
            let name = self.take_quoted()?;
            if name.is_empty() || name.len() > name::MAX_NAME_BYTES {
                return Err(LineError {
                    at: begin,
                    what: format!("{what} of {} bytes; want 1 to {}", name.len(), name::MAX_NAME_BYTES),
                });
            }
            return Ok(name);
        }
        let fits = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || (colons && *b == b':');
        let rest = self.rest();
        let name = &rest[..rest.bytes().position(|b| !fits(&b)).unwrap_or(rest.len())];
        let is_right = if colons { name::is_metric_name(name) } else { name::is_label_name(name) };
        if !is_right {
            return match name.len() {
                0 => self.error_here(format!("{} where {what} should begin", self.describe_next())),
                1..=name::MAX_NAME_BYTES => self.error_here(format!("{what} must not begin with a digit")),
                long => {
                    self.error_here(format!("{what} of {long} bytes; want 1 to {}", name::MAX_NAME_BYTES))
                }
            };
        }
        self.at += name.len();
        Ok(Cow::Borrowed(name))
    }

    /// Takes a quoted text and decodes its escapes.
    fn take_quoted(&mut self) -> Result<Cow<'a, str>, LineError> {
        let begin = self.at;
        if !self.take_byte(b'"') {
            return self.error_here(format!("{} where a quoted text should begin", self.describe_next()));
        }
        let rest = self.rest();
        let Some(end) = rest.find(['"', '\\']) else {
            return Err(LineError { at: begin, what: "the quoted text does not end".into() });
        };
        if rest.as_bytes()[end] == b'"' {
            self.at += end + 1;
            return Ok(Cow::Borrowed(&rest[..end]));
        }
        let mut text = String::from(&rest[..end]);
        let mut characters = rest[end..].char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    self.at += end + at + 1;
                    return Ok(Cow::Owned(text));
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => text.push(c),
                    // Unknown escapes are kept literally, as in Prometheus.
                    Some((_, other)) => text.extend(['\\', other]),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(LineError { at: begin, what: "the quoted text does not end".into() })
    }

    /// Takes the labels between braces. A quoted name without a value is the metric name.
    fn take_labels(
        &mut self,
        name: &mut Option<Cow<'a, str>>,
        limits: &ScrapeLimits,
    ) -> Result<Vec<(String, String)>, LineError> {
        let mut labels: Vec<(String, String)> = Vec::new();
        loop {
            self.skip_blanks();
            if self.take_byte(b'}') {
                return Ok(labels);
            }
            let begin = self.at;
            let is_quoted = self.peek() == Some(b'"');
            let label = self.take_name("a label's name", false)?;
            self.skip_blanks();
            if self.take_byte(b'=') {
                self.skip_blanks();
                let value = self.take_quoted()?;
                if labels.iter().any(|(known, _)| *known == label) {
                    return Err(LineError { at: begin, what: format!("label {label:?} stands here twice") });
                }
                if labels.len() >= limits.labels {
                    return Err(LineError { at: begin, what: format!("more than {} labels", limits.labels) });
                }
                labels.push((label.into_owned(), value.into_owned()));
            } else if is_quoted && name.is_none() {
                *name = Some(label);
            } else {
                return self
                    .error_here(format!("{} where `=` should follow a label's name", self.describe_next()));
            }
            self.skip_blanks();
            if !self.take_byte(b',') && self.peek() != Some(b'}') {
                return self
                    .error_here(format!("{} where `,` or `}}` should follow a label", self.describe_next()));
            }
        }
    }

    fn take_number(&mut self, what: &str) -> Result<f64, LineError> {
        let begin = self.at;
        let word = self.take_word();
        number::parse_number(word).ok_or_else(|| LineError {
            at: begin,
            what: match word {
                "" => format!("no {what}"),
                word => format!("{:?} is not a number; want {what}", shorten(word)),
            },
        })
    }

    /// Takes a sample: name, labels, value, timestamp, and in OpenMetrics an exemplar, which is
    /// skipped.
    pub fn take_sample(
        &mut self,
        format: ExpositionFormat,
        limits: &ScrapeLimits,
    ) -> Result<MetricSample, LineError> {
        let mut name = match self.peek() {
            Some(b'{') => None,
            _ => Some(self.take_name("a metric's name", true)?),
        };
        self.skip_blanks();
        let labels = if self.take_byte(b'{') { self.take_labels(&mut name, limits)? } else { Vec::new() };
        let Some(name) = name else { return self.error_here("a sample without a metric's name") };
        self.skip_blanks();
        let value = self.take_number("a value")?;
        self.skip_blanks();
        let mut milliseconds = None;
        if !self.is_at_end() && self.peek() != Some(b'#') {
            let begin = self.at;
            let time = self.take_number(match format {
                ExpositionFormat::Text => "a time in milliseconds",
                ExpositionFormat::OpenMetrics => "a time in seconds",
            })?;
            let scaled = match format {
                ExpositionFormat::Text => time,
                ExpositionFormat::OpenMetrics => time * 1e3,
            };
            // Larger integers are not exact in f64, and no real timestamp reaches them.
            if !scaled.is_finite() || scaled.abs() > 9e15 {
                return Err(LineError { at: begin, what: "a time beyond all clocks".to_string() });
            }
            milliseconds = Some(scaled.round() as i64);
            self.skip_blanks();
        }
        if format == ExpositionFormat::OpenMetrics && self.take_byte(b'#') {
            self.skip_blanks();
            if !self.take_byte(b'{') {
                return self
                    .error_here(format!("{} where an exemplar's labels should begin", self.describe_next()));
            }
            self.take_labels(&mut Some(Cow::Borrowed("")), limits)?;
            self.skip_blanks();
            self.take_number("an exemplar's value")?;
            self.skip_blanks();
            if !self.is_at_end() {
                self.take_number("an exemplar's time")?;
                self.skip_blanks();
            }
        }
        if !self.is_at_end() {
            return self.error_here(format!("{} behind the end of the sample", self.describe_next()));
        }
        Ok(MetricSample { name: name.into_owned(), labels, value, milliseconds })
    }
}

/// Decodes the escapes of a help text.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some(c @ ('\\' | '"')) => out.push(c),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

/// Truncates a text for an error.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}
