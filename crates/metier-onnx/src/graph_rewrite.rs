//! Changes operators of a file's main graph, and copies everything else unchanged.
//!
//! For engines that lack an operator or interpret one differently from the standard: other
//! operators replace it and produce the same values.

use std::collections::BTreeMap;

use crate::Error;
use crate::graph::{DataType, OnnxFile};
use crate::graph_builder::{AttributeValue, encode_attribute, encode_node, encode_tensor};
use crate::protobuf_reader::{ProtobufField, ProtobufSlice};
use crate::protobuf_writer::ProtobufWriter;

/// A set of changes to a file.
#[derive(Debug)]
pub struct GraphRewrite<'a> {
    bytes: &'a [u8],
    model: &'a OnnxFile,
    nodes: BTreeMap<usize, Vec<Vec<u8>>>,
    constants: Vec<Vec<u8>>,
    /// New names of external files.
    files: BTreeMap<String, String>,
    /// Whether external weights get explicit offsets and lengths.
    tells_spans: bool,
}

impl<'a> GraphRewrite<'a> {
    /// Starts without changes, for a file and its parsed model.
    pub fn new(bytes: &'a [u8], model: &'a OnnxFile) -> Self {
        let (nodes, files) = (BTreeMap::new(), BTreeMap::new());
        Self { bytes, model, nodes, constants: Vec::new(), files, tells_spans: false }
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && !self.has_external_changes()
    }

    fn has_external_changes(&self) -> bool {
        self.tells_spans || !self.files.is_empty()
    }

    /// Writes offset and length of external weights explicitly, also where the file omits them.
    pub fn write_external_spans(&mut self) {
        self.tells_spans = true;
    }

    /// Renames an external weight file.
    pub fn rename_external_file(&mut self, from: &str, to: &str) {
        self.files.insert(from.to_string(), to.to_string());
    }

    /// Adds an operator to the replacements of operator `of`; the first call removes that operator.
    pub fn replace_node(
        &mut self,
        of: usize,
        kind: &str,
        name: &str,
        inputs: &[&str],
        output: &str,
        settings: &[(&str, AttributeValue)],
    ) {
        self.nodes.entry(of).or_default().push(encode_node(kind, name, inputs, &[output], settings));
    }

    /// Keeps an operator and adds attributes to it.
    pub fn add_attributes(&mut self, to: usize, settings: &[(&str, AttributeValue)]) {
        let Some(own) = self.model.graph.nodes.get(to).and_then(|node| self.bytes.get(node.span.clone()))
        else {
            return;
        };
        // Repeated fields may stand anywhere in a message.
        let mut bytes = own.to_vec();
        for (name, setting) in settings {
            let mut field = ProtobufWriter::default();
            field.write_bytes(5, &encode_attribute(name, setting));
            bytes.extend(field.into_bytes());
        }
        self.nodes.insert(to, vec![bytes]);
    }

    /// Adds a float constant.
    pub fn add_float(&mut self, name: &str, number: f32) {
        self.constants.push(encode_tensor(name, DataType::Float, &[], &number.to_le_bytes()));
    }

    /// Adds an integer list constant.
    pub fn add_integers(&mut self, name: &str, numbers: &[i64]) {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constants.push(encode_tensor(name, DataType::Int64, &[numbers.len() as u64], &raw));
    }

    pub fn finish(&self) -> Result<Vec<u8>, Error> {
        let mut file = ProtobufWriter::default();
        let mut fields = ProtobufSlice::from_file(self.bytes).fields();
        while let Some((number, field)) = fields.next_field()? {
            match field {
                ProtobufField::Bytes(graph) if number == 7 => {
                    file.write_bytes(7, &self.rewrite_graph(graph)?)
                }
                other => file.write_field(number, other),
            }
        }
        Ok(file.into_bytes())
    }

    fn rewrite_graph(&self, graph: ProtobufSlice<'_>) -> Result<Vec<u8>, Error> {
        let mut message = ProtobufWriter::default();
        let mut fields = graph.fields();
        let mut index = 0;
        while let Some((number, field)) = fields.next_field()? {
            match (number, field) {
                (1, _) => {}
                (5, ProtobufField::Bytes(tensor)) if self.has_external_changes() => {
                    message.write_bytes(5, &self.rewrite_external_tensor(tensor)?);
                    continue;
                }
                _ => {
                    message.write_field(number, field);
                    continue;
                }
            }
            match self.nodes.get(&index) {
                Some(others) => others.iter().for_each(|other| message.write_bytes(1, other)),
                None => message.write_field(number, field),
            }
            index += 1;
        }
        self.constants.iter().for_each(|constant| message.write_bytes(5, constant));
        Ok(message.into_bytes())
    }
}

