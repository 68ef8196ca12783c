//! Writes a range of operators as a separate file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::OperatorChain;
use crate::Error;
use crate::analysis::collect_input_names;
use crate::constants::WeightTotals;
use crate::graph::{ConstantTensor, Graph, GraphNode, ValueInfo};
use crate::protobuf_reader::ProtobufSlice;
use crate::protobuf_writer::ProtobufWriter;
use crate::shape::ValueFact;

/// One part of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphPart {
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
    pub weights: WeightTotals,
    /// Its external weights; this crate accesses no files, so the caller has to write them.
    pub outside: Option<ExternalWeightsFile>,
}

/// An external weight file of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalWeightsFile {
    /// Required file name.
    pub name: String,
    /// Contents of the file.
    pub pieces: Vec<WeightSegment>,
}

/// A segment of external weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightSegment {
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
const WEIGHT_ALIGNMENT: u64 = 64;

/// Writes the part with this range of the order.
pub fn write_part(chain: &OperatorChain, range: Range<usize>, number: usize) -> Result<GraphPart, Error> {
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
        collect_input_names(&graph.nodes[index], &mut names);
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
    let mut message = ProtobufWriter::default();
    message.write_bytes(2, format!("{} {}..{}", graph.name, range.start, range.end).as_bytes());
    for index in &needed {
        check_inline_weights(&graph.nodes[*index], *index)?;
        message.write_bytes(1, span_bytes(chain, &graph.nodes[*index].span)?);
    }
    let mut weights = WeightTotals::default();
    let mut outside =
        ExternalWeightsFile { name: format!("{}.{number}.onnx.data", chain.stem), pieces: Vec::new() };
    for tensor in graph.initializers.iter().filter(|tensor| names_taken.contains(tensor.name.as_str())) {
        weights.add_elements(tensor.elements(), tensor.data_type, tensor.dims.len());
        let own = span_bytes(chain, &tensor.span)?;
        match &tensor.external {
            Some(file) => message.write_bytes(5, &encode_external_tensor(tensor, file, own, &mut outside)?),
            None => message.write_bytes(if tensor.is_sparse { 15 } else { 5 }, own),
        }
    }
    for index in needed.difference(&running) {
        for fact in graph.nodes[*index].outputs.iter().filter_map(|name| chain.facts.get(name)) {
            let is_source = matches!(graph.nodes[*index].kind.as_str(), "Constant" | "ConstantOfShape");
            if let (true, Some(elements), Some(data_type)) = (is_source, fact.elements(), fact.data_type) {
                weights.add_elements(elements, data_type, fact.rank().unwrap_or(0));
            }
        }
    }
    for inner in running.iter().flat_map(|index| graph.nodes[*index].graphs()) {
        crate::constants::for_each_constant(inner, &mut |tensor| {
            weights.add_elements(tensor.elements(), tensor.data_type, tensor.dims.len());
        });
        crate::constants::add_attribute_constants(inner, &mut weights);
    }
    let infos: BTreeMap<&str, &ValueInfo> = graph
        .values
        .iter()
        .chain(&graph.inputs)
        .chain(&graph.outputs)
        .map(|value| (value.name.as_str(), value))
        .collect();
    for name in &inputs {
        message.write_bytes(11, &encode_value(chain, name, infos.get(name).copied())?);
    }
    for name in &outputs {
        message.write_bytes(12, &encode_value(chain, name, infos.get(name).copied())?);
    }
    Ok(GraphPart {
        bytes: encode_file(chain, &message.into_bytes())?,
        inputs: inputs.into_iter().map(str::to_string).collect(),
        outputs: outputs.into_iter().map(str::to_string).collect(),
        range,
        operators: running.len(),
        weights,
        outside: (!outside.pieces.is_empty()).then_some(outside),
    })
}

/// Weights inside an operator are supported only if they are stored in the same file.
fn check_inline_weights(node: &GraphNode, number: usize) -> Result<(), Error> {
    let mut file = None;
    let alone = Graph { nodes: vec![node.clone()], ..Graph::default() };
    crate::constants::for_each_constant(&alone, &mut |tensor| file = file.or(tensor.external.as_deref()));
    match file {
        Some(file) => Err(Error::OperatorMismatch {
            node: node.display_name(number),
            why: format!(
                "weights inside it are in {file:?}; want them among those of the graph, or in its own file"
            ),
        }),
        None => Ok(()),
    }
}

