//! Builder of small graphs, which trials run to measure operator times.
//!
//! Weights are drawn from a seed, so the same calls give the same bytes.

use crate::graph::DataType;
use crate::write::Message;

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    Integer(i64),
    Integers(Vec<i64>),
    Float(f32),
    Text(&'static str),
    /// A subgraph as created by [`Builder::repeat`].
    Graph(Vec<u8>),
}

/// A graph under construction.
#[derive(Debug, Default)]
pub struct Builder {
    nodes: Vec<Vec<u8>>,
    constants: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    names: u64,
    seed: u64,
}

/// Operator set version of the written graphs.
pub const OPSET: u64 = 17;
const IR_VERSION: u64 = 8;

impl Builder {
    /// Creates an empty graph with a seed for its weights.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// Adds a graph input and returns its name.
    pub fn input(&mut self, data_type: DataType, dims: &[u64]) -> String {
        let name = self.name();
        self.inputs.push(value(&name, data_type, Some(dims)));
        name
    }

    /// Adds random weights around 0, scaled so that sums over `fan` of them are near 1; returns the
    /// constant's name.
    pub fn weights(&mut self, dims: &[u64], fan: u64) -> String {
        let count: u64 = dims.iter().product();
        let size = 1.7 / (fan.max(1) as f32).sqrt();
        let mut raw = Vec::with_capacity(count as usize * 4);
        for _ in 0..count {
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let even = (self.seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            raw.extend_from_slice(&(even * size).to_le_bytes());
        }
        self.constant(DataType::Float, dims, &raw)
    }

    /// Adds a constant filled with one number.
    pub fn same(&mut self, dims: &[u64], number: f32) -> String {
        let count: u64 = dims.iter().product();
        let raw = number.to_le_bytes().repeat(count as usize);
        self.constant(DataType::Float, dims, &raw)
    }

    /// Adds a list of floats.
    pub fn constant_floats(&mut self, numbers: &[f32]) -> String {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(DataType::Float, &[numbers.len() as u64], &raw)
    }

    /// Adds a list of integers.
    pub fn integers(&mut self, numbers: &[i64]) -> String {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(DataType::Int64, &[numbers.len() as u64], &raw)
    }

    fn constant(&mut self, data_type: DataType, dims: &[u64], raw: &[u8]) -> String {
        let name = self.name();
        self.constants.push(tensor(&name, data_type, dims, raw));
        name
    }

    /// Adds an operator with one output and returns the output's name. An empty input name omits an
    /// optional input.
    pub fn node(&mut self, kind: &str, inputs: &[&str], settings: &[(&str, Setting)]) -> String {
        self.node_of(kind, inputs, settings, 1).pop().unwrap_or_default()
    }

    /// Adds an operator with `outputs` outputs.
    pub fn node_of(
        &mut self,
        kind: &str,
        inputs: &[&str],
        settings: &[(&str, Setting)],
        outputs: usize,
    ) -> Vec<String> {
        let names: Vec<String> = (0..outputs).map(|_| self.name()).collect();
        let called = format!("{kind}_{}", self.nodes.len());
        let made: Vec<&str> = names.iter().map(String::as_str).collect();
        self.nodes.push(node(kind, &called, inputs, &made, settings));
        names
    }

    /// Adds a loop of `turns` iterations. `body` adds the operators of one iteration to a subgraph,
    /// from the iteration number and the states, and returns the next states. Returns the final
    /// states, followed by all values of the first state stacked by iteration. All states have the
    /// shape `dims`.
    pub fn repeat(
        &mut self,
        turns: u64,
        states: &[&str],
        dims: &[u64],
        body: impl FnOnce(&mut Self, &str, &[String]) -> Vec<String>,
    ) -> Vec<String> {
        let mut inner = Self { names: self.names, seed: self.seed, ..Self::default() };
        let [turn, goes_on] = [(); 2].map(|()| inner.name());
        inner.inputs.push(value(&turn, DataType::Int64, Some(&[])));
        inner.inputs.push(value(&goes_on, DataType::Bool, Some(&[])));
        let before: Vec<String> = states.iter().map(|_| inner.input(DataType::Float, dims)).collect();
        let after = body(&mut inner, &turn, &before);
        let still = inner.node("Identity", &[&goes_on], &[]);
        inner.outputs.push(value(&still, DataType::Bool, Some(&[])));
        let told = after.first().map(|first| inner.node("Identity", &[first], &[]));
        for name in after.iter().chain(&told) {
            inner.outputs.push(value(name, DataType::Float, Some(dims)));
        }
        (self.names, self.seed) = (inner.names, inner.seed);
        // Weights belong to the enclosing graph, as in exported files.
        self.constants.append(&mut inner.constants);
        let count = self.constant(DataType::Int64, &[], &turns.to_le_bytes());
        let begins = self.constant(DataType::Bool, &[], &[1]);
        let inputs: Vec<&str> =
            [count.as_str(), begins.as_str()].into_iter().chain(states.iter().copied()).collect();
        let settings = [("body", Setting::Graph(inner.graph("turn")))];
        self.node_of("Loop", &inputs, &settings, after.len() + usize::from(told.is_some()))
    }

    /// Declares a graph output.
    pub fn output(&mut self, name: &str) {
        self.outputs.push(value(name, DataType::Float, None));
    }

    /// Number of operators.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no operators.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn graph(&self, name: &str) -> Vec<u8> {
        let mut graph = Message::default();
        self.nodes.iter().for_each(|node| graph.bytes(1, node));
        graph.bytes(2, name.as_bytes());
        self.constants.iter().for_each(|constant| graph.bytes(5, constant));
        self.inputs.iter().for_each(|input| graph.bytes(11, input));
        self.outputs.iter().for_each(|output| graph.bytes(12, output));
        graph.into_bytes()
    }

