//! Calls of functions that a file defines itself, with their arguments.
//!
//! Every call gets a copy of the function with the call's attributes; the total size of the copies
//! is bounded.

use std::collections::BTreeSet;

use super::graph_walk::{GraphWalk, WalkResult, clone_within_budget};
use crate::Error;
use crate::graph::{Graph, GraphNode, LocalFunction, NodeAttribute};
use crate::shape::ValueFact;

/// Largest total size of function copies; hundreds of times what real networks need.
pub(super) const MAX_COPIED_BYTES: u64 = 512 << 20;
/// Bytes of a name besides its letters, and of a number.
const NAME_OVERHEAD_BYTES: u64 = 24;
const NUMBER_BYTES: u64 = 8;

impl GraphWalk<'_> {
    /// Walks a function as a subgraph without access to the enclosing scopes.
    pub(super) fn call_function(
        &mut self,
        function: &LocalFunction,
        node: &GraphNode,
        inputs: &[Option<&ValueFact>],
        place: &str,
    ) -> Result<(Vec<ValueFact>, WalkResult), Error> {
        let bounded = |what, got: u64, most: u64| match got > most {
            true => Err(Error::LimitExceeded { what, got, most }),
            false => Ok(()),
        };
        bounded("the depth of functions inside functions", self.calls as u64 + 1, self.limits.depth as u64)?;
        let count = 1 + function.graph.nodes.len() as u64;
        let most = self.limits.nodes as u64;
        // A few functions that each call the previous one twice expand to more operators than any
        // file has.
        self.called = self.called.checked_sub(count).ok_or(Error::LimitExceeded {
            what: "the number of operators that functions stand for",
            got: most.saturating_add(count),
            most,
        })?;
        let size = estimate_copy_bytes(&function.graph);
        self.copied = self.copied.checked_sub(size).ok_or(Error::LimitExceeded {
            what: "the number of bytes that calls of functions repeat",
            got: MAX_COPIED_BYTES.saturating_add(size),
            most: MAX_COPIED_BYTES,
        })?;
        let named = function.graph.inputs.iter().enumerate();
        let (given, absent): (Vec<_>, Vec<_>) = named
            .map(|(at, input)| (&input.name, inputs.get(at).copied().flatten()))
            .partition(|(_, fact)| fact.is_some());
        let mut room = self.followed;
        let given = given
            .into_iter()
            .map(|(name, fact)| (name.clone(), clone_within_budget(fact, &mut room)))
            .collect();
        let absent: BTreeSet<&str> = absent.into_iter().map(|(name, _)| name.as_str()).collect();
        let mut body = function.graph.clone();
        substitute_attributes(&mut body, function, node, &absent);
        let opset = self.opset;
        self.opset = function.opset.unwrap_or(opset);
        self.calls += 1;
        let result = self.walk_graph(&body, given, &Vec::new(), place);
        self.calls -= 1;
        self.opset = opset;
        let walk_result = result?;
        Ok((walk_result.outputs.clone(), walk_result))
    }
}

/// Estimated bytes of a graph's copy: names and attributes, including subgraphs; constants are
/// shared.
pub(super) fn estimate_copy_bytes(graph: &Graph) -> u64 {
    let texts =
        |texts: &[String]| texts.iter().map(|text| NAME_OVERHEAD_BYTES + text.len() as u64).sum::<u64>();
    let value = |value: &NodeAttribute| match value {
        NodeAttribute::Text(text) | NodeAttribute::Outer(text) => text.len() as u64,
        NodeAttribute::Integers(list) => NUMBER_BYTES * list.len() as u64,
        NodeAttribute::Floats(list) => NUMBER_BYTES * list.len() as u64,
        NodeAttribute::Texts(list) => texts(list),
        NodeAttribute::Graph(inner) => estimate_copy_bytes(inner),
        NodeAttribute::Graphs(inner) => inner.iter().map(estimate_copy_bytes).sum(),
        NodeAttribute::Integer(_)
        | NodeAttribute::Float(_)
        | NodeAttribute::Tensor(_)
        | NodeAttribute::Other => NUMBER_BYTES,
    };
    let node = |node: &GraphNode| {
        let names = [&node.name, &node.kind, &node.domain, &node.overload];
        let own: u64 = names.iter().map(|name| NAME_OVERHEAD_BYTES + name.len() as u64).sum();
        let settings = node
            .attributes
            .iter()
            .map(|(name, attribute)| NAME_OVERHEAD_BYTES + name.len() as u64 + value(attribute));
        own + texts(&node.inputs) + texts(&node.outputs) + settings.sum::<u64>()
    };
    graph.nodes.iter().map(node).sum()
}

/// Substitutes the call's attributes, and removes inputs that the call omits.
fn substitute_attributes(
    graph: &mut Graph,
    function: &LocalFunction,
    call: &GraphNode,
    absent: &BTreeSet<&str>,
) {
    for node in &mut graph.nodes {
        for input in &mut node.inputs {
            if absent.contains(input.as_str()) {
                input.clear();
            }
        }
        node.attributes.retain(|_, value| {
            if let NodeAttribute::Outer(name) = value {
                match call.attributes.get(name).or_else(|| function.defaults.get(name)) {
                    Some(outer) => *value = outer.clone(),
                    None => return false,
                }
            }
            true
        });
        for value in node.attributes.values_mut() {
            match value {
                NodeAttribute::Graph(inner) => substitute_attributes(inner, function, call, absent),
                NodeAttribute::Graphs(inner) => {
                    inner.iter_mut().for_each(|inner| substitute_attributes(inner, function, call, absent))
                }
                _ => {}
            }
        }
    }
}
