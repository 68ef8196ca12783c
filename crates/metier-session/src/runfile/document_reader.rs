//! Reads a tree of values field by field. An invalid value becomes a fault, and reading continues.

use std::collections::BTreeMap;
use std::time::Duration;

use super::document::{DocumentKey, DocumentNode, DocumentValue, shortened};
use super::fault::{FieldOrigins, RunFileFault};
use super::nearest::nearest;

/// Faults so far, and the origin of each field.
#[derive(Debug, Default)]
pub struct DocumentReader {
    pub faults: Vec<RunFileFault>,
    pub origins: FieldOrigins,
    /// Nesting depth of the run file.
    pub depth: usize,
}

impl DocumentReader {
    /// Records an invalid value.
    pub fn wrong(&mut self, node: &DocumentNode, path: &str, want: &str) {
        self.faults
            .push(RunFileFault { place: Some(node.place), ..RunFileFault::new(path, node.kind(), want) });
    }

    /// Reads the entries of a map by name; unknown entries are faults.
    pub fn map<T>(
        &mut self,
        node: DocumentNode,
        path: &str,
        want: &str,
        read: impl FnOnce(&mut MapFields<'_>) -> T,
    ) -> Option<T> {
        let DocumentValue::Map(entries) = node.value else {
            self.wrong(&node, path, want);
            return None;
        };
        let mut fields = MapFields { reader: self, path: path.to_string(), entries, known: Vec::new() };
        let read = read(&mut fields);
        fields.end();
        Some(read)
    }

    /// A text; numbers and bools give their original text.
    pub fn text(&mut self, node: DocumentNode, path: &str, want: &str) -> Option<String> {
        match node.value {
            DocumentValue::Text(text) | DocumentValue::Plain(text) if !text.contains('\0') => Some(text),
            _ => {
                self.wrong(&node, path, want);
                None
            }
        }
    }

    /// A list, item by item. An invalid item leaves a default value, so that later items keep their
    /// indices. It is a fault already, so faults inside it are not reported again.
    pub fn list<T: Default>(
        &mut self,
        node: DocumentNode,
        path: &str,
        want: &str,
        mut read: impl FnMut(&mut Self, DocumentNode, &str) -> Option<T>,
    ) -> Vec<T> {
        let items = self.items(node, path, want);
        items.into_iter().map(|(path, item)| read(self, item, &path).unwrap_or_default()).collect()
    }

    /// The items of a list, each with its full name.
    pub fn items(&mut self, node: DocumentNode, path: &str, want: &str) -> Vec<(String, DocumentNode)> {
        let DocumentValue::List(items) = node.value else {
            self.wrong(&node, path, want);
            return Vec::new();
        };
        let named = items.into_iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item));
        named.inspect(|(path, item)| self.origins.set_place(path, item.place)).collect()
    }
}

/// The entries of one map.
pub struct MapFields<'a> {
    pub reader: &'a mut DocumentReader,
    path: String,
    entries: Vec<(DocumentKey, DocumentNode)>,
    known: Vec<&'static str>,
}

