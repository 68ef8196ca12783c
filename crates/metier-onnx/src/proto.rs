//! Builds a [`Model`] from the bytes of an ONNX file, within limits.
//!
//! Field numbers are those of `onnx.proto`. Other fields are skipped: documentation, training,
//! quantisation annotations. Every item is counted before it is stored, so that a file of many
//! empty messages cannot exceed its memory limit. Only small tensors store their elements; others
//! store their byte range.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{Attribute, DataType, Dim, Function, Graph, Model, Node, Small, Tensor, ValueInfo};
use crate::wire::{Field, Slice};
use crate::{Error, Limits};

/// Largest number of stored elements per tensor: shapes, axes, pads, scales.
const SMALL: u64 = 4096;
/// Largest number of characters of a displayed name.
const TOLD: usize = 120;
/// Largest total number of stored elements: 4 bits in the file take 64 in memory.
const TOGETHER: u64 = 16 << 20;

pub fn read(bytes: &[u8], limits: &Limits) -> Result<Model, Error> {
    let file = bytes.len();
    bounded("the size of the file in bytes", file as u64, limits.file_bytes as u64)?;
    Reader { limits: *limits, nodes: 0, items: 0, kept: 0, file }.model(Slice::whole(bytes))
}

fn bounded(what: &'static str, got: u64, most: u64) -> Result<(), Error> {
    if got > most { Err(Error::TooMuch { what, got, most }) } else { Ok(()) }
}

struct Reader {
    limits: Limits,
    nodes: usize,
    items: usize,
    /// Stored elements of small tensors.
    kept: u64,
    file: usize,
}

impl Reader {
    fn item(&mut self) -> Result<(), Error> {
        self.items += 1;
        bounded("the number of tensors, values and names", self.items as u64, self.limits.items as u64)
    }

