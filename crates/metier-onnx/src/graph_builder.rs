//! Builder of small graphs, which trials run to measure operator times.
//!
//! Weights are drawn from a seed, so the same calls give the same bytes.

use crate::graph::DataType;
use crate::protobuf_writer::ProtobufWriter;

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    Integer(i64),
    Integers(Vec<i64>),
    Float(f32),
    Text(&'static str),
    /// A subgraph as created by [`GraphBuilder::add_loop`].
    Graph(Vec<u8>),
}

/// A graph under construction.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    nodes: Vec<Vec<u8>>,
    constants: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    names: u64,
    seed: u64,
}

/// Operator set version of the written graphs.
pub const OPSET_VERSION: u64 = 17;
const IR_VERSION: u64 = 8;

impl GraphBuilder {
    /// Creates an empty graph with a seed for its weights.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    fn next_name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// Adds a graph input and returns its name.
    pub fn add_input(&mut self, data_type: DataType, dims: &[u64]) -> String {
        let name = self.next_name();
        self.inputs.push(encode_value(&name, data_type, Some(dims)));
        name
    }

    /// Adds random weights around 0, scaled so that sums over `fan` of them are near 1; returns the
    /// constant's name.
    pub fn add_weights(&mut self, dims: &[u64], fan: u64) -> String {
        let count: u64 = dims.iter().product();
        let size = 1.7 / (fan.max(1) as f32).sqrt();
        let mut raw = Vec::with_capacity(count as usize * 4);
        for _ in 0..count {
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let even = (self.seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            raw.extend_from_slice(&(even * size).to_le_bytes());
        }
        self.add_constant(DataType::Float, dims, &raw)
    }

    /// Adds a constant filled with one number.
    pub fn add_filled(&mut self, dims: &[u64], number: f32) -> String {
        let count: u64 = dims.iter().product();
        let raw = number.to_le_bytes().repeat(count as usize);
        self.add_constant(DataType::Float, dims, &raw)
    }

    /// Adds a list of floats.
    pub fn add_floats(&mut self, numbers: &[f32]) -> String {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.add_constant(DataType::Float, &[numbers.len() as u64], &raw)
    }

    /// Adds a list of integers.
    pub fn add_integers(&mut self, numbers: &[i64]) -> String {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.add_constant(DataType::Int64, &[numbers.len() as u64], &raw)
    }

    fn add_constant(&mut self, data_type: DataType, dims: &[u64], raw: &[u8]) -> String {
        let name = self.next_name();
        self.constants.push(encode_tensor(&name, data_type, dims, raw));
        name
    }

    /// Adds an operator with one output and returns the output's name. An empty input name omits an
    /// optional input.
    pub fn encode_node(
        &mut self,
        kind: &str,
        inputs: &[&str],
        settings: &[(&str, AttributeValue)],
    ) -> String {
        self.add_node_with_outputs(kind, inputs, settings, 1).pop().unwrap_or_default()
    }

    /// Adds an operator with `outputs` outputs.
    pub fn add_node_with_outputs(
        &mut self,
        kind: &str,
        inputs: &[&str],
        settings: &[(&str, AttributeValue)],
        outputs: usize,
    ) -> Vec<String> {
        let names: Vec<String> = (0..outputs).map(|_| self.next_name()).collect();
        let called = format!("{kind}_{}", self.nodes.len());
        let made: Vec<&str> = names.iter().map(String::as_str).collect();
        self.nodes.push(encode_node(kind, &called, inputs, &made, settings));
        names
    }

    /// Adds a loop of `turns` iterations. `body` adds the operators of one iteration to a subgraph,
    /// from the iteration number and the states, and returns the next states. Returns the final
    /// states, followed by all values of the first state stacked by iteration. All states have the
    /// shape `dims`.
    pub fn add_loop(
        &mut self,
        turns: u64,
        states: &[&str],
        dims: &[u64],
        body: impl FnOnce(&mut Self, &str, &[String]) -> Vec<String>,
    ) -> Vec<String> {
        let mut inner = Self { names: self.names, seed: self.seed, ..Self::default() };
        let [turn, goes_on] = [(); 2].map(|()| inner.next_name());
        inner.inputs.push(encode_value(&turn, DataType::Int64, Some(&[])));
        inner.inputs.push(encode_value(&goes_on, DataType::Bool, Some(&[])));
        let before: Vec<String> = states.iter().map(|_| inner.add_input(DataType::Float, dims)).collect();
        let after = body(&mut inner, &turn, &before);
        let still = inner.encode_node("Identity", &[&goes_on], &[]);
        inner.outputs.push(encode_value(&still, DataType::Bool, Some(&[])));
        let text = after.first().map(|first| inner.encode_node("Identity", &[first], &[]));
        for name in after.iter().chain(&text) {
            inner.outputs.push(encode_value(name, DataType::Float, Some(dims)));
        }
        (self.names, self.seed) = (inner.names, inner.seed);
        // Weights belong to the enclosing graph, as in exported files.
        self.constants.append(&mut inner.constants);
        let count = self.add_constant(DataType::Int64, &[], &turns.to_le_bytes());
        let begins = self.add_constant(DataType::Bool, &[], &[1]);
        let inputs: Vec<&str> =
            [count.as_str(), begins.as_str()].into_iter().chain(states.iter().copied()).collect();
        let settings = [("body", AttributeValue::Graph(inner.encode_graph("turn")))];
        self.add_node_with_outputs("Loop", &inputs, &settings, after.len() + usize::from(text.is_some()))
    }

    /// Declares a graph output.
    pub fn add_output(&mut self, name: &str) {
        self.outputs.push(encode_value(name, DataType::Float, None));
    }

    /// Number of operators.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no operators.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn encode_graph(&self, name: &str) -> Vec<u8> {
        let mut graph = ProtobufWriter::default();
        self.nodes.iter().for_each(|node| graph.write_bytes(1, node));
        graph.write_bytes(2, name.as_bytes());
        self.constants.iter().for_each(|constant| graph.write_bytes(5, constant));
        self.inputs.iter().for_each(|input| graph.write_bytes(11, input));
        self.outputs.iter().for_each(|output| graph.write_bytes(12, output));
        graph.into_bytes()
    }

