//! A YAML or JSON document as a tree in which every value knows its place.
//!
//! The shape is looked at later, so that one wrong field does not hide the next. Scalars keep the text that was
//! written: an argument `0.50` stays `0.50`, and `1.10` does not become `1.1`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::fault::{Fault, Faults};

/// No run file is larger; something else was named by mistake.
pub const MOST_BYTES: usize = 1 << 20;

/// Line and column, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// From 1; 0 is unknown.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

/// One value and where it is written.
#[derive(Debug, Clone)]
pub struct Node {
    pub place: Place,
    pub value: Value,
    /// Where its text lies in the document: first byte and length.
    text: Option<(usize, usize)>,
}

/// What a document can hold.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    /// A plain word that is neither text nor null: the bool or number as it was written.
    Plain(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// The name of an entry and where it is written.
#[derive(Debug, Clone)]
pub struct Key {
    pub name: String,
    pub place: Place,
}

impl Node {
    pub fn parse(text: &str) -> Result<Self, Faults> {
        if text.len() > MOST_BYTES {
            return Err(Fault::document("it is larger than 1 MiB", "a run file").into());
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
        let mut node: Node = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let place = error.location().map(Place::from).unwrap_or_default();
            let said = error.without_snippet().to_string();
            // The library ends its sentence with the place, and may go on in further lines; we say it before.
            let said = said.lines().next().unwrap_or_default();
            let said = plainly(said.split(" at line ").next().unwrap_or(said));
            Faults::from(Fault {
                place: Some(place),
                ..Fault::document(&said, "YAML such as `command: [sleep, \"1\"]`, or JSON")
            })
        })?;
        node.restore(text);
        Ok(node)
    }

    /// Puts the written text of numbers and the like back in.
    fn restore(&mut self, document: &str) {
        match &mut self.value {
            Value::Plain(word) => {
                let written =
                    self.text.and_then(|(from, length)| document.get(from..from + length)).map(str::trim);
                if let Some(written) =
                    written.filter(|written| !written.is_empty() && !written.starts_with(['!', '&', '*']))
                {
                    *word = written.to_string();
                }
            }
            Value::List(items) => items.iter_mut().for_each(|item| item.restore(document)),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, node)| node.restore(document)),
            Value::Null | Value::Text(_) => {}
        }
    }

    /// What it is, for people.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Plain(word) => word.clone(),
            Value::Text(text) => format!("{:?}", shortened(text)),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }
}

/// What the library says, without what only its own caller could do about it.
fn plainly(said: &str) -> String {
    if said.contains("budget breached") {
        let what = match said {
            said if said.contains("Document") => "it holds more than one document",
            said if said.contains("Depth") => "it is nested more than 32 deep",
            _ => "it holds more than 50 000 values",
        };
        return what.into();
    }
    match said.find("DuplicateKeyPolicy") {
        Some(at) => {
            let own = said[..at].rfind([',', ';', '.', ':', '(']).map_or(&said[..at], |end| &said[..end]);
            own.trim().to_string()
        }
        None => said.to_string(),
    }
}

/// A text that fits into a message.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        let span = spanned.defined.span();
        let text =
            span.byte_offset().zip(span.byte_len()).map(|(from, length)| (from as usize, length as usize));
        Ok(Self { place: spanned.referenced.into(), value: spanned.value, text })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Any)
    }
    fn visit_bool<E>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Plain(yes.to_string()))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Plain(number.to_string()))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Plain(number.to_string()))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Plain(number.to_string()))
    }
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_string()))
    }
    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map: Vec<(Key, Node)> = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let node = entries.next_value()?;
            let key = Key { name: key.value, place: key.referenced.into() };
            if map.iter().any(|(known, _)| known.name == key.name) {
                return Err(A::Error::custom(format!("the field {:?} is there twice", key.name)));
            }
            map.push((key, node));
        }
        Ok(Value::Map(map))
    }
}
