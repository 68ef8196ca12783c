//! Writes a range of operators as a separate file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Chain;
use crate::Error;
use crate::analysis::taken;
use crate::constants::Weights;
use crate::graph::{Graph, Node, Tensor, ValueInfo};
use crate::shape::Fact;
use crate::wire::Slice;
use crate::write::Message;

/// One part of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub bytes: Vec<u8>,
    /// Its inputs: inputs of the whole, and outputs of earlier parts.
    pub inputs: Vec<String>,
    /// Its outputs: outputs of the whole, and inputs of later parts.
    pub outputs: Vec<String>,
    /// Its range in the operator order.
    pub range: Range<usize>,
    /// Number of its operators.
    pub operators: usize,
    /// Totals of its weights.
    pub weights: Weights,
    /// Its external weights; this crate accesses no files, so the caller has to write them.
    pub outside: Option<Outside>,
}

/// An external weight file of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// Required file name.
    pub name: String,
    /// Contents of the file.
    pub pieces: Vec<Piece>,
}

/// A segment of external weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// File of the whole graph that contains it, as that graph names it.
    pub file: String,
    /// Offset in that file.
    pub from: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the part's file.
    pub to: u64,
}

/// Alignment of weights, so that they can be memory-mapped.
const ALIGNED: u64 = 64;

/// Writes the part with this range of the order.
pub fn write(chain: &Chain, range: Range<usize>, number: usize) -> Result<Part, Error> {
    let graph = &chain.model.graph;
    let running: BTreeSet<usize> = chain.steps[range.clone()].iter().copied().collect();
    // Outputs computed from constants only belong to no running operator; the last part provides
    // them.
    let is_last = range.end == chain.steps.len();
    let fixed = graph.outputs.iter().map(|output| output.name.as_str());
    let fixed = fixed.filter(|name| is_last && chain.is_constant(name));
    let fixed: BTreeMap<&str, usize> =
        fixed.filter_map(|name| Some((name, *chain.maker.get(name)?))).collect();
    let mut needed: BTreeSet<usize> = running.iter().chain(fixed.values()).copied().collect();
    let mut inputs = BTreeSet::new();
    let mut open: Vec<usize> = needed.iter().copied().collect();
    let mut names_taken = BTreeSet::new();
    // Operators that only compute constants are included with their consumers.
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
        .chain(fixed.keys().copied())
        .collect();
    let mut message = Message::default();
    message.bytes(2, format!("{} {}..{}", graph.name, range.start, range.end).as_bytes());
    for index in &needed {
        within(&graph.nodes[*index], *index)?;
        message.bytes(1, span(chain, &graph.nodes[*index].span)?);
    }
    let mut weights = Weights::default();
    let mut outside = Outside { name: format!("{}.{number}.onnx.data", chain.stem), pieces: Vec::new() };
    for tensor in graph.initializers.iter().filter(|tensor| names_taken.contains(tensor.name.as_str())) {
        weights.add(tensor.elements(), tensor.data_type, tensor.dims.len());
        let own = span(chain, &tensor.span)?;
        match &tensor.external {
            Some(file) => message.bytes(5, &moved(tensor, file, own, &mut outside)?),
            None => message.bytes(if tensor.is_sparse { 15 } else { 5 }, own),
        }
    }
    for index in needed.difference(&running) {
        for fact in graph.nodes[*index].outputs.iter().filter_map(|name| chain.facts.get(name)) {
            let is_source = matches!(graph.nodes[*index].kind.as_str(), "Constant" | "ConstantOfShape");
            if let (true, Some(elements), Some(data_type)) = (is_source, fact.elements(), fact.data_type) {
                weights.add(elements, data_type, fact.rank().unwrap_or(0));
            }
        }
    }
    for inner in running.iter().flat_map(|index| graph.nodes[*index].graphs()) {
        crate::constants::each(inner, &mut |tensor| {
            weights.add(tensor.elements(), tensor.data_type, tensor.dims.len());
        });
        crate::constants::add_plain(inner, &mut weights);
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
        outside: (!outside.pieces.is_empty()).then_some(outside),
    })
}