    pub fn finish(self) -> Vec<u8> {
        let mut opset = Message::default();
        opset.bytes(1, b"");
        opset.number(2, OPSET);
        let mut file = Message::default();
        file.number(1, IR_VERSION);
        file.bytes(2, b"metier");
        file.bytes(7, &self.graph("trial"));
        file.bytes(8, &opset.into_bytes());
        file.into_bytes()
    }
}

pub(crate) fn node(
    kind: &str,
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    settings: &[(&str, Setting)],
) -> Vec<u8> {
    let mut node = Message::default();
    inputs.iter().for_each(|name| node.bytes(1, name.as_bytes()));
    outputs.iter().for_each(|name| node.bytes(2, name.as_bytes()));
    node.bytes(3, name.as_bytes());
    node.bytes(4, kind.as_bytes());
    for (name, setting) in settings {
        node.bytes(5, &attribute(name, setting));
    }
    node.into_bytes()
}

pub(crate) fn tensor(name: &str, data_type: DataType, dims: &[u64], raw: &[u8]) -> Vec<u8> {
    let mut tensor = Message::default();
    dims.iter().for_each(|size| tensor.number(1, *size));
    tensor.number(2, data_type.number().unwrap_or(1));
    tensor.bytes(8, name.as_bytes());
    tensor.bytes(9, raw);
    tensor.into_bytes()
}

pub(crate) fn attribute(name: &str, setting: &Setting) -> Vec<u8> {
    let mut message = Message::default();
    message.bytes(1, name.as_bytes());
    let kind = match setting {
        Setting::Float(number) => {
            message.float(2, *number);
            1
        }
        Setting::Integer(number) => {
            message.number(3, *number as u64);
            2
        }
        Setting::Text(text) => {
            message.bytes(4, text.as_bytes());
            3
        }
        Setting::Integers(numbers) => {
            numbers.iter().for_each(|number| message.number(8, *number as u64));
            7
        }
        Setting::Graph(graph) => {
            message.bytes(6, graph);
            5
        }
    };
    message.number(20, kind);
    message.into_bytes()
}

fn value(name: &str, data_type: DataType, dims: Option<&[u64]>) -> Vec<u8> {
    let mut tensor = Message::default();
    tensor.number(1, data_type.number().unwrap_or(1));
    if let Some(dims) = dims {
        let mut shape = Message::default();
        for size in dims {
            let mut dim = Message::default();
            dim.number(1, *size);
            shape.bytes(1, &dim.into_bytes());
        }
        tensor.bytes(2, &shape.into_bytes());
    }
    let mut kind = Message::default();
    kind.bytes(1, &tensor.into_bytes());
    let mut message = Message::default();
    message.bytes(1, name.as_bytes());
    message.bytes(2, &kind.into_bytes());
    message.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bindings, Limits, analyse, read};

    #[test]
    fn what_is_made_is_read_back() {
        let mut made = Builder::new(1);
        let x = made.input(DataType::Float, &[1, 3, 32, 32]);
        let weights = made.weights(&[8, 3, 3, 3], 27);
        let pads = ("pads", Setting::Integers(vec![1, 1, 1, 1]));
        let conv = made.node("Conv", &[&x, &weights], &[pads, ("strides", Setting::Integers(vec![2, 2]))]);
        let leaky = made.node("LeakyRelu", &[&conv], &[("alpha", Setting::Float(0.1))]);
        made.output(&leaky);
        let model = read(&made.finish(), &Limits::default()).unwrap();
        let told = analyse(&model, &Bindings::default(), &Limits::default()).unwrap();
        assert_eq!(told.multiply_adds, 8 * 16 * 16 * 27);
        assert_eq!(told.outputs[0].shape, Some(vec![Some(1), Some(8), Some(16), Some(16)]));
        assert_eq!(told.parameters, 8 * 27);
    }

    #[test]
    fn a_loop_runs_its_operators_as_often_as_it_turns() {
        let mut made = Builder::new(1);
        let x = made.input(DataType::Float, &[5, 2, 8]);
        let begin = made.input(DataType::Float, &[2, 8]);
        let all = made.repeat(5, &[&begin], &[2, 8], |turn, number, states| {
            let weights = turn.weights(&[8, 8], 8);
            let taken = turn.node("Gather", &[&x, number], &[("axis", Setting::Integer(0))]);
            let mixed = turn.node("MatMul", &[&states[0], &weights], &[]);
            vec![turn.node("Add", &[&mixed, &taken], &[])]
        });
        made.output(&all[1]);
        let model = read(&made.finish(), &Limits::default()).unwrap();
        let told = analyse(&model, &Bindings::default(), &Limits::default()).unwrap();
        let product = told.operators.iter().find(|one| one.kind == "MatMul").unwrap();
        assert_eq!((product.turns, product.multiply_adds), (5, Some(2 * 8 * 8)));
        assert_eq!(told.outputs[0].shape, Some(vec![Some(5), Some(2), Some(8)]));
    }

    #[test]
    fn the_same_seed_makes_the_same_file() {
        let make = |seed| {
            let mut made = Builder::new(seed);
            let x = made.input(DataType::Float, &[1, 4]);
            let weights = made.weights(&[4, 4], 4);
            let y = made.node("MatMul", &[&x, &weights], &[]);
            made.output(&y);
            made.finish()
        };
        assert_eq!(make(5), make(5));
        assert_ne!(make(5), make(6));
    }
}
