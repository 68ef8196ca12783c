//! Static analysis of a graph.
//!
//! [`walk`] visits the operators in order, including subgraphs, [`turns`] handles loops, and
//! [`call`] handles functions of the file. [`memory`] finds the peak memory of activations.
//! Assumptions (a batch of one, the heavier branch of an `If`, one iteration of a loop of unknown
//! length) are listed in `notes`. Unknown costs are counted, not guessed.

mod call;
mod memory;
mod turns;
mod walk;

pub(crate) use memory::taken;

use std::collections::{BTreeMap, BTreeSet};

use metier_types::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::constants::Weights;
use crate::graph::{DataType, Dim, Model, ValueInfo};
use crate::shape::Fact;
use crate::soprano::{self, Characteristics, NetworkType};
use crate::{Error, Limits};

/// Shapes of inputs and sizes of named dimensions, given by the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bindings {
    /// Complete shapes by input.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Sizes by dimension name.
    pub dims: BTreeMap<String, u64>,
    /// Values of inputs that determine the computation, such as a sampling rate.
    pub values: BTreeMap<String, Vec<i64>>,
}

impl Bindings {
    /// Sizes of named dimensions, given directly or implied by the given shapes of inputs. Equal
    /// names have equal sizes, so the size from one input holds for all. A name with conflicting
    /// sizes is ignored. `?`, `-1` and `None`, which some exporters write for unknown dimensions,
    /// are not names.
    pub(crate) fn sizes(&self, inputs: &[ValueInfo]) -> BTreeMap<String, u64> {
        let is_name = |name: &str| name.contains(char::is_alphabetic) && !name.eq_ignore_ascii_case("none");
        let mut told: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        for input in inputs {
            let (Some(given), Some(shape)) = (self.shapes.get(&input.name), &input.shape) else { continue };
            for (dim, size) in shape.iter().zip(given) {
                if let Dim::Named(name) = dim
                    && is_name(name)
                {
                    let known = told.entry(name).or_insert(Some(*size));
                    *known = known.filter(|known| known == size);
                }
            }
        }
        let told = told.into_iter().filter_map(|(name, size)| Some((name.to_string(), size?)));
        told.chain(self.dims.iter().map(|(name, size)| (name.clone(), *size))).collect()
    }
}

/// A value that is an input or output of a graph or an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Value {
    /// Name of the value.
    pub name: String,
    /// Type of its elements.
    pub data_type: Option<DataType>,
    /// Its dimensions; `null` if unknown.
    pub shape: Option<Vec<Option<u64>>>,
    /// Whether it is a weight or computed from weights only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_constant: bool,
}

impl Value {
    pub(crate) fn of(name: &str, fact: &Fact) -> Self {
        Self {
            name: name.to_string(),
            data_type: fact.data_type,
            shape: fact.shape.clone(),
            is_constant: fact.is_constant,
        }
    }
}

/// Cost of one operator for one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperatorCost {
    /// Name in the file, often empty.
    pub name: String,
    /// Operator type.
    pub kind: String,
    /// Domain of the operator type; empty for ONNX's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// The enclosing subgraphs, outermost first; empty in the main graph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub inside: String,
    /// Its inputs.
    pub inputs: Vec<Value>,
    /// Its outputs.
    pub outputs: Vec<Value>,
    /// Multiply-adds of one iteration.
    pub multiply_adds: Option<u64>,
    /// Elements of its first output.
    pub elements: Option<u64>,
    /// Bytes of activations and weights that it reads.
    pub read_bytes: Option<Bytes>,
    /// Bytes that it writes.
    pub written_bytes: Option<Bytes>,
    /// Bytes of weights among those that it reads.
    pub weight_bytes: Option<Bytes>,
    /// Number of iterations in one inference.
    pub turns: u64,
    /// Integer attributes that affect its speed: `group`, `strides`, `kernel_shape`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Vec<i64>>,
}

/// Totals over all operators of one type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct KindCost {
    /// Number of operators.
    pub operators: u64,
    /// Multiply-adds over all iterations.
    pub multiply_adds: u64,
    /// Bytes written over all iterations.
    pub written_bytes: Bytes,
}