    pub fn finish(self) -> Vec<u8> {
        let mut opset = ProtobufWriter::default();
        opset.write_bytes(1, b"");
        opset.write_number(2, OPSET_VERSION);
        let mut file = ProtobufWriter::default();
        file.write_number(1, IR_VERSION);
        file.write_bytes(2, b"metier");
        file.write_bytes(7, &self.encode_graph("trial"));
        file.write_bytes(8, &opset.into_bytes());
        file.into_bytes()
    }
}

pub(crate) fn encode_node(
    kind: &str,
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    settings: &[(&str, AttributeValue)],
) -> Vec<u8> {
    let mut node = ProtobufWriter::default();
    inputs.iter().for_each(|name| node.write_bytes(1, name.as_bytes()));
    outputs.iter().for_each(|name| node.write_bytes(2, name.as_bytes()));
    node.write_bytes(3, name.as_bytes());
    node.write_bytes(4, kind.as_bytes());
    for (name, setting) in settings {
        node.write_bytes(5, &encode_attribute(name, setting));
    }
    node.into_bytes()
}

pub(crate) fn encode_tensor(name: &str, data_type: DataType, dims: &[u64], raw: &[u8]) -> Vec<u8> {
    let mut tensor = ProtobufWriter::default();
    dims.iter().for_each(|size| tensor.write_number(1, *size));
    tensor.write_number(2, data_type.number().unwrap_or(1));
    tensor.write_bytes(8, name.as_bytes());
    tensor.write_bytes(9, raw);
    tensor.into_bytes()
}

pub(crate) fn encode_attribute(name: &str, setting: &AttributeValue) -> Vec<u8> {
    let mut message = ProtobufWriter::default();
    message.write_bytes(1, name.as_bytes());
    let kind = match setting {
        AttributeValue::Float(number) => {
            message.write_float(2, *number);
            1
        }
        AttributeValue::Integer(number) => {
            message.write_number(3, *number as u64);
            2
        }
        AttributeValue::Text(text) => {
            message.write_bytes(4, text.as_bytes());
            3
        }
        AttributeValue::Integers(numbers) => {
            numbers.iter().for_each(|number| message.write_number(8, *number as u64));
            7
        }
        AttributeValue::Graph(graph) => {
            message.write_bytes(6, graph);
            5
        }
    };
    message.write_number(20, kind);
    message.into_bytes()
}

