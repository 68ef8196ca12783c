//! Builds an [`OnnxFile`] from the bytes of an ONNX file, within limits.
//!
//! Field numbers are those of `onnx.proto`. Other fields are skipped: documentation, training,
//! quantisation annotations. Every item is counted before it is stored, so that a file of many
//! empty messages cannot exceed its memory limit. Only small tensors store their elements; others
//! store their byte range.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{
    ConstantTensor, DataType, Graph, GraphNode, LocalFunction, NodeAttribute, OnnxFile, SmallElements,
    TensorDimension, ValueInfo,
};
use crate::protobuf_reader::{ProtobufField, ProtobufSlice};
use crate::{Error, OnnxLimits};

/// Largest number of stored elements per tensor: shapes, axes, pads, scales.
const MAX_SMALL_ELEMENTS: u64 = 4096;
/// Largest number of characters of a displayed name.
const MAX_NAME_CHARS: usize = 120;
/// Largest total number of stored elements: 4 bits in the file take 64 in memory.
const MAX_TOTAL_SMALL_ELEMENTS: u64 = 16 << 20;

pub fn read_onnx(bytes: &[u8], limits: &OnnxLimits) -> Result<OnnxFile, Error> {
    let file = bytes.len();
    check_limit("the size of the file in bytes", file as u64, limits.file_bytes as u64)?;
    OnnxReader { limits: *limits, nodes: 0, items: 0, number: 0, file }
        .read_model(ProtobufSlice::from_file(bytes))
}

fn check_limit(what: &'static str, got: u64, most: u64) -> Result<(), Error> {
    if got > most { Err(Error::LimitExceeded { what, got, most }) } else { Ok(()) }
}

struct OnnxReader {
    limits: OnnxLimits,
    nodes: usize,
    items: usize,
    /// Stored elements of small tensors.
    number: u64,
    file: usize,
}

impl OnnxReader {
    fn count_item(&mut self) -> Result<(), Error> {
        self.items += 1;
        check_limit("the number of tensors, values and names", self.items as u64, self.limits.items as u64)
    }

