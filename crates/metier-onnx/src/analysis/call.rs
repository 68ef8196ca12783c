//! Calls of functions that a file defines itself, with their arguments.
//!
//! Every call gets a copy of the function with the call's attributes; the total size of the copies
//! is bounded.

use std::collections::BTreeSet;

use super::walk::{Told, Walk, within};
use crate::Error;
use crate::graph::{Attribute, Function, Graph, Node};
use crate::shape::Fact;

/// Largest total size of function copies; hundreds of times what real networks need.
pub(super) const COPIED: u64 = 512 << 20;
/// Bytes of a name besides its letters, and of a number.
const NAME: u64 = 24;
const NUMBER: u64 = 8;

impl Walk<'_> {
    /// Walks a function as a subgraph without access to the enclosing scopes.
    pub(super) fn call(
        &mut self,
        function: &Function,
        node: &Node,
        inputs: &[Option<&Fact>],
        place: &str,
    ) -> Result<(Vec<Fact>, Told), Error> {
        let bounded = |what, got: u64, most: u64| match got > most {
            true => Err(Error::TooMuch { what, got, most }),
            false => Ok(()),
        };
        bounded("the depth of functions inside functions", self.calls as u64 + 1, self.limits.depth as u64)?;
        let count = 1 + function.graph.nodes.len() as u64;
        let most = self.limits.nodes as u64;
        // A few functions that each call the previous one twice expand to more operators than any
        // file has.
        self.called = self.called.checked_sub(count).ok_or(Error::TooMuch {
            what: "the number of operators that functions stand for",
            got: most.saturating_add(count),
            most,
        })?;
        let size = size_of(&function.graph);
        self.copied = self.copied.checked_sub(size).ok_or(Error::TooMuch {
            what: "the number of bytes that calls of functions repeat",
            got: COPIED.saturating_add(size),
            most: COPIED,
        })?;
        let named = function.graph.inputs.iter().enumerate();
        let (given, absent): (Vec<_>, Vec<_>) = named
            .map(|(at, input)| (&input.name, inputs.get(at).copied().flatten()))
            .partition(|(_, fact)| fact.is_some());
        let mut room = self.followed;
        let given = given.into_iter().map(|(name, fact)| (name.clone(), within(fact, &mut room))).collect();
        let absent: BTreeSet<&str> = absent.into_iter().map(|(name, _)| name.as_str()).collect();
        let mut body = function.graph.clone();
        filled(&mut body, function, node, &absent);
        let opset = self.opset;
        self.opset = function.opset.unwrap_or(opset);
        self.calls += 1;
        let told = self.graph(&body, given, &Vec::new(), place);
        self.calls -= 1;
        self.opset = opset;
        let told = told?;
        Ok((told.outputs.clone(), told))
    }
}

/// Estimated bytes of a graph's copy: names and attributes, including subgraphs; constants are
/// shared.
pub(super) fn size_of(graph: &Graph) -> u64 {
    let texts = |texts: &[String]| texts.iter().map(|text| NAME + text.len() as u64).sum::<u64>();
    let value = |value: &Attribute| match value {
        Attribute::Text(text) | Attribute::Outer(text) => text.len() as u64,
        Attribute::Integers(list) => NUMBER * list.len() as u64,
        Attribute::Floats(list) => NUMBER * list.len() as u64,
        Attribute::Texts(list) => texts(list),
        Attribute::Graph(inner) => size_of(inner),
        Attribute::Graphs(inner) => inner.iter().map(size_of).sum(),
        Attribute::Integer(_) | Attribute::Float(_) | Attribute::Tensor(_) | Attribute::Other => NUMBER,
    };
    let node = |node: &Node| {
        let names = [&node.name, &node.kind, &node.domain, &node.overload];
        let own: u64 = names.iter().map(|name| NAME + name.len() as u64).sum();
        let settings = node.attributes.iter().map(|(name, one)| NAME + name.len() as u64 + value(one));
        own + texts(&node.inputs) + texts(&node.outputs) + settings.sum::<u64>()
    };
    graph.nodes.iter().map(node).sum()
}

/// Substitutes the call's attributes, and removes inputs that the call omits.
fn filled(graph: &mut Graph, function: &Function, call: &Node, absent: &BTreeSet<&str>) {
    for node in &mut graph.nodes {
        for input in &mut node.inputs {
            if absent.contains(input.as_str()) {
                input.clear();
            }
        }
        node.attributes.retain(|_, value| {
            if let Attribute::Outer(name) = value {
                match call.attributes.get(name).or_else(|| function.defaults.get(name)) {
                    Some(outer) => *value = outer.clone(),
                    None => return false,
                }
            }
            true
        });
        for value in node.attributes.values_mut() {
            match value {
                Attribute::Graph(inner) => filled(inner, function, call, absent),
                Attribute::Graphs(inner) => {
                    inner.iter_mut().for_each(|inner| filled(inner, function, call, absent))
                }
                _ => {}
            }
        }
    }
}