fn encode_value(name: &str, data_type: DataType, dims: Option<&[u64]>) -> Vec<u8> {
    let mut tensor = ProtobufWriter::default();
    tensor.write_number(1, data_type.number().unwrap_or(1));
    if let Some(dims) = dims {
        let mut shape = ProtobufWriter::default();
        for size in dims {
            let mut dim = ProtobufWriter::default();
            dim.write_number(1, *size);
            shape.write_bytes(1, &dim.into_bytes());
        }
        tensor.write_bytes(2, &shape.into_bytes());
    }
    let mut kind = ProtobufWriter::default();
    kind.write_bytes(1, &tensor.into_bytes());
    let mut message = ProtobufWriter::default();
    message.write_bytes(1, name.as_bytes());
    message.write_bytes(2, &kind.into_bytes());
    message.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

    #[test]
    fn what_is_made_is_read_back() {
        let mut made = GraphBuilder::new(1);
        let x = made.add_input(DataType::Float, &[1, 3, 32, 32]);
        let weights = made.add_weights(&[8, 3, 3, 3], 27);
        let pads = ("pads", AttributeValue::Integers(vec![1, 1, 1, 1]));
        let conv = made.encode_node(
            "Conv",
            &[&x, &weights],
            &[pads, ("strides", AttributeValue::Integers(vec![2, 2]))],
        );
        let leaky = made.encode_node("LeakyRelu", &[&conv], &[("alpha", AttributeValue::Float(0.1))]);
        made.add_output(&leaky);
        let model = read_onnx(&made.finish(), &OnnxLimits::default()).unwrap();
        let analysis = analyse_graph(&model, &ShapeBindings::default(), &OnnxLimits::default()).unwrap();
        assert_eq!(analysis.multiply_adds, 8 * 16 * 16 * 27);
        assert_eq!(analysis.outputs[0].shape, Some(vec![Some(1), Some(8), Some(16), Some(16)]));
        assert_eq!(analysis.parameters, 8 * 27);
    }

    #[test]
    fn a_loop_runs_its_operators_as_often_as_it_turns() {
        let mut made = GraphBuilder::new(1);
        let x = made.add_input(DataType::Float, &[5, 2, 8]);
        let begin = made.add_input(DataType::Float, &[2, 8]);
        let all = made.add_loop(5, &[&begin], &[2, 8], |turn, number, states| {
            let weights = turn.add_weights(&[8, 8], 8);
            let taken = turn.encode_node("Gather", &[&x, number], &[("axis", AttributeValue::Integer(0))]);
            let mixed = turn.encode_node("MatMul", &[&states[0], &weights], &[]);
            vec![turn.encode_node("Add", &[&mixed, &taken], &[])]
        });
        made.add_output(&all[1]);
        let model = read_onnx(&made.finish(), &OnnxLimits::default()).unwrap();
        let analysis = analyse_graph(&model, &ShapeBindings::default(), &OnnxLimits::default()).unwrap();
        let product = analysis.operators.iter().find(|cost| cost.kind == "MatMul").unwrap();
        assert_eq!((product.turns, product.multiply_adds), (5, Some(2 * 8 * 8)));
        assert_eq!(analysis.outputs[0].shape, Some(vec![Some(5), Some(2), Some(8)]));
    }

    #[test]
    fn the_same_seed_makes_the_same_file() {
        let make = |seed| {
            let mut made = GraphBuilder::new(seed);
            let x = made.add_input(DataType::Float, &[1, 4]);
            let weights = made.add_weights(&[4, 4], 4);
            let y = made.encode_node("MatMul", &[&x, &weights], &[]);
            made.add_output(&y);
            made.finish()
        };
        assert_eq!(make(5), make(5));
        assert_ne!(make(5), make(6));
    }
}
