//! Counts what a graph has learned, wherever its file keeps it.

use crate::graph::{Attribute, DataType, Graph, Tensor};

/// What a file holds of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weights {
    /// Real numbers among the constants, and what quantisation made of them: whole numbers of at most 8 bits in two or more dimensions.
    /// In one dimension those are zero points.
    pub parameters: u64,
    /// Bytes of all constants, whole numbers too.
    pub bytes: u64,
}

impl Weights {
    /// Adds so many elements of a type in so many dimensions.
    pub fn add(&mut self, elements: u64, data_type: DataType, rank: usize) {
        if data_type.is_float() || (data_type.is_quantised() && rank >= 2) {
            self.parameters = self.parameters.saturating_add(elements);
        }
        let bits = elements.saturating_mul(data_type.bits().unwrap_or(0));
        self.bytes = self.bytes.saturating_add(bits.div_ceil(8));
    }
}

/// Every constant that stands in the file as one: initializers and `Constant` operators, in sub-graphs too.
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

/// Adds the numbers that `Constant` operators have as plain attributes, in sub-graphs too.
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
