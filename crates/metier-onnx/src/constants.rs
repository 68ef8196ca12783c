//! Counts a graph's weights wherever its file stores them.

use crate::graph::{Attribute, DataType, Graph, Tensor};

/// Totals of a file's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weights {
    /// Number of weights: floats, and quantised weights, which are integers of at most 8 bits of
    /// rank 2 or more. Integers of rank 1 are zero points.
    pub parameters: u64,
    /// Bytes of all constants, integers included.
    pub bytes: u64,
}

impl Weights {
    /// Adds elements of a type and rank.
    pub fn add(&mut self, elements: u64, data_type: DataType, rank: usize) {
        if data_type.is_float() || (data_type.is_quantised() && rank >= 2) {
            self.parameters = self.parameters.saturating_add(elements);
        }
        let bits = elements.saturating_mul(data_type.bits().unwrap_or(0));
        self.bytes = self.bytes.saturating_add(bits.div_ceil(8));
    }
}

/// Visits every stored constant: initialisers and `Constant` operators, including subgraphs.
pub fn each<'a>(graph: &'a Graph, visit: &mut dyn FnMut(&'a Tensor)) {
    graph.initializers.iter().for_each(&mut *visit);
    for node in &graph.nodes {
        for name in ["value", "sparse_value"].iter().filter(|_| node.kind == "Constant") {
            if let Some(Attribute::Tensor(tensor)) = node.attributes.get(*name) {
                visit(tensor);
            }
        }
        node.graphs().for_each(|inner| each(inner, visit));
    }
}

/// Adds the numbers that `Constant` operators hold as plain attributes, including subgraphs.
pub fn add_plain(graph: &Graph, weights: &mut Weights) {
    for node in &graph.nodes {
        for value in node.attributes.values().filter(|_| node.kind == "Constant") {
            match value {
                Attribute::Float(_) => weights.add(1, DataType::Float, 0),
                Attribute::Floats(list) => weights.add(list.len() as u64, DataType::Float, 1),
                Attribute::Integer(_) => weights.add(1, DataType::Int64, 0),
                Attribute::Integers(list) => weights.add(list.len() as u64, DataType::Int64, 1),
                _ => {}
            }
        }
        node.graphs().for_each(|inner| add_plain(inner, weights));
    }
}