/// Static analysis of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Analysis {
    /// `metier.graph/1`.
    pub schema: String,
    /// Name of the graph in its file.
    pub name: String,
    /// Program that wrote the file.
    pub producer: String,
    /// Version of ONNX's own operators.
    pub opset: i64,
    /// Inputs of the graph.
    pub inputs: Vec<Value>,
    /// Outputs of the graph.
    pub outputs: Vec<Value>,
    /// Operators in the file, including subgraphs and constants.
    pub operators_in_file: u64,
    /// Number of weights, also external ones: floats, and integers of at most 8 bits of rank 2 or
    /// more.
    pub parameters: u64,
    /// Bytes of all constants.
    pub weight_bytes: Bytes,
    /// External files that hold weights.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub external_files: BTreeSet<String>,
    /// Multiply-adds of one inference.
    pub multiply_adds: u64,
    /// Operators without a cost in the total, because a size or the operator is unknown.
    pub operators_without_cost: u64,
    /// Peak memory of activations; `null` if a size is unknown.
    pub peak_activation_bytes: Option<Bytes>,
    /// Totals by type of the operators that run.
    pub kinds: BTreeMap<String, KindCost>,
    /// Network type by SOPRANO's rule.
    pub network_type: NetworkType,
    /// SOPRANO's characteristics, counted correctly.
    pub characteristics: Characteristics,
    /// SOPRANO's characteristics by its own rules, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub characteristics_by_rules: Option<Characteristics>,
    /// Assumptions of the analysis.
    pub notes: Vec<String>,
    /// Operators that run, in order, without those that only compute constants.
    pub operators: Vec<OperatorCost>,
}

/// Analyses a graph whose open dimensions are bound.
pub fn analyse(model: &Model, bindings: &Bindings, limits: &Limits) -> Result<Analysis, Error> {
    let graph = &model.graph;
    let mut notes = Vec::new();
    let inputs = bound(&graph.inputs, bindings, limits, &mut notes)?;
    let mut walk = walk::Walk::new(model, limits);
    let told = walk.main(graph, inputs.clone())?;
    let mut weights = Weights::default();
    let mut external_files = BTreeSet::new();
    let graphs = [graph].into_iter().chain(model.functions.iter().map(|function| &function.graph));
    for graph in graphs {
        crate::constants::each(graph, &mut |tensor| {
            weights.add(tensor.elements(), tensor.data_type, tensor.dims.len());
            external_files.extend(tensor.external.clone());
        });
        crate::constants::add_plain(graph, &mut weights);
    }
    weights.parameters = weights.parameters.saturating_add(walk.made.parameters);
    weights.bytes = weights.bytes.saturating_add(walk.made.bytes);
    let kinds = by_kind(&told.operators);
    let mut characteristics = walk.counts;
    characteristics.total_parameters = weights.parameters;
    let by_rules = soprano::by_the_rules(graph);
    notes.extend(walk.notes);
    let value =
        |info: &ValueInfo| Value::of(&info.name, told.facts.get(&info.name).unwrap_or(&Fact::default()));
    Ok(Analysis {
        schema: "metier.graph/1".to_string(),
        name: graph.name.clone(),
        producer: model.producer.clone(),
        opset: model.opset(),
        inputs: inputs.iter().map(|(name, fact)| Value::of(name, fact)).collect(),
        outputs: graph.outputs.iter().map(value).collect(),
        operators_in_file: walk.seen,
        parameters: weights.parameters,
        weight_bytes: Bytes(weights.bytes),
        external_files,
        multiply_adds: kinds.values().fold(0, |sum, kind| sum.saturating_add(kind.multiply_adds)),
        operators_without_cost: told.operators.iter().filter(|one| one.multiply_adds.is_none()).count()
            as u64,
        peak_activation_bytes: told.peak.map(Bytes),
        kinds,
        network_type: soprano::network_type(graph),
        characteristics,
        characteristics_by_rules: (by_rules != characteristics).then_some(by_rules),
        notes,
        operators: told.operators,
    })
}

/// Totals by operator type.
pub(crate) fn by_kind(operators: &[OperatorCost]) -> BTreeMap<String, KindCost> {
    let mut kinds: BTreeMap<String, KindCost> = BTreeMap::new();
    for operator in operators {
        let kind = kinds.entry(operator.kind.clone()).or_default();
        kind.operators += 1;
        let turned = |value: u64| value.saturating_mul(operator.turns);
        kind.multiply_adds = kind.multiply_adds.saturating_add(operator.multiply_adds.map_or(0, turned));
        let written = operator.written_bytes.map_or(0, |bytes| turned(bytes.0));
        kind.written_bytes = Bytes(kind.written_bytes.0.saturating_add(written));
    }
    kinds
}

