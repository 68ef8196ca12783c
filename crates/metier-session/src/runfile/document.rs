//! A YAML or JSON document as a tree of values with their positions.
//!
//! Types are checked later, so that one wrong field does not hide the next. Scalars keep their
//! original text: an argument `0.50` stays `0.50`, and `1.10` does not become `1.1`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::fault::{RunFileFault, RunFileFaults};

/// Largest accepted file; a larger one is taken for a mistake.
pub const MAX_RUN_FILE_BYTES: usize = 1 << 20;

/// Line and column, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextPosition {
    /// From 1; 0 if unknown.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
}

impl From<Location> for TextPosition {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

/// A value and its position.
#[derive(Debug, Clone)]
pub struct DocumentNode {
    pub place: TextPosition,
    pub value: DocumentValue,
    /// Span of its text in the document: first byte and length.
    text: Option<(usize, usize)>,
}

/// The kinds of values of a document.
#[derive(Debug, Clone)]
pub enum DocumentValue {
    Null,
    /// A plain scalar that is neither text nor null: the original text of a bool or number.
    Plain(String),
    Text(String),
    List(Vec<DocumentNode>),
    Map(Vec<(DocumentKey, DocumentNode)>),
}

/// The name of an entry and its position.
#[derive(Debug, Clone)]
pub struct DocumentKey {
    pub name: String,
    pub place: TextPosition,
}

impl DocumentNode {
    pub fn parse(text: &str) -> Result<Self, RunFileFaults> {
        if text.len() > MAX_RUN_FILE_BYTES {
            return Err(RunFileFault::document("it is larger than 1 MiB", "a run file").into());
        }
        let options = serde_saphyr::options! {
            with_snippet: false,
            reject_unsupported_tags: true,
            budget: serde_saphyr::budget! {
                max_depth: 32,
                max_nodes: 50_000,
                max_documents: 1,
            },
        };
        let mut node: DocumentNode = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let place = error.location().map(TextPosition::from).unwrap_or_default();
            let text = error.without_snippet().to_string();
            // The library appends the position and further lines; metier's message starts with the
            // position.
            let name_text = text.lines().next().unwrap_or_default();
            let message = plain_message(name_text.split(" at line ").next().unwrap_or(name_text));
            RunFileFaults::from(RunFileFault {
                place: Some(place),
                ..RunFileFault::document(&message, "YAML such as `command: [sleep, \"1\"]`, or JSON")
            })
        })?;
        node.restore(text);
        Ok(node)
    }

    /// Restores the original text of numbers and bools.
    fn restore(&mut self, document: &str) {
        match &mut self.value {
            DocumentValue::Plain(word) => {
                let written =
                    self.text.and_then(|(from, length)| document.get(from..from + length)).map(str::trim);
                if let Some(written) =
                    written.filter(|written| !written.is_empty() && !written.starts_with(['!', '&', '*']))
                {
                    *word = written.to_string();
                }
            }
            DocumentValue::List(items) => items.iter_mut().for_each(|item| item.restore(document)),
            DocumentValue::Map(entries) => entries.iter_mut().for_each(|(_, node)| node.restore(document)),
            DocumentValue::Null | DocumentValue::Text(_) => {}
        }
    }

    /// Name of the kind, for messages.
    pub fn kind(&self) -> String {
        match &self.value {
            DocumentValue::Null => "nothing".into(),
            DocumentValue::Plain(word) => word.clone(),
            DocumentValue::Text(text) => format!("{:?}", shortened(text)),
            DocumentValue::List(_) => "a list".into(),
            DocumentValue::Map(_) => "a map".into(),
        }
    }
}

/// The library's message without its advice to programmers.
fn plain_message(text: &str) -> String {
    if text.contains("budget breached") {
        let what = match text {
            breach if breach.contains("Document") => "it holds more than one document",
            breach if breach.contains("Depth") => "it is nested more than 32 deep",
            _ => "it holds more than 50 000 values",
        };
        return what.into();
    }
    match text.find("DuplicateKeyPolicy") {
        Some(at) => {
            let own = text[..at].rfind([',', ';', '.', ':', '(']).map_or(&text[..at], |end| &text[..end]);
            own.trim().to_string()
        }
        None => text.to_string(),
    }
}

/// A text cut to a length that fits into a message.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

impl<'de> Deserialize<'de> for DocumentNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<DocumentValue>::deserialize(deserializer)?;
        let span = spanned.defined.span();
        let text =
            span.byte_offset().zip(span.byte_len()).map(|(from, length)| (from as usize, length as usize));
        Ok(Self { place: spanned.referenced.into(), value: spanned.value, text })
    }
}

impl<'de> Deserialize<'de> for DocumentValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentValueVisitor)
    }
}

struct DocumentValueVisitor;

impl<'de> Visitor<'de> for DocumentValueVisitor {
    type Value = DocumentValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Null)
    }
    fn visit_none<E>(self) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<DocumentValue, D::Error> {
        deserializer.deserialize_any(DocumentValueVisitor)
    }
    fn visit_bool<E>(self, yes: bool) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Plain(yes.to_string()))
    }
    fn visit_i64<E>(self, number: i64) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Plain(number.to_string()))
    }
    fn visit_u64<E>(self, number: u64) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Plain(number.to_string()))
    }
    fn visit_f64<E>(self, number: f64) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Plain(number.to_string()))
    }
    fn visit_str<E>(self, text: &str) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Text(text.to_string()))
    }
    fn visit_string<E>(self, text: String) -> Result<DocumentValue, E> {
        Ok(DocumentValue::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<DocumentValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(DocumentValue::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<DocumentValue, A::Error> {
        let mut map: Vec<(DocumentKey, DocumentNode)> = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let node = entries.next_value()?;
            let key = DocumentKey { name: key.value, place: key.referenced.into() };
            if map.iter().any(|(known, _)| known.name == key.name) {
                return Err(A::Error::custom(format!("the field {:?} is there twice", key.name)));
            }
            map.push((key, node));
        }
        Ok(DocumentValue::Map(map))
    }
}
