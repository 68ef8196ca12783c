//! Writes a stretch of operators as a file of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Chain;
use crate::Error;
use crate::analysis::taken;
use crate::constants::Weights;
use crate::graph::ValueInfo;
use crate::shape::Fact;
use crate::wire::Slice;
use crate::write::Message;

/// One part of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its file.
    pub bytes: Vec<u8>,
    /// What it is given: inputs of the whole, and what earlier parts make.
    pub inputs: Vec<String>,
    /// What it gives: results of the whole, and what later parts take.
    pub outputs: Vec<String>,
    /// The operators of the order that it has.
    pub range: Range<usize>,
    /// How many these are.
    pub operators: usize,
    /// What it has of the weights.
    pub weights: Weights,
}

/// The part with these positions of the order.
pub fn write(chain: &Chain, range: Range<usize>) -> Result<Part, Error> {
    let graph = &chain.model.graph;
    let running: BTreeSet<usize> = chain.steps[range.clone()].iter().copied().collect();
    let mut needed = running.clone();
    let mut inputs = BTreeSet::new();
    let mut open: Vec<usize> = running.iter().copied().collect();
    let mut names_taken = BTreeSet::new();
    // Operators that only make constants come along with whoever takes what they make.
    while let Some(index) = open.pop() {
        let mut names = Vec::new();
        taken(&graph.nodes[index], &mut names);
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            names_taken.insert(name);
            match chain.maker.get(name) {
                Some(maker) if chain.is_constant(name) => {
                    open.extend(needed.insert(*maker).then_some(*maker));
                }
                Some(maker) if !running.contains(maker) => {
                    inputs.insert(name);
                }
                Some(_) => {}
                None if graph.inputs.iter().any(|input| input.name == name) => {
                    inputs.insert(name);
                }
                None => {}
            }
        }
    }
    let outputs: Vec<&str> = running
        .iter()
        .flat_map(|index| graph.nodes[*index].outputs.iter())
        .map(String::as_str)
        .filter(|name| !name.is_empty() && chain.last.get(name).is_some_and(|last| *last >= range.end))
        .collect();
    let mut message = Message::default();
    message.bytes(2, format!("{} {}..{}", graph.name, range.start, range.end).as_bytes());
    for index in &needed {
        message.bytes(1, span(chain, &graph.nodes[*index].span)?);
    }
    let mut weights = Weights::default();
    for tensor in graph.initializers.iter().filter(|tensor| names_taken.contains(tensor.name.as_str())) {
        weights.add(tensor.elements(), tensor.data_type);
        message.bytes(if tensor.is_sparse { 15 } else { 5 }, span(chain, &tensor.span)?);
    }
    for index in needed.difference(&running) {
        for fact in graph.nodes[*index].outputs.iter().filter_map(|name| chain.facts.get(name)) {
            let is_source = matches!(graph.nodes[*index].kind.as_str(), "Constant" | "ConstantOfShape");
            if let (true, Some(elements), Some(data_type)) = (is_source, fact.elements(), fact.data_type) {
                weights.add(elements, data_type);
            }
        }
    }
    let told: BTreeMap<&str, &ValueInfo> = graph
        .values
        .iter()
        .chain(&graph.inputs)
        .chain(&graph.outputs)
        .map(|value| (value.name.as_str(), value))
        .collect();
    for name in &inputs {
        message.bytes(11, &value(chain, name, told.get(name).copied())?);
    }
    for name in &outputs {
        message.bytes(12, &value(chain, name, told.get(name).copied())?);
    }
    Ok(Part {
        bytes: file(chain, &message.into_bytes())?,
        inputs: inputs.into_iter().map(str::to_string).collect(),
        outputs: outputs.into_iter().map(str::to_string).collect(),
        range,
        operators: running.len(),
        weights,
    })
}

fn span<'a>(chain: &Chain<'a>, span: &Range<usize>) -> Result<&'a [u8], Error> {
    chain.bytes.get(span.clone()).ok_or(Error::Bytes { at: span.start, what: "a graph of other bytes" })
}

/// The whole file's fields, with this graph in place of its own.
fn file(chain: &Chain, graph: &[u8]) -> Result<Vec<u8>, Error> {
    let mut message = Message::default();
    let mut fields = Slice::whole(chain.bytes).fields();
    while let Some((number, field)) = fields.next()? {
        if number != 7 {
            message.field(number, field);
        }
    }
    message.bytes(7, graph);
    Ok(message.into_bytes())
}

/// The description of a value: its type, and its sizes where they are those of every run.
fn value(chain: &Chain, name: &str, told: Option<&ValueInfo>) -> Result<Vec<u8>, Error> {
    let fact = chain.facts.get(name).cloned().unwrap_or_default();
    let number = told.and_then(|told| told.data_type).or(fact.data_type).and_then(|kind| kind.number());
    let number = number.ok_or_else(|| Error::Misfit {
        node: "split".to_string(),
        why: format!("the type of {name:?} is not known, so it cannot flow between parts; cut elsewhere"),
    })?;
    let mut tensor = Message::default();
    tensor.number(1, number);
    if let Some(shape) = shape(chain, &fact, told) {
        tensor.bytes(2, &shape);
    }
    let mut kind = Message::default();
    kind.bytes(1, &tensor.into_bytes());
    let mut value = Message::default();
    value.bytes(1, name.as_bytes());
    value.bytes(2, &kind.into_bytes());
    Ok(value.into_bytes())
}

fn shape(chain: &Chain, fact: &Fact, told: Option<&ValueInfo>) -> Option<Vec<u8>> {
    let mut shape = Message::default();
    let mut add = |size: Option<u64>, name: Option<&str>| {
        let mut dim = Message::default();
        match (size, name) {
            (Some(size), _) => dim.number(1, size),
            (None, Some(name)) => dim.bytes(2, name.as_bytes()),
            (None, None) => {}
        }
        shape.bytes(1, &dim.into_bytes());
    };
    if let Some(told) = told.and_then(|told| told.shape.as_ref()) {
        for dim in told {
            match dim {
                crate::Dim::Known(size) => add(Some(*size), None),
                crate::Dim::Named(name) => add(None, Some(name)),
                crate::Dim::Unknown => add(None, None),
            }
        }
    } else {
        fact.shape.as_ref()?.iter().for_each(|size| add(size.filter(|_| chain.is_closed), None));
    }
    Some(shape.into_bytes())
}