    fn model(&mut self, message: Slice) -> Result<Model, Error> {
        let mut model = Model::default();
        let mut graph = None;
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Number(version)) => model.ir_version = version as i64,
                (2, Field::Bytes(name)) => model.producer = name.text(),
                (7, Field::Bytes(content)) => graph = Some(self.graph(content, 0)?),
                (8, Field::Bytes(content)) => {
                    self.item()?;
                    let (domain, version) = opset(content)?;
                    model.opsets.insert(domain, version);
                }
                (25, Field::Bytes(content)) => {
                    self.item()?;
                    model.functions.push(self.function(content)?);
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

    fn graph(&mut self, message: Slice, depth: usize) -> Result<Graph, Error> {
        bounded("the depth of graphs inside graphs", depth as u64, self.limits.depth as u64)?;
        let mut graph = Graph::default();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            let Field::Bytes(content) = field else { continue };
            match number {
                1 => {
                    self.operator()?;
                    graph.nodes.push(self.node(content, depth)?);
                }
                2 => graph.name = content.text(),
                5 => graph.initializers.push(self.tensor(content)?),
                15 => graph.initializers.push(self.sparse(content)?),
                11 => graph.inputs.push(self.value(content)?),
                12 => graph.outputs.push(self.value(content)?),
                13 => graph.values.push(self.value(content)?),
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
    fn function(&mut self, message: Slice) -> Result<Function, Error> {
        let mut function = Function::default();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            let Field::Bytes(content) = field else { continue };
            match number {
                1 => function.name = content.text(),
                4 | 5 => {
                    self.item()?;
                    let value = ValueInfo { name: content.text(), data_type: None, shape: None };
                    let graph = &mut function.graph;
                    if number == 4 { graph.inputs.push(value) } else { graph.outputs.push(value) }
                }
                7 => {
                    self.operator()?;
                    function.graph.nodes.push(self.node(content, 0)?);
                }
                9 => {
                    let (domain, version) = opset(content)?;
                    if matches!(domain.as_str(), "" | "ai.onnx") {
                        function.opset = Some(version);
                    }
                }
                10 => function.domain = content.text(),
                11 => {
                    self.item()?;
                    let (name, value) = self.attribute(content, 0)?;
                    function.defaults.insert(name, value);
                }
                13 => function.overload = content.text(),
                _ => {}
            }
        }
        Ok(function)
    }

    fn operator(&mut self) -> Result<(), Error> {
        self.nodes += 1;
        bounded("the number of operators", self.nodes as u64, self.limits.nodes as u64)
    }

    fn node(&mut self, message: Slice, depth: usize) -> Result<Node, Error> {
        let mut node = Node {
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
        while let Some((number, field)) = fields.next()? {
            let Field::Bytes(content) = field else { continue };
            match number {
                1 | 2 => {
                    self.item()?;
                    let side = if number == 1 { &mut node.inputs } else { &mut node.outputs };
                    side.push(content.text());
                }
                3 => node.name = content.text(),
                4 => node.kind = content.text(),
                5 => {
                    self.item()?;
                    let (name, value) = self.attribute(content, depth)?;
                    node.attributes.insert(name, value);
                }
                7 => node.domain = content.text(),
                8 => node.overload = content.text(),
                _ => {}
            }
        }
        Ok(node)
    }

    fn attribute(&mut self, message: Slice, depth: usize) -> Result<(String, Attribute), Error> {
        let mut name = String::new();
        let mut value = Attribute::Other;
        let mut outer = None;
        let (mut integers, mut floats) = (Vec::new(), Vec::new());
        let (mut texts, mut graphs) = (Vec::new(), Vec::new());
        let mut kind = 0;
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Bytes(text)) => name = text.text(),
                (20, Field::Number(number)) => kind = number,
                (21, Field::Bytes(text)) if !text.bytes.is_empty() => outer = Some(text.text()),
                (2, Field::Fixed32(bytes)) => value = Attribute::Float(f32::from_le_bytes(bytes).into()),
                (3, Field::Number(number)) => value = Attribute::Integer(number as i64),
                (4, Field::Bytes(text)) => value = Attribute::Text(text.text()),
                (5, Field::Bytes(tensor)) => value = Attribute::Tensor(Arc::new(self.tensor(tensor)?)),
                (22, Field::Bytes(tensor)) => value = Attribute::Tensor(Arc::new(self.sparse(tensor)?)),
                (6, Field::Bytes(graph)) => value = Attribute::Graph(Box::new(self.graph(graph, depth + 1)?)),
                (7, _) => self.floats(field, &mut floats)?,
                (8, _) => self.integers(field, &mut integers)?,
                (9, Field::Bytes(text)) => {
                    self.item()?;
                    texts.push(text.text());
                }
                (11, Field::Bytes(graph)) => graphs.push(self.graph(graph, depth + 1)?),
                _ => {}
            }
        }
        if let Some(outer) = outer {
            return Ok((name, Attribute::Outer(outer)));
        }
        let value = match kind {
            6 => Attribute::Floats(floats),
            7 => Attribute::Integers(integers),
            8 => Attribute::Texts(texts),
            10 => Attribute::Graphs(graphs),
            // Files before version 2 of the format do not declare the attribute type.
            0 if !integers.is_empty() => Attribute::Integers(integers),
            0 if !floats.is_empty() => Attribute::Floats(floats),
            0 if !texts.is_empty() => Attribute::Texts(texts),
            // A writer may omit a number that is 0.
            1 if value == Attribute::Other => Attribute::Float(0.0),
            2 if value == Attribute::Other => Attribute::Integer(0),
            3 if value == Attribute::Other => Attribute::Text(String::new()),
            _ => value,
        };
        Ok((name, value))
    }