/// Inferred facts of every value of the main graph.
pub(crate) fn facts(
    model: &Model,
    bindings: &Bindings,
    limits: &Limits,
) -> Result<BTreeMap<String, Fact>, Error> {
    let inputs = bound(&model.graph.inputs, bindings, limits, &mut Vec::new())?;
    Ok(walk::Walk::new(model, limits).main(&model.graph, inputs)?.facts)
}

/// Binds the open dimensions of the inputs: to the user's sizes, else a first dimension to a batch
/// of one.
fn bound(
    inputs: &[ValueInfo],
    bindings: &Bindings,
    limits: &Limits,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Fact)>, Error> {
    for name in bindings.shapes.keys().chain(bindings.values.keys()) {
        if !inputs.iter().any(|input| input.name == *name) {
            let known: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
            let want = format!("one of the inputs {}", known.join(", "));
            return Err(Error::Shape { input: name.clone(), got: "given".to_string(), want });
        }
    }
    let named = || inputs.iter().flat_map(|input| input.shape.iter().flatten());
    let is_there = |name: &str| named().any(|dim| matches!(dim, Dim::Named(known) if known == name));
    if let Some(name) = bindings.dims.keys().find(|name| !is_there(name)) {
        let known: BTreeSet<String> =
            named().filter(|dim| matches!(dim, Dim::Named(_))).map(ToString::to_string).collect();
        let want = match known.is_empty() {
            true => "a shape: no dimension of its inputs has a name".to_string(),
            false => format!("one of {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return Err(Error::Dimension { name: name.clone(), want });
    }
    let sizes = bindings.sizes(inputs);
    inputs
        .iter()
        .map(|input| Ok((input.name.clone(), bind(input, bindings, &sizes, limits, notes)?)))
        .collect()
}

fn bind(
    input: &ValueInfo,
    bindings: &Bindings,
    named: &BTreeMap<String, u64>,
    limits: &Limits,
    notes: &mut Vec<String>,
) -> Result<Fact, Error> {
    let said = |shape: &[Dim]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    let shape = match (bindings.shapes.get(&input.name), &input.shape) {
        (Some(given), Some(shape)) => {
            let fits = given.len() == shape.len()
                && given
                    .iter()
                    .zip(shape)
                    .all(|(size, dim)| !matches!(dim, Dim::Known(known) if known != size));
            if !fits {
                let got = given.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
                return Err(Error::Shape { input: input.name.clone(), got, want: said(shape) });
            }
            Some(given.iter().map(|size| Some(*size)).collect())
        }
        (Some(given), None) => Some(given.iter().map(|size| Some(*size)).collect()),
        (None, None) => {
            notes.push(format!("input {:?} has no shape in the file; give one", input.name));
            None
        }
        (None, Some(shape)) => {
            let mut sizes: Vec<Option<u64>> = Vec::with_capacity(shape.len());
            for (axis, dim) in shape.iter().enumerate() {
                sizes.push(match dim {
                    Dim::Known(size) => Some(*size),
                    Dim::Named(name) if named.contains_key(name) => named.get(name).copied(),
                    _ if axis == 0 && shape.len() > 1 => {
                        notes.push(format!("input {:?}: a batch of 1 is assumed for {dim}", input.name));
                        Some(1)
                    }
                    _ => None,
                });
            }
            if sizes.contains(&None) {
                let shape = said(shape);
                notes.push(format!(
                    "input {:?} is {shape}: without sizes for all of it costs are partial",
                    input.name
                ));
            }
            Some(sizes)
        }
    };
    let mut fact = Fact::new(input.data_type, shape);
    if let Some(values) = bindings.values.get(&input.name) {
        let count = fact.elements().unwrap_or(values.len() as u64);
        if count != values.len() as u64 {
            let got = format!("given {} values", values.len());
            return Err(Error::Shape { input: input.name.clone(), got, want: format!("{count} values") });
        }
        fact.small = Some(crate::graph::Small::Integers(values.clone()));
    }
    if fact.dims().is_some() && fact.elements().is_none_or(|count| count > limits.elements) {
        let got = format!("{:?}", fact.dims().unwrap_or_default());
        let want = format!("at most {} elements", limits.elements);
        return Err(Error::Shape { input: input.name.clone(), got, want });
    }
    Ok(fact)
}