/// The description of external weights, with their position in the part's own file.
fn encode_external_tensor(
    tensor: &ConstantTensor,
    file: &str,
    own: &[u8],
    outside: &mut ExternalWeightsFile,
) -> Result<Vec<u8>, Error> {
    let (from, length) = tensor.external_span;
    let length = length.or(tensor.bytes()).ok_or_else(|| Error::OperatorMismatch {
        node: "split".to_string(),
        why: format!("the weights {:?} in {file:?} have no length", tensor.name),
    })?;
    let end = outside.pieces.last().map_or(0, |last| last.to.saturating_add(last.length));
    let to = end.checked_next_multiple_of(WEIGHT_ALIGNMENT).unwrap_or(u64::MAX);
    let mut message = ProtobufWriter::default();
    let mut fields = ProtobufSlice::from_file(own).fields();
    while let Some((number, field)) = fields.next_field()? {
        if number != 13 {
            message.write_field(number, field);
        }
    }
    let entries =
        [("location", outside.name.clone()), ("offset", to.to_string()), ("length", length.to_string())];
    for (key, value) in entries {
        let mut entry = ProtobufWriter::default();
        entry.write_bytes(1, key.as_bytes());
        entry.write_bytes(2, value.as_bytes());
        message.write_bytes(13, &entry.into_bytes());
    }
    outside.pieces.push(WeightSegment { file: file.to_string(), from, length, to });
    Ok(message.into_bytes())
}

fn span_bytes<'a>(chain: &OperatorChain<'a>, span: &Range<usize>) -> Result<&'a [u8], Error> {
    chain
        .bytes
        .get(span.clone())
        .ok_or(Error::MalformedBytes { at: span.start, what: "a graph of other bytes" })
}

/// The whole file's fields, with this graph in place of its own.
fn encode_file(chain: &OperatorChain, graph: &[u8]) -> Result<Vec<u8>, Error> {
    let mut message = ProtobufWriter::default();
    let mut fields = ProtobufSlice::from_file(chain.bytes).fields();
    while let Some((number, field)) = fields.next_field()? {
        if number != 7 {
            message.write_field(number, field);
        }
    }
    message.write_bytes(7, graph);
    Ok(message.into_bytes())
}

/// Declaration of a value: its type, and its fixed sizes.
fn encode_value(chain: &OperatorChain, name: &str, info: Option<&ValueInfo>) -> Result<Vec<u8>, Error> {
    let fact = chain.facts.get(name).cloned().unwrap_or_default();
    let number =
        info.and_then(|value_info| value_info.data_type).or(fact.data_type).and_then(|kind| kind.number());
    let number = number.ok_or_else(|| Error::OperatorMismatch {
        node: "split".to_string(),
        why: format!("the type of {name:?} is unknown, so it cannot cross a cut; cut elsewhere"),
    })?;
    let mut tensor = ProtobufWriter::default();
    tensor.write_number(1, number);
    let is_sure = chain.is_closed || chain.bound.contains(name);
    if let Some(shape) = encode_shape(is_sure, &fact, info) {
        tensor.write_bytes(2, &shape);
    }
    let mut kind = ProtobufWriter::default();
    kind.write_bytes(1, &tensor.into_bytes());
    let mut value = ProtobufWriter::default();
    value.write_bytes(1, name.as_bytes());
    value.write_bytes(2, &kind.into_bytes());
    Ok(value.into_bytes())
}

/// Declared sizes of a value; fixed sizes also fill dimensions that the file leaves open.
fn encode_shape(is_sure: bool, fact: &ValueFact, info: Option<&ValueInfo>) -> Option<Vec<u8>> {
    let mut shape = ProtobufWriter::default();
    let mut add = |size: Option<u64>, name: Option<&str>| {
        let mut dim = ProtobufWriter::default();
        match (size, name) {
            (Some(size), _) => dim.write_number(1, size),
            (None, Some(name)) => dim.write_bytes(2, name.as_bytes()),
            (None, None) => {}
        }
        shape.write_bytes(1, &dim.into_bytes());
    };
    if let Some(dimensions) = info.and_then(|value_info| value_info.shape.as_ref()) {
        let known = fact.shape.as_ref().filter(|known| is_sure && known.len() == dimensions.len());
        for (at, dim) in dimensions.iter().enumerate() {
            let bound = known.and_then(|known| known[at]);
            match dim {
                crate::TensorDimension::Known(size) => add(Some(*size), None),
                crate::TensorDimension::Named(name) => add(bound, Some(name)),
                crate::TensorDimension::Unknown => add(bound, None),
            }
        }
    } else {
        fact.shape.as_ref()?.iter().for_each(|size| add(size.filter(|_| is_sure), None));
    }
    Some(shape.into_bytes())
}
