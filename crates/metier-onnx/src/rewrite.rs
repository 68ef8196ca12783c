//! Changes operators of a file's main graph, and copies everything else unchanged.
//!
//! For engines that lack an operator or interpret one differently from the standard: other
//! operators replace it and produce the same values.

use std::collections::BTreeMap;

use crate::Error;
use crate::build::{Setting, attribute, node, tensor};
use crate::graph::{DataType, Model};
use crate::wire::{Field, Slice};
use crate::write::Message;

/// A set of changes to a file.
#[derive(Debug)]
pub struct Rewrite<'a> {
    bytes: &'a [u8],
    model: &'a Model,
    nodes: BTreeMap<usize, Vec<Vec<u8>>>,
    constants: Vec<Vec<u8>>,
    /// New names of external files.
    files: BTreeMap<String, String>,
    /// Whether external weights get explicit offsets and lengths.
    tells_spans: bool,
}

impl<'a> Rewrite<'a> {
    /// Starts without changes, for a file and its parsed model.
    pub fn new(bytes: &'a [u8], model: &'a Model) -> Self {
        let (nodes, files) = (BTreeMap::new(), BTreeMap::new());
        Self { bytes, model, nodes, constants: Vec::new(), files, tells_spans: false }
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && !self.has_outside()
    }

    fn has_outside(&self) -> bool {
        self.tells_spans || !self.files.is_empty()
    }

    /// Writes offset and length of external weights explicitly, also where the file omits them.
    pub fn tell_spans(&mut self) {
        self.tells_spans = true;
    }

    /// Renames an external weight file.
    pub fn file(&mut self, from: &str, to: &str) {
        self.files.insert(from.to_string(), to.to_string());
    }

    /// Adds an operator to the replacements of operator `of`; the first call removes that operator.
    pub fn instead(
        &mut self,
        of: usize,
        kind: &str,
        name: &str,
        inputs: &[&str],
        output: &str,
        settings: &[(&str, Setting)],
    ) {
        self.nodes.entry(of).or_default().push(node(kind, name, inputs, &[output], settings));
    }

    /// Keeps an operator and adds attributes to it.
    pub fn add(&mut self, to: usize, settings: &[(&str, Setting)]) {
        let Some(own) = self.model.graph.nodes.get(to).and_then(|node| self.bytes.get(node.span.clone()))
        else {
            return;
        };
        // Repeated fields may stand anywhere in a message.
        let mut bytes = own.to_vec();
        for (name, setting) in settings {
            let mut field = Message::default();
            field.bytes(5, &attribute(name, setting));
            bytes.extend(field.into_bytes());
        }
        self.nodes.insert(to, vec![bytes]);
    }

    /// Adds a float constant.
    pub fn number(&mut self, name: &str, number: f32) {
        self.constants.push(tensor(name, DataType::Float, &[], &number.to_le_bytes()));
    }

    /// Adds an integer list constant.
    pub fn integers(&mut self, name: &str, numbers: &[i64]) {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constants.push(tensor(name, DataType::Int64, &[numbers.len() as u64], &raw));
    }

    pub fn finish(&self) -> Result<Vec<u8>, Error> {
        let mut file = Message::default();
        let mut fields = Slice::whole(self.bytes).fields();
        while let Some((number, field)) = fields.next()? {
            match field {
                Field::Bytes(graph) if number == 7 => file.bytes(7, &self.graph(graph)?),
                other => file.field(number, other),
            }
        }
        Ok(file.into_bytes())
    }

    fn graph(&self, graph: Slice<'_>) -> Result<Vec<u8>, Error> {
        let mut message = Message::default();
        let mut fields = graph.fields();
        let mut index = 0;
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, _) => {}
                (5, Field::Bytes(tensor)) if self.has_outside() => {
                    message.bytes(5, &self.renamed(tensor)?);
                    continue;
                }
                _ => {
                    message.field(number, field);
                    continue;
                }
            }
            match self.nodes.get(&index) {
                Some(others) => others.iter().for_each(|other| message.bytes(1, other)),
                None => message.field(number, field),
            }
            index += 1;
        }
        self.constants.iter().for_each(|constant| message.bytes(5, constant));
        Ok(message.into_bytes())
    }
}

