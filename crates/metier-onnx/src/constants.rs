//! Counts a graph's weights wherever its file stores them.

use crate::graph::{ConstantTensor, DataType, Graph, NodeAttribute};

/// Totals of a file's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeightTotals {
    /// Number of weights: floats, and quantised weights, which are integers of at most 8 bits of
    /// rank 2 or more. Integers of rank 1 are zero points.
    pub parameters: u64,
    /// Bytes of all constants, integers included.
    pub bytes: u64,
}

impl WeightTotals {
    /// Adds elements of a type and rank.
    pub fn add_elements(&mut self, elements: u64, data_type: DataType, rank: usize) {
        if data_type.is_float() || (data_type.is_quantised() && rank >= 2) {
            self.parameters = self.parameters.saturating_add(elements);
        }
        let bits = elements.saturating_mul(data_type.bits().unwrap_or(0));
        self.bytes = self.bytes.saturating_add(bits.div_ceil(8));
    }
}

/// Visits every stored constant: initialisers and `Constant` operators, including subgraphs.
pub fn for_each_constant<'a>(graph: &'a Graph, visit: &mut dyn FnMut(&'a ConstantTensor)) {
    graph.initializers.iter().for_each(&mut *visit);
    for node in &graph.nodes {
        for name in ["value", "sparse_value"].iter().filter(|_| node.kind == "Constant") {
            if let Some(NodeAttribute::Tensor(tensor)) = node.attributes.get(*name) {
                visit(tensor);
            }
        }
        node.graphs().for_each(|inner| for_each_constant(inner, visit));
    }
}

/// Adds the numbers that `Constant` operators hold as plain attributes, including subgraphs.
pub fn add_attribute_constants(graph: &Graph, weights: &mut WeightTotals) {
    for node in &graph.nodes {
        for value in node.attributes.values().filter(|_| node.kind == "Constant") {
            match value {
                NodeAttribute::Float(_) => weights.add_elements(1, DataType::Float, 0),
                NodeAttribute::Floats(list) => weights.add_elements(list.len() as u64, DataType::Float, 1),
                NodeAttribute::Integer(_) => weights.add_elements(1, DataType::Int64, 0),
                NodeAttribute::Integers(list) => weights.add_elements(list.len() as u64, DataType::Int64, 1),
                _ => {}
            }
        }
        node.graphs().for_each(|inner| add_attribute_constants(inner, weights));
    }
}