/// Weights inside an operator are supported only if they are stored in the same file.
fn within(node: &Node, number: usize) -> Result<(), Error> {
    let mut file = None;
    let alone = Graph { nodes: vec![node.clone()], ..Graph::default() };
    crate::constants::each(&alone, &mut |tensor| file = file.or(tensor.external.as_deref()));
    match file {
        Some(file) => Err(Error::Misfit {
            node: node.called(number),
            why: format!(
                "weights inside it are in {file:?}; want them among those of the graph, or in its own file"
            ),
        }),
        None => Ok(()),
    }
}

/// The description of external weights, with their position in the part's own file.
fn moved(tensor: &Tensor, file: &str, own: &[u8], outside: &mut Outside) -> Result<Vec<u8>, Error> {
    let (from, length) = tensor.external_span;
    let length = length.or(tensor.bytes()).ok_or_else(|| Error::Misfit {
        node: "split".to_string(),
        why: format!("the weights {:?} in {file:?} have no length", tensor.name),
    })?;
    let end = outside.pieces.last().map_or(0, |last| last.to.saturating_add(last.length));
    let to = end.checked_next_multiple_of(ALIGNED).unwrap_or(u64::MAX);
    let mut message = Message::default();
    let mut fields = Slice::whole(own).fields();
    while let Some((number, field)) = fields.next()? {
        if number != 13 {
            message.field(number, field);
        }
    }
    let said =
        [("location", outside.name.clone()), ("offset", to.to_string()), ("length", length.to_string())];
    for (key, value) in said {
        let mut entry = Message::default();
        entry.bytes(1, key.as_bytes());
        entry.bytes(2, value.as_bytes());
        message.bytes(13, &entry.into_bytes());
    }
    outside.pieces.push(Piece { file: file.to_string(), from, length, to });
    Ok(message.into_bytes())
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

/// Declaration of a value: its type, and its fixed sizes.
fn value(chain: &Chain, name: &str, told: Option<&ValueInfo>) -> Result<Vec<u8>, Error> {
    let fact = chain.facts.get(name).cloned().unwrap_or_default();
    let number = told.and_then(|told| told.data_type).or(fact.data_type).and_then(|kind| kind.number());
    let number = number.ok_or_else(|| Error::Misfit {
        node: "split".to_string(),
        why: format!("the type of {name:?} is unknown, so it cannot cross a cut; cut elsewhere"),
    })?;
    let mut tensor = Message::default();
    tensor.number(1, number);
    let is_sure = chain.is_closed || chain.bound.contains(name);
    if let Some(shape) = shape(is_sure, &fact, told) {
        tensor.bytes(2, &shape);
    }
    let mut kind = Message::default();
    kind.bytes(1, &tensor.into_bytes());
    let mut value = Message::default();
    value.bytes(1, name.as_bytes());
    value.bytes(2, &kind.into_bytes());
    Ok(value.into_bytes())
}

/// Declared sizes of a value; fixed sizes also fill dimensions that the file leaves open.
fn shape(is_sure: bool, fact: &Fact, told: Option<&ValueInfo>) -> Option<Vec<u8>> {
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
        let known = fact.shape.as_ref().filter(|known| is_sure && known.len() == told.len());
        for (at, dim) in told.iter().enumerate() {
            let bound = known.and_then(|known| known[at]);
            match dim {
                crate::Dim::Known(size) => add(Some(*size), None),
                crate::Dim::Named(name) => add(bound, Some(name)),
                crate::Dim::Unknown => add(bound, None),
            }
        }
    } else {
        fact.shape.as_ref()?.iter().for_each(|size| add(size.filter(|_| is_sure), None));
    }
    Some(shape.into_bytes())
}