impl Rewrite<'_> {
    /// Rewrites the description of an external constant: its new file name, and its offset and
    /// length.
    fn renamed(&self, tensor: Slice<'_>) -> Result<Vec<u8>, Error> {
        let mut message = Message::default();
        let mut fields = tensor.fields();
        let (mut name, mut told) = (String::new(), Vec::new());
        while let Some((number, field)) = fields.next()? {
            if let (8, Field::Bytes(text)) = (number, field) {
                name = text.text();
            }
            let (13, Field::Bytes(entry)) = (number, field) else {
                message.field(number, field);
                continue;
            };
            let mut changed = Message::default();
            let mut inner = entry.fields();
            while let Some((number, field)) = inner.next()? {
                match field {
                    Field::Bytes(text) if number == 2 => {
                        let text = text.text();
                        changed.bytes(2, self.files.get(&text).unwrap_or(&text).as_bytes());
                    }
                    Field::Bytes(key) if number == 1 => {
                        told.push(key.text());
                        changed.field(number, field);
                    }
                    other => changed.field(number, other),
                }
            }
            message.bytes(13, &changed.into_bytes());
        }
        let known = self.model.graph.initializers.iter().find(|known| known.name == name);
        if let Some(known) = known.filter(|known| self.tells_spans && known.external.is_some()) {
            let (start, length) = (known.external_span.0, known.external_span.1.or_else(|| known.bytes()));
            for (key, value) in [("offset", Some(start)), ("length", length)] {
                let Some(value) = value.filter(|_| !told.iter().any(|one| one == key)) else { continue };
                let mut entry = Message::default();
                entry.bytes(1, key.as_bytes());
                entry.bytes(2, value.to_string().as_bytes());
                message.bytes(13, &entry.into_bytes());
            }
        }
        Ok(message.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Builder;
    use crate::{Bindings, Limits, analyse, read};

    #[test]
    fn an_operator_is_replaced_and_the_rest_stays() {
        let mut made = Builder::new(3);
        let x = made.input(DataType::Float, &[1, 4]);
        let weights = made.weights(&[4, 4], 4);
        let product = made.node("MatMul", &[&x, &weights], &[]);
        let bent = made.node("Relu", &[&product], &[]);
        made.output(&bent);
        let bytes = made.finish();
        let model = read(&bytes, &Limits::default()).unwrap();
        assert_eq!(Rewrite::new(&bytes, &model).finish().unwrap(), bytes);
        let mut rewrite = Rewrite::new(&bytes, &model);
        assert!(rewrite.is_empty());
        rewrite.number("two", 2.0);
        rewrite.instead(1, "Mul", "twice", &[&product, "two"], "doubled", &[]);
        rewrite.instead(1, "LeakyRelu", "bend", &["doubled"], &bent, &[("alpha", Setting::Float(0.5))]);
        let changed = read(&rewrite.finish().unwrap(), &Limits::default()).unwrap();
        let kinds: Vec<&str> = changed.graph.nodes.iter().map(|node| node.kind.as_str()).collect();
        assert_eq!(kinds, ["MatMul", "Mul", "LeakyRelu"]);
        let told = analyse(&changed, &Bindings::default(), &Limits::default()).unwrap();
        assert_eq!((told.parameters, told.multiply_adds), (17, 16));
    }

    #[test]
    fn attributes_are_added() {
        let mut made = Builder::new(3);
        let x = made.input(DataType::Float, &[1, 3, 8, 8]);
        let weights = made.weights(&[4, 3, 3, 3], 27);
        let conv = made.node("Conv", &[&x, &weights], &[("strides", Setting::Integers(vec![2, 2]))]);
        made.output(&conv);
        let bytes = made.finish();
        let model = read(&bytes, &Limits::default()).unwrap();
        let mut rewrite = Rewrite::new(&bytes, &model);
        rewrite.add(0, &[("kernel_shape", Setting::Integers(vec![3, 3]))]);
        let changed = read(&rewrite.finish().unwrap(), &Limits::default()).unwrap();
        let node = &changed.graph.nodes[0];
        assert_eq!(
            (node.integers("kernel_shape"), node.integers("strides")),
            (Some(&[3, 3][..]), Some(&[2, 2][..]))
        );
    }
}