    fn read_model(&mut self, message: ProtobufSlice) -> Result<OnnxFile, Error> {
        let mut model = OnnxFile::default();
        let mut graph = None;
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            match (number, field) {
                (1, ProtobufField::Number(version)) => model.ir_version = version as i64,
                (2, ProtobufField::Bytes(name)) => model.producer = name.text(),
                (7, ProtobufField::Bytes(content)) => graph = Some(self.read_graph(content, 0)?),
                (8, ProtobufField::Bytes(content)) => {
                    self.count_item()?;
                    let (domain, version) = read_opset(content)?;
                    model.opsets.insert(domain, version);
                }
                (25, ProtobufField::Bytes(content)) => {
                    self.count_item()?;
                    model.functions.push(self.read_function(content)?);
                }
                _ => {}
            }
        }
        model.graph = graph.ok_or_else(|| Error::NoGraph {
            what: format!("there is no graph in its {} bytes; is it another kind of file?", self.file),
        })?;
        if model.graph.nodes.is_empty() {
            return Err(Error::NoGraph { what: "its graph has no operators".to_string() });
        }
        Ok(model)
    }

    fn read_graph(&mut self, message: ProtobufSlice, depth: usize) -> Result<Graph, Error> {
        check_limit("the depth of graphs inside graphs", depth as u64, self.limits.depth as u64)?;
        let mut graph = Graph::default();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            let ProtobufField::Bytes(content) = field else { continue };
            match number {
                1 => {
                    self.count_operator()?;
                    graph.nodes.push(self.read_node(content, depth)?);
                }
                2 => graph.name = content.text(),
                5 => graph.initializers.push(self.read_tensor(content)?),
                15 => graph.initializers.push(self.read_sparse_tensor(content)?),
                11 => graph.inputs.push(self.read_value(content)?),
                12 => graph.outputs.push(self.read_value(content)?),
                13 => graph.values.push(self.read_value(content)?),
                _ => {}
            }
        }
        // Old files list their constants among the inputs.
        let constants: BTreeSet<&str> =
            graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        graph.inputs.retain(|input| !constants.contains(input.name.as_str()));
        Ok(graph)
    }

    /// Reads an operator that the file defines itself.
    fn read_function(&mut self, message: ProtobufSlice) -> Result<LocalFunction, Error> {
        let mut function = LocalFunction::default();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            let ProtobufField::Bytes(content) = field else { continue };
            match number {
                1 => function.name = content.text(),
                4 | 5 => {
                    self.count_item()?;
                    let value = ValueInfo { name: content.text(), data_type: None, shape: None };
                    let graph = &mut function.graph;
                    if number == 4 { graph.inputs.push(value) } else { graph.outputs.push(value) }
                }
                7 => {
                    self.count_operator()?;
                    function.graph.nodes.push(self.read_node(content, 0)?);
                }
                9 => {
                    let (domain, version) = read_opset(content)?;
                    if matches!(domain.as_str(), "" | "ai.onnx") {
                        function.opset = Some(version);
                    }
                }
                10 => function.domain = content.text(),
                11 => {
                    self.count_item()?;
                    let (name, value) = self.read_attribute(content, 0)?;
                    function.defaults.insert(name, value);
                }
                13 => function.overload = content.text(),
                _ => {}
            }
        }
        Ok(function)
    }

    fn count_operator(&mut self) -> Result<(), Error> {
        self.nodes += 1;
        check_limit("the number of operators", self.nodes as u64, self.limits.nodes as u64)
    }

    fn read_node(&mut self, message: ProtobufSlice, depth: usize) -> Result<GraphNode, Error> {
        let mut node = GraphNode {
            name: String::new(),
            kind: String::new(),
            domain: String::new(),
            overload: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: BTreeMap::new(),
            span: message.start..message.start + message.bytes.len(),
        };
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            let ProtobufField::Bytes(content) = field else { continue };
            match number {
                1 | 2 => {
                    self.count_item()?;
                    let side = if number == 1 { &mut node.inputs } else { &mut node.outputs };
                    side.push(content.text());
                }
                3 => node.name = content.text(),
                4 => node.kind = content.text(),
                5 => {
                    self.count_item()?;
                    let (name, value) = self.read_attribute(content, depth)?;
                    node.attributes.insert(name, value);
                }
                7 => node.domain = content.text(),
                8 => node.overload = content.text(),
                _ => {}
            }
        }
        Ok(node)
    }

    fn read_attribute(
        &mut self,
        message: ProtobufSlice,
        depth: usize,
    ) -> Result<(String, NodeAttribute), Error> {
        let mut name = String::new();
        let mut value = NodeAttribute::Other;
        let mut outer = None;
        let (mut integers, mut floats) = (Vec::new(), Vec::new());
        let (mut texts, mut graphs) = (Vec::new(), Vec::new());
        let mut kind = 0;
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            match (number, field) {
                (1, ProtobufField::Bytes(text)) => name = text.text(),
                (20, ProtobufField::Number(number)) => kind = number,
                (21, ProtobufField::Bytes(text)) if !text.bytes.is_empty() => outer = Some(text.text()),
                (2, ProtobufField::Fixed32(bytes)) => {
                    value = NodeAttribute::Float(f32::from_le_bytes(bytes).into())
                }
                (3, ProtobufField::Number(number)) => value = NodeAttribute::Integer(number as i64),
                (4, ProtobufField::Bytes(text)) => value = NodeAttribute::Text(text.text()),
                (5, ProtobufField::Bytes(tensor)) => {
                    value = NodeAttribute::Tensor(Arc::new(self.read_tensor(tensor)?))
                }
                (22, ProtobufField::Bytes(tensor)) => {
                    value = NodeAttribute::Tensor(Arc::new(self.read_sparse_tensor(tensor)?))
                }
                (6, ProtobufField::Bytes(graph)) => {
                    value = NodeAttribute::Graph(Box::new(self.read_graph(graph, depth + 1)?))
                }
                (7, _) => self.read_floats(field, &mut floats)?,
                (8, _) => self.read_integers(field, &mut integers)?,
                (9, ProtobufField::Bytes(text)) => {
                    self.count_item()?;
                    texts.push(text.text());
                }
                (11, ProtobufField::Bytes(graph)) => graphs.push(self.read_graph(graph, depth + 1)?),
                _ => {}
            }
        }
        if let Some(outer) = outer {
            return Ok((name, NodeAttribute::Outer(outer)));
        }
        let value = match kind {
            6 => NodeAttribute::Floats(floats),
            7 => NodeAttribute::Integers(integers),
            8 => NodeAttribute::Texts(texts),
            10 => NodeAttribute::Graphs(graphs),
            // Files before version 2 of the format do not declare the attribute type.
            0 if !integers.is_empty() => NodeAttribute::Integers(integers),
            0 if !floats.is_empty() => NodeAttribute::Floats(floats),
            0 if !texts.is_empty() => NodeAttribute::Texts(texts),
            // A writer may omit a number that is 0.
            1 if value == NodeAttribute::Other => NodeAttribute::Float(0.0),
            2 if value == NodeAttribute::Other => NodeAttribute::Integer(0),
            3 if value == NodeAttribute::Other => NodeAttribute::Text(String::new()),
            _ => value,
        };
        Ok((name, value))
    }

    fn read_integers(&mut self, field: ProtobufField, into: &mut Vec<i64>) -> Result<(), Error> {
        match field {
            ProtobufField::Number(number) => {
                self.count_item()?;
                into.push(number as i64);
            }
            ProtobufField::Bytes(packed) => {
                let mut numbers = packed.numbers();
                while let Some(number) = numbers.next_number()? {
                    self.count_item()?;
                    into.push(number as i64);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn read_floats(&mut self, field: ProtobufField, into: &mut Vec<f64>) -> Result<(), Error> {
        match field {
            ProtobufField::Fixed32(bytes) => {
                self.count_item()?;
                into.push(f32::from_le_bytes(bytes).into());
            }
            ProtobufField::Bytes(packed) => {
                for bytes in packed.bytes.chunks_exact(4) {
                    self.count_item()?;
                    into.push(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn read_tensor(&mut self, message: ProtobufSlice) -> Result<ConstantTensor, Error> {
        self.count_item()?;
        let mut tensor = ConstantTensor {
            name: String::new(),
            data_type: DataType::Other,
            dims: Vec::new(),
            small: None,
            external: None,
            external_span: (0, None),
            is_span_told: false,
            span: message.start..message.start + message.bytes.len(),
            is_sparse: false,
        };
        let (mut raw, mut starts) = (None, false);
        let mut listed: Vec<(u64, ProtobufField)> = Vec::new();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            match (number, field) {
                (1, _) => {
                    let mut dims = Vec::new();
                    self.read_integers(field, &mut dims)?;
                    tensor.dims.extend(dims.into_iter().map(|size| size as u64));
                }
                (2, ProtobufField::Number(number)) => tensor.data_type = DataType::from_number(number),
                (8, ProtobufField::Bytes(name)) => tensor.name = name.text(),
                (9, ProtobufField::Bytes(content)) => raw = Some(content),
                (4 | 5 | 7 | 10 | 11, _) if listed.len() < MAX_SMALL_ELEMENTS as usize => {
                    listed.push((number, field))
                }
                (13, ProtobufField::Bytes(entry)) => {
                    let (key, value) = read_external_entry(entry)?;
                    match (key.as_str(), value.trim().parse()) {
                        ("location", _) => tensor.external = Some(value),
                        ("offset", Ok(offset)) => {
                            (tensor.external_span.0, starts) = (offset, true);
                        }
                        ("length", Ok(length)) => tensor.external_span.1 = Some(length),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        tensor.is_span_told = starts && tensor.external_span.1.is_some();
        let count = self.count_elements(&tensor.dims)?;
        let want = tensor.bytes().filter(|_| tensor.external.is_none());
        // An empty constant: the weights were stripped from the file, and only their shapes remain.
        let raw = raw.filter(|raw| !raw.bytes.is_empty());
        if let (Some(raw), Some(want)) = (raw, want)
            && raw.bytes.len() as u64 != want
        {
            let sizes: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
            return Err(Error::ConstantSize {
                name: tensor.name.chars().take(MAX_NAME_CHARS).collect(),
                got: raw.bytes.len() as u64,
                sizes: sizes.join("x"),
                want,
            });
        }
        if count <= MAX_SMALL_ELEMENTS
            && self.number + count <= MAX_TOTAL_SMALL_ELEMENTS
            && tensor.external.is_none()
        {
            self.number += count;
            tensor.small = match raw {
                Some(raw) => elements_from_raw(tensor.data_type, raw.bytes, count as usize),
                None => self.elements_from_lists(tensor.data_type, &listed, count as usize)?,
            };
        }
        Ok(tensor)
    }

    /// Number of elements of a tensor with these dimensions.
    fn count_elements(&self, dims: &[u64]) -> Result<u64, Error> {
        check_limit("the number of dimensions", dims.len() as u64, self.limits.rank as u64)?;
        let mut count = 1u64;
        for size in dims {
            count = count.saturating_mul(*size);
            check_limit("the number of elements of a tensor", count.max(*size), self.limits.elements)?;
        }
        Ok(count)
    }

    fn elements_from_lists(
        &mut self,
        data_type: DataType,
        fields: &[(u64, ProtobufField)],
        count: usize,
    ) -> Result<Option<SmallElements>, Error> {
        let (mut integers, mut floats) = (Vec::new(), Vec::new());
        for (number, field) in fields {
            match (number, field) {
                (4, _) => self.read_floats(*field, &mut floats)?,
                (10, ProtobufField::Bytes(packed)) => {
                    floats.extend(packed.bytes.chunks_exact(8).map(f64_from_bytes))
                }
                (10, ProtobufField::Fixed64(bytes)) => floats.push(f64::from_le_bytes(*bytes)),
                (5 | 7 | 11, _) => self.read_integers(*field, &mut integers)?,
                _ => {}
            }
        }
        // 16-bit floats are stored as bit patterns in the integer list; no shape is computed from
        // them.
        let is_listed = |length: usize| length == count;
        Ok(if data_type.is_float() {
            is_listed(floats.len()).then_some(SmallElements::Floats(floats))
        } else {
            is_listed(integers.len()).then_some(SmallElements::Integers(integers))
        })
    }

    /// Reads a sparse constant, which counts as the dense one that it represents.
    fn read_sparse_tensor(&mut self, message: ProtobufSlice) -> Result<ConstantTensor, Error> {
        let mut values = None;
        let mut dims = Vec::new();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            match (number, field) {
                (1, ProtobufField::Bytes(content)) => values = Some(self.read_tensor(content)?),
                (3, _) => self.read_integers(field, &mut dims)?,
                _ => {}
            }
        }
        let mut tensor =
            values.ok_or_else(|| Error::NoGraph { what: "a sparse constant has no values".to_string() })?;
        tensor.dims = dims.into_iter().map(|size| size as u64).collect();
        tensor.small = None;
        tensor.is_sparse = true;
        tensor.span = message.start..message.start + message.bytes.len();
        self.count_elements(&tensor.dims)?;
        Ok(tensor)
    }

    fn read_value(&mut self, message: ProtobufSlice) -> Result<ValueInfo, Error> {
        self.count_item()?;
        let mut value = ValueInfo { name: String::new(), data_type: None, shape: None };
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            match (number, field) {
                (1, ProtobufField::Bytes(name)) => value.name = name.text(),
                (2, ProtobufField::Bytes(kind)) => self.read_value_type(kind, &mut value)?,
                _ => {}
            }
        }
        Ok(value)
    }

    fn read_value_type(&mut self, message: ProtobufSlice, value: &mut ValueInfo) -> Result<(), Error> {
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            // Only tensors have a declared size; sequences, maps and optional values have none.
            let (1, ProtobufField::Bytes(tensor)) = (number, field) else { continue };
            let mut fields = tensor.fields();
            while let Some((number, field)) = fields.next_field()? {
                match (number, field) {
                    (1, ProtobufField::Number(number)) => {
                        value.data_type = Some(DataType::from_number(number))
                    }
                    (2, ProtobufField::Bytes(shape)) => value.shape = Some(self.read_shape(shape)?),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn read_shape(&mut self, message: ProtobufSlice) -> Result<Vec<TensorDimension>, Error> {
        let mut dims = Vec::new();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next_field()? {
            let (1, ProtobufField::Bytes(dim)) = (number, field) else { continue };
            self.count_item()?;
            check_limit("the number of dimensions", dims.len() as u64 + 1, self.limits.rank as u64)?;
            let mut size = TensorDimension::Unknown;
            let mut fields = dim.fields();
            while let Some((number, field)) = fields.next_field()? {
                match (number, field) {
                    // Some exporters write -1 for unknown dimensions.
                    (1, ProtobufField::Number(number)) if (number as i64) >= 0 => {
                        size = TensorDimension::Known(number)
                    }
                    (2, ProtobufField::Bytes(name)) if !name.bytes.is_empty() => {
                        size = TensorDimension::Named(name.text())
                    }
                    _ => {}
                }
            }
            dims.push(size);
        }
        Ok(dims)
    }
}

fn read_opset(message: ProtobufSlice) -> Result<(String, i64), Error> {
    let (mut domain, mut version) = (String::new(), 1);
    let mut fields = message.fields();
    while let Some((number, field)) = fields.next_field()? {
        match (number, field) {
            (1, ProtobufField::Bytes(name)) => domain = name.text(),
            (2, ProtobufField::Number(number)) => version = number as i64,
            _ => {}
        }
    }
    Ok((domain, version))
}

/// Key and value of an external data entry.
fn read_external_entry(message: ProtobufSlice) -> Result<(String, String), Error> {
    let (mut key, mut value) = (String::new(), String::new());
    let mut fields = message.fields();
    while let Some((number, field)) = fields.next_field()? {
        match (number, field) {
            (1, ProtobufField::Bytes(text)) => key = text.text(),
            (2, ProtobufField::Bytes(text)) => value = text.text(),
            _ => {}
        }
    }
    Ok((key, value))
}

fn f64_from_bytes(bytes: &[u8]) -> f64 {
    let mut array = [0; 8];
    array.copy_from_slice(bytes);
    f64::from_le_bytes(array)
}

/// Decodes little-endian elements.
fn elements_from_raw(data_type: DataType, raw: &[u8], count: usize) -> Option<SmallElements> {
    fn decode_elements<const N: usize, T>(
        raw: &[u8],
        count: usize,
        of: impl Fn([u8; N]) -> T,
    ) -> Option<Vec<T>> {
        let elements = raw.chunks_exact(N);
        (elements.len() == count).then(|| {
            elements
                .map(|bytes| {
                    let mut array = [0; N];
                    array.copy_from_slice(bytes);
                    of(array)
                })
                .collect()
        })
    }
    let integers = match data_type {
        DataType::Int64 | DataType::Uint64 => decode_elements(raw, count, i64::from_le_bytes),
        DataType::Int32 => decode_elements(raw, count, |b| i32::from_le_bytes(b).into()),
        DataType::Uint32 => decode_elements(raw, count, |b| u32::from_le_bytes(b).into()),
        DataType::Int16 => decode_elements(raw, count, |b| i16::from_le_bytes(b).into()),
        DataType::Uint16 => decode_elements(raw, count, |b| u16::from_le_bytes(b).into()),
        DataType::Int8 => decode_elements(raw, count, |b| i8::from_le_bytes(b).into()),
        DataType::Uint8 | DataType::Bool => decode_elements(raw, count, |[b]: [u8; 1]| b.into()),
        _ => None,
    };
    let floats = match data_type {
        DataType::Float => decode_elements(raw, count, |b| f32::from_le_bytes(b).into()),
        DataType::Double => decode_elements(raw, count, f64::from_le_bytes),
        _ => None,
    };
    integers.map(SmallElements::Integers).or(floats.map(SmallElements::Floats))
}