impl MapFields<'_> {
    /// The full name of a field.
    pub fn full(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_string(),
            path => format!("{path}.{name}"),
        }
    }

    /// The node of a field; `None` if it is missing or null.
    pub fn take(&mut self, name: &'static str) -> Option<DocumentNode> {
        self.known.push(name);
        let at = self.entries.iter().position(|(key, _)| key.name == name)?;
        let (_, node) = self.entries.remove(at);
        self.reader.origins.set_place(&self.full(name), node.place);
        if matches!(node.value, DocumentValue::Null) { None } else { Some(node) }
    }

    /// The same with its full name.
    pub fn take_named(&mut self, name: &'static str) -> Option<(DocumentNode, String)> {
        let node = self.take(name)?;
        Some((node, self.full(name)))
    }

    pub fn text(&mut self, name: &'static str, want: &str) -> Option<String> {
        let (node, path) = self.take_named(name)?;
        self.reader.text(node, &path, want)
    }

    /// A list, as [`DocumentReader::list`] reads it.
    pub fn list<T: Default>(
        &mut self,
        name: &'static str,
        want: &str,
        read: impl FnMut(&mut DocumentReader, DocumentNode, &str) -> Option<T>,
    ) -> Vec<T> {
        let Some((node, path)) = self.take_named(name) else { return Vec::new() };
        self.reader.list(node, &path, want, read)
    }

    /// Texts, one or a list of them.
    pub fn texts(&mut self, name: &'static str, want: &str) -> Vec<String> {
        let Some((node, path)) = self.take_named(name) else { return Vec::new() };
        match node.value {
            DocumentValue::Text(text) => vec![text],
            _ => self.reader.list(node, &path, want, |reader, item, path| reader.text(item, path, want)),
        }
    }

    /// A list of texts and nothing else.
    pub fn words(&mut self, name: &'static str, want: &str) -> Vec<String> {
        self.list(name, want, |reader, item, path| reader.text(item, path, want))
    }

    pub fn time(
        &mut self,
        name: &'static str,
        want: &str,
        read: impl Fn(&str) -> Option<Duration>,
    ) -> Option<Duration> {
        let (node, path) = self.take_named(name)?;
        let place = Some(node.place);
        let text = self.reader.text(node, &path, want)?;
        let time = read(&text);
        if time.is_none() {
            let got = format!("{:?}", shortened(&text));
            self.reader.faults.push(RunFileFault { place, ..RunFileFault::new(path, got, want) });
        }
        time
    }

    pub fn switch(&mut self, name: &'static str, want: &str) -> bool {
        let Some((node, path)) = self.take_named(name) else { return false };
        let is_set = matches!(&node.value, DocumentValue::Plain(word) if word == "true");
        if !is_set && !matches!(&node.value, DocumentValue::Plain(word) if word == "false") {
            self.reader.wrong(&node, &path, want);
        }
        is_set
    }

    pub fn number(&mut self, name: &'static str, want: &str) -> Option<u32> {
        let (node, path) = self.take_named(name)?;
        if let DocumentValue::Plain(word) = &node.value
            && let Ok(number) = word.parse()
        {
            return Some(number);
        }
        self.reader.wrong(&node, &path, want);
        None
    }

    /// A map of names to texts.
    pub fn table(&mut self, name: &'static str, want: &str) -> BTreeMap<String, String> {
        let Some((node, path)) = self.take_named(name) else { return BTreeMap::new() };
        let DocumentValue::Map(entries) = node.value else {
            self.reader.wrong(&node, &path, want);
            return BTreeMap::new();
        };
        let mut table = BTreeMap::new();
        for (key, node) in entries {
            let path = format!("{path}.{}", key.name);
            self.reader.origins.set_place(&path, node.place);
            if let Some(text) = self.reader.text(node, &path, want) {
                table.insert(key.name, text);
            }
        }
        table
    }

    pub fn inner<T>(
        &mut self,
        name: &'static str,
        want: &str,
        read: impl FnOnce(&mut MapFields<'_>) -> T,
    ) -> Option<T> {
        let (node, path) = self.take_named(name)?;
        self.reader.map(node, &path, want, read)
    }

    /// An unread entry is a typing mistake or a field of a later version; neither may be ignored.
    fn end(self) {
        for (key, _) in &self.entries {
            let field = match self.path.as_str() {
                "" => key.name.clone(),
                path => format!("{path}.{}", key.name),
            };
            let want = match nearest(&key.name, self.known.iter().copied()) {
                Some(near) => format!("{near:?}, perhaps"),
                None => format!("one of {}", self.known.join(", ")),
            };
            let field = shortened(&field);
            self.reader.faults.push(RunFileFault {
                place: Some(key.place),
                ..RunFileFault::new(field, "not a field of a run file", want)
            });
        }
    }
}