impl GraphRewrite<'_> {
    /// Rewrites the description of an external constant: its new file name, and its offset and
    /// length.
    fn rewrite_external_tensor(&self, tensor: ProtobufSlice<'_>) -> Result<Vec<u8>, Error> {
        let mut message = ProtobufWriter::default();
        let mut fields = tensor.fields();
        let (mut name, mut texts) = (String::new(), Vec::new());
        while let Some((number, field)) = fields.next_field()? {
            if let (8, ProtobufField::Bytes(text)) = (number, field) {
                name = text.text();
            }
            let (13, ProtobufField::Bytes(entry)) = (number, field) else {
                message.write_field(number, field);
                continue;
            };
            let mut changed = ProtobufWriter::default();
            let mut inner = entry.fields();
            while let Some((number, field)) = inner.next_field()? {
                match field {
                    ProtobufField::Bytes(text) if number == 2 => {
                        let text = text.text();
                        changed.write_bytes(2, self.files.get(&text).unwrap_or(&text).as_bytes());
                    }
                    ProtobufField::Bytes(key) if number == 1 => {
                        texts.push(key.text());
                        changed.write_field(number, field);
                    }
                    other => changed.write_field(number, other),
                }
            }
            message.write_bytes(13, &changed.into_bytes());
        }
        let known = self.model.graph.initializers.iter().find(|known| known.name == name);
        if let Some(known) = known.filter(|known| self.tells_spans && known.external.is_some()) {
            let (start, length) = (known.external_span.0, known.external_span.1.or_else(|| known.bytes()));
            for (key, value) in [("offset", Some(start)), ("length", length)] {
                let Some(value) = value.filter(|_| !texts.iter().any(|text| text == key)) else { continue };
                let mut entry = ProtobufWriter::default();
                entry.write_bytes(1, key.as_bytes());
                entry.write_bytes(2, value.to_string().as_bytes());
                message.write_bytes(13, &entry.into_bytes());
            }
        }
        Ok(message.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_builder::GraphBuilder;
    use crate::{OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

    #[test]
    fn an_operator_is_replaced_and_the_rest_stays() {
        let mut made = GraphBuilder::new(3);
        let x = made.add_input(DataType::Float, &[1, 4]);
        let weights = made.add_weights(&[4, 4], 4);
        let product = made.encode_node("MatMul", &[&x, &weights], &[]);
        let bent = made.encode_node("Relu", &[&product], &[]);
        made.add_output(&bent);
        let bytes = made.finish();
        let model = read_onnx(&bytes, &OnnxLimits::default()).unwrap();
        assert_eq!(GraphRewrite::new(&bytes, &model).finish().unwrap(), bytes);
        let mut rewrite = GraphRewrite::new(&bytes, &model);
        assert!(rewrite.is_empty());
        rewrite.add_float("two", 2.0);
        rewrite.replace_node(1, "Mul", "twice", &[&product, "two"], "doubled", &[]);
        rewrite.replace_node(
            1,
            "LeakyRelu",
            "bend",
            &["doubled"],
            &bent,
            &[("alpha", AttributeValue::Float(0.5))],
        );
        let changed = read_onnx(&rewrite.finish().unwrap(), &OnnxLimits::default()).unwrap();
        let kinds: Vec<&str> = changed.graph.nodes.iter().map(|node| node.kind.as_str()).collect();
        assert_eq!(kinds, ["MatMul", "Mul", "LeakyRelu"]);
        let analysis = analyse_graph(&changed, &ShapeBindings::default(), &OnnxLimits::default()).unwrap();
        assert_eq!((analysis.parameters, analysis.multiply_adds), (17, 16));
    }

    #[test]
    fn attributes_are_added() {
        let mut made = GraphBuilder::new(3);
        let x = made.add_input(DataType::Float, &[1, 3, 8, 8]);
        let weights = made.add_weights(&[4, 3, 3, 3], 27);
        let conv =
            made.encode_node("Conv", &[&x, &weights], &[("strides", AttributeValue::Integers(vec![2, 2]))]);
        made.add_output(&conv);
        let bytes = made.finish();
        let model = read_onnx(&bytes, &OnnxLimits::default()).unwrap();
        let mut rewrite = GraphRewrite::new(&bytes, &model);
        rewrite.add_attributes(0, &[("kernel_shape", AttributeValue::Integers(vec![3, 3]))]);
        let changed = read_onnx(&rewrite.finish().unwrap(), &OnnxLimits::default()).unwrap();
        let node = &changed.graph.nodes[0];
        assert_eq!(
            (node.integers("kernel_shape"), node.integers("strides")),
            (Some(&[3, 3][..]), Some(&[2, 2][..]))
        );
    }
}
