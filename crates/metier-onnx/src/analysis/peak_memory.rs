//! Peak memory of activations.
//!
//! A value lives from the operator that produces it to its last consumer. Outputs of the graph live
//! to its end, and its inputs from its start. View operators, which only change the shape, make no
//! copy. Weights are not counted.

use std::collections::BTreeMap;

use crate::graph::{Graph, GraphNode};
use crate::operator_cost::value_bytes;
use crate::shape::ValueFact;

/// Whether the output is the input with another shape.
fn is_view(node: &GraphNode) -> bool {
    matches!(node.kind.as_str(), "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Identity" | "Dropout")
}

/// Collects a node's input names, including the outer names that its subgraphs use.
pub(crate) fn collect_input_names<'a>(node: &'a GraphNode, names: &mut Vec<&'a str>) {
    names.extend(node.inputs.iter().map(String::as_str));
    for graph in node.graphs() {
        graph.nodes.iter().for_each(|inner| collect_input_names(inner, names));
        names.extend(graph.outputs.iter().map(|output| output.name.as_str()));
    }
}

/// Largest number of bytes alive at one moment. `nested` holds the additional memory of each
/// operator's subgraphs.
pub fn peak_activation_bytes(
    graph: &Graph,
    facts: &BTreeMap<String, ValueFact>,
    nested: &[Option<u64>],
) -> Option<u64> {
    let mut origin: BTreeMap<&str, &str> = BTreeMap::new();
    for node in graph.nodes.iter().filter(|node| is_view(node)) {
        if let (Some(from), Some(to)) = (node.inputs.first(), node.outputs.first()) {
            let from = origin.get(from.as_str()).copied().unwrap_or(from);
            origin.insert(to, from);
        }
    }
    let root = |name: &'_ str| -> String { origin.get(name).map_or(name, |from| from).to_string() };
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let mut names = Vec::new();
        collect_input_names(node, &mut names);
        for name in names {
            last.insert(root(name), index);
        }
    }
    for output in &graph.outputs {
        last.insert(root(&output.name), graph.nodes.len());
    }
    let size = |name: &str| match facts.get(name) {
        Some(fact) if fact.is_constant => Some(0),
        fact => value_bytes(fact),
    };
    let mut alive: BTreeMap<String, u64> = BTreeMap::new();
    for input in &graph.inputs {
        alive.insert(input.name.clone(), size(&input.name)?);
    }
    let mut sum = alive.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    let mut most = sum;
    for (index, node) in graph.nodes.iter().enumerate() {
        for output in
            node.outputs.iter().filter(|name| !name.is_empty() && !origin.contains_key(name.as_str()))
        {
            let bytes = size(output)?;
            sum = sum.saturating_add(bytes);
            alive.insert(output.clone(), bytes);
        }
        let inside = nested.get(index).copied().unwrap_or(Some(0))?;
        most = most.max(sum.saturating_add(inside));
        let mut names = Vec::new();
        collect_input_names(node, &mut names);
        names.extend(node.outputs.iter().map(String::as_str));
        for name in names {
            let name = root(name);
            // After the last consumer, or without any consumer.
            if last.get(&name).is_none_or(|at| *at <= index)
                && let Some(bytes) = alive.remove(&name)
            {
                sum = sum.saturating_sub(bytes);
            }
        }
    }
    Some(most)
}