    fn integers(&mut self, field: Field, into: &mut Vec<i64>) -> Result<(), Error> {
        match field {
            Field::Number(number) => {
                self.item()?;
                into.push(number as i64);
            }
            Field::Bytes(packed) => {
                let mut numbers = packed.numbers();
                while let Some(number) = numbers.next()? {
                    self.item()?;
                    into.push(number as i64);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn floats(&mut self, field: Field, into: &mut Vec<f64>) -> Result<(), Error> {
        match field {
            Field::Fixed32(bytes) => {
                self.item()?;
                into.push(f32::from_le_bytes(bytes).into());
            }
            Field::Bytes(packed) => {
                for bytes in packed.bytes.chunks_exact(4) {
                    self.item()?;
                    into.push(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn tensor(&mut self, message: Slice) -> Result<Tensor, Error> {
        self.item()?;
        let mut tensor = Tensor {
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
        let mut listed: Vec<(u64, Field)> = Vec::new();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, _) => {
                    let mut dims = Vec::new();
                    self.integers(field, &mut dims)?;
                    tensor.dims.extend(dims.into_iter().map(|size| size as u64));
                }
                (2, Field::Number(number)) => tensor.data_type = DataType::of(number),
                (8, Field::Bytes(name)) => tensor.name = name.text(),
                (9, Field::Bytes(content)) => raw = Some(content),
                (4 | 5 | 7 | 10 | 11, _) if listed.len() < SMALL as usize => listed.push((number, field)),
                (13, Field::Bytes(entry)) => {
                    let (key, value) = entry_of(entry)?;
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
        let count = self.count(&tensor.dims)?;
        let want = tensor.bytes().filter(|_| tensor.external.is_none());
        // An empty constant: the weights were stripped from the file, and only their shapes remain.
        let raw = raw.filter(|raw| !raw.bytes.is_empty());
        if let (Some(raw), Some(want)) = (raw, want)
            && raw.bytes.len() as u64 != want
        {
            let sizes: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
            return Err(Error::Content {
                name: tensor.name.chars().take(TOLD).collect(),
                got: raw.bytes.len() as u64,
                sizes: sizes.join("x"),
                want,
            });
        }
        if count <= SMALL && self.kept + count <= TOGETHER && tensor.external.is_none() {
            self.kept += count;
            tensor.small = match raw {
                Some(raw) => small_of_raw(tensor.data_type, raw.bytes, count as usize),
                None => self.small_of_lists(tensor.data_type, &listed, count as usize)?,
            };
        }
        Ok(tensor)
    }

    /// Number of elements of a tensor with these dimensions.
    fn count(&self, dims: &[u64]) -> Result<u64, Error> {
        bounded("the number of dimensions", dims.len() as u64, self.limits.rank as u64)?;
        let mut count = 1u64;
        for size in dims {
            count = count.saturating_mul(*size);
            bounded("the number of elements of a tensor", count.max(*size), self.limits.elements)?;
        }
        Ok(count)
    }

    fn small_of_lists(
        &mut self,
        data_type: DataType,
        fields: &[(u64, Field)],
        count: usize,
    ) -> Result<Option<Small>, Error> {
        let (mut integers, mut floats) = (Vec::new(), Vec::new());
        for (number, field) in fields {
            match (number, field) {
                (4, _) => self.floats(*field, &mut floats)?,
                (10, Field::Bytes(packed)) => floats.extend(packed.bytes.chunks_exact(8).map(double)),
                (10, Field::Fixed64(bytes)) => floats.push(f64::from_le_bytes(*bytes)),
                (5 | 7 | 11, _) => self.integers(*field, &mut integers)?,
                _ => {}
            }
        }
        // 16-bit floats are stored as bit patterns in the integer list; no shape is computed from
        // them.
        let is_listed = |length: usize| length == count;
        Ok(if data_type.is_float() {
            is_listed(floats.len()).then_some(Small::Floats(floats))
        } else {
            is_listed(integers.len()).then_some(Small::Integers(integers))
        })
    }

    /// Reads a sparse constant, which counts as the dense one that it represents.
    fn sparse(&mut self, message: Slice) -> Result<Tensor, Error> {
        let mut values = None;
        let mut dims = Vec::new();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Bytes(content)) => values = Some(self.tensor(content)?),
                (3, _) => self.integers(field, &mut dims)?,
                _ => {}
            }
        }
        let mut tensor =
            values.ok_or_else(|| Error::NoGraph { what: "a sparse constant has no values".to_string() })?;
        tensor.dims = dims.into_iter().map(|size| size as u64).collect();
        tensor.small = None;
        tensor.is_sparse = true;
        tensor.span = message.start..message.start + message.bytes.len();
        self.count(&tensor.dims)?;
        Ok(tensor)
    }

    fn value(&mut self, message: Slice) -> Result<ValueInfo, Error> {
        self.item()?;
        let mut value = ValueInfo { name: String::new(), data_type: None, shape: None };
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Bytes(name)) => value.name = name.text(),
                (2, Field::Bytes(kind)) => self.value_type(kind, &mut value)?,
                _ => {}
            }
        }
        Ok(value)
    }

    fn value_type(&mut self, message: Slice, value: &mut ValueInfo) -> Result<(), Error> {
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            // Only tensors have a declared size; sequences, maps and optional values have none.
            let (1, Field::Bytes(tensor)) = (number, field) else { continue };
            let mut fields = tensor.fields();
            while let Some((number, field)) = fields.next()? {
                match (number, field) {
                    (1, Field::Number(number)) => value.data_type = Some(DataType::of(number)),
                    (2, Field::Bytes(shape)) => value.shape = Some(self.shape(shape)?),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn shape(&mut self, message: Slice) -> Result<Vec<Dim>, Error> {
        let mut dims = Vec::new();
        let mut fields = message.fields();
        while let Some((number, field)) = fields.next()? {
            let (1, Field::Bytes(dim)) = (number, field) else { continue };
            self.item()?;
            bounded("the number of dimensions", dims.len() as u64 + 1, self.limits.rank as u64)?;
            let mut size = Dim::Unknown;
            let mut fields = dim.fields();
            while let Some((number, field)) = fields.next()? {
                match (number, field) {
                    // Some exporters write -1 for unknown dimensions.
                    (1, Field::Number(number)) if (number as i64) >= 0 => size = Dim::Known(number),
                    (2, Field::Bytes(name)) if !name.bytes.is_empty() => size = Dim::Named(name.text()),
                    _ => {}
                }
            }
            dims.push(size);
        }
        Ok(dims)
    }
}

fn opset(message: Slice) -> Result<(String, i64), Error> {
    let (mut domain, mut version) = (String::new(), 1);
    let mut fields = message.fields();
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(name)) => domain = name.text(),
            (2, Field::Number(number)) => version = number as i64,
            _ => {}
        }
    }
    Ok((domain, version))
}

/// Key and value of an external data entry.
fn entry_of(message: Slice) -> Result<(String, String), Error> {
    let (mut key, mut value) = (String::new(), String::new());
    let mut fields = message.fields();
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(text)) => key = text.text(),
            (2, Field::Bytes(text)) => value = text.text(),
            _ => {}
        }
    }
    Ok((key, value))
}

fn double(bytes: &[u8]) -> f64 {
    let mut array = [0; 8];
    array.copy_from_slice(bytes);
    f64::from_le_bytes(array)
}

/// Decodes little-endian elements.
fn small_of_raw(data_type: DataType, raw: &[u8], count: usize) -> Option<Small> {
    fn each<const N: usize, T>(raw: &[u8], count: usize, of: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
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
        DataType::Int64 | DataType::Uint64 => each(raw, count, i64::from_le_bytes),
        DataType::Int32 => each(raw, count, |b| i32::from_le_bytes(b).into()),
        DataType::Uint32 => each(raw, count, |b| u32::from_le_bytes(b).into()),
        DataType::Int16 => each(raw, count, |b| i16::from_le_bytes(b).into()),
        DataType::Uint16 => each(raw, count, |b| u16::from_le_bytes(b).into()),
        DataType::Int8 => each(raw, count, |b| i8::from_le_bytes(b).into()),
        DataType::Uint8 | DataType::Bool => each(raw, count, |[b]: [u8; 1]| b.into()),
        _ => None,
    };
    let floats = match data_type {
        DataType::Float => each(raw, count, |b| f32::from_le_bytes(b).into()),
        DataType::Double => each(raw, count, f64::from_le_bytes),
        _ => None,
    };
    integers.map(Small::Integers).or(floats.map(Small::Floats))
}
