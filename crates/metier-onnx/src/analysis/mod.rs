//! Static analysis of a graph.
//!
//! [`graph_walk`] visits the operators in order, including subgraphs, [`walk_loop`] handles loops,
//! and [`call_function`] handles functions of the file. [`peak_memory`] finds the peak memory of
//! activations. Assumptions (a batch of one, the heavier branch of an `If`, one iteration of a loop
//! of unknown length) are listed in `notes`. Unknown costs are counted, not guessed.

mod function_calls;
mod graph_walk;
mod loops;
mod peak_memory;

pub(crate) use peak_memory::collect_input_names;

use std::collections::{BTreeMap, BTreeSet};

use metier_types::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::constants::WeightTotals;
use crate::graph::{DataType, OnnxFile, TensorDimension, ValueInfo};
use crate::shape::ValueFact;
use crate::soprano::{self, GraphCharacteristics, NetworkType};
use crate::{Error, OnnxLimits};

/// Shapes of inputs and sizes of named dimensions, given by the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShapeBindings {
    /// Complete shapes by input.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Sizes by dimension name.
    pub dims: BTreeMap<String, u64>,
    /// Values of inputs that determine the computation, such as a sampling rate.
    pub values: BTreeMap<String, Vec<i64>>,
}

impl ShapeBindings {
    /// Sizes of named dimensions, given directly or implied by the given shapes of inputs. Equal
    /// names have equal sizes, so the size from one input holds for all. A name with conflicting
    /// sizes is ignored. `?`, `-1` and `None`, which some exporters write for unknown dimensions,
    /// are not names.
    pub(crate) fn resolve_dimensions(&self, inputs: &[ValueInfo]) -> BTreeMap<String, u64> {
        let is_name = |name: &str| name.contains(char::is_alphabetic) && !name.eq_ignore_ascii_case("none");
        let mut options: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        for input in inputs {
            let (Some(given), Some(shape)) = (self.shapes.get(&input.name), &input.shape) else { continue };
            for (dim, size) in shape.iter().zip(given) {
                if let TensorDimension::Named(name) = dim
                    && is_name(name)
                {
                    let known = options.entry(name).or_insert(Some(*size));
                    *known = known.filter(|known| known == size);
                }
            }
        }
        let map = options.into_iter().filter_map(|(name, size)| Some((name.to_string(), size?)));
        map.chain(self.dims.iter().map(|(name, size)| (name.clone(), *size))).collect()
    }
}

/// A value that is an input or output of a graph or an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ValueDescription {
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

impl ValueDescription {
    pub(crate) fn from_fact(name: &str, fact: &ValueFact) -> Self {
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
    pub inputs: Vec<ValueDescription>,
    /// Its outputs.
    pub outputs: Vec<ValueDescription>,
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
pub struct OperatorKindCost {
    /// Number of operators.
    pub operators: u64,
    /// Multiply-adds over all iterations.
    pub multiply_adds: u64,
    /// Bytes written over all iterations.
    pub written_bytes: Bytes,
}

/// Static analysis of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GraphAnalysis {
    /// `metier.graph/1`.
    pub schema: String,
    /// Name of the graph in its file.
    pub name: String,
    /// Program that wrote the file.
    pub producer: String,
    /// Version of ONNX's own operators.
    pub opset: i64,
    /// Inputs of the graph.
    pub inputs: Vec<ValueDescription>,
    /// Outputs of the graph.
    pub outputs: Vec<ValueDescription>,
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
    pub kinds: BTreeMap<String, OperatorKindCost>,
    /// Network type by SOPRANO's rule.
    pub network_type: NetworkType,
    /// SOPRANO's characteristics, counted correctly.
    pub characteristics: GraphCharacteristics,
    /// SOPRANO's characteristics by its own rules, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub characteristics_by_rules: Option<GraphCharacteristics>,
    /// Assumptions of the analysis.
    pub notes: Vec<String>,
    /// Operators that run, in order, without those that only compute constants.
    pub operators: Vec<OperatorCost>,
}

/// Analyses a graph whose open dimensions are bound.
pub fn analyse_graph(
    model: &OnnxFile,
    bindings: &ShapeBindings,
    limits: &OnnxLimits,
) -> Result<GraphAnalysis, Error> {
    let graph = &model.graph;
    let mut notes = Vec::new();
    let inputs = bind_inputs(&graph.inputs, bindings, limits, &mut notes)?;
    let mut walk = graph_walk::GraphWalk::new(model, limits);
    let result = walk.walk_main(graph, inputs.clone())?;
    let mut weights = WeightTotals::default();
    let mut external_files = BTreeSet::new();
    let graphs = [graph].into_iter().chain(model.functions.iter().map(|function| &function.graph));
    for graph in graphs {
        crate::constants::for_each_constant(graph, &mut |tensor| {
            weights.add_elements(tensor.elements(), tensor.data_type, tensor.dims.len());
            external_files.extend(tensor.external.clone());
        });
        crate::constants::add_attribute_constants(graph, &mut weights);
    }
    weights.parameters = weights.parameters.saturating_add(walk.made.parameters);
    weights.bytes = weights.bytes.saturating_add(walk.made.bytes);
    let kinds = sum_by_kind(&result.operators);
    let mut characteristics = walk.counts;
    characteristics.total_parameters = weights.parameters;
    let by_rules = soprano::count_by_soprano_rules(graph);
    notes.extend(walk.notes);
    let value = |info: &ValueInfo| {
        ValueDescription::from_fact(&info.name, result.facts.get(&info.name).unwrap_or(&ValueFact::default()))
    };
    Ok(GraphAnalysis {
        schema: "metier.graph/1".to_string(),
        name: graph.name.clone(),
        producer: model.producer.clone(),
        opset: model.opset(),
        inputs: inputs.iter().map(|(name, fact)| ValueDescription::from_fact(name, fact)).collect(),
        outputs: graph.outputs.iter().map(value).collect(),
        operators_in_file: walk.seen,
        parameters: weights.parameters,
        weight_bytes: Bytes(weights.bytes),
        external_files,
        multiply_adds: kinds.values().fold(0, |sum, kind| sum.saturating_add(kind.multiply_adds)),
        operators_without_cost: result.operators.iter().filter(|cost| cost.multiply_adds.is_none()).count()
            as u64,
        peak_activation_bytes: result.peak.map(Bytes),
        kinds,
        network_type: soprano::network_type(graph),
        characteristics,
        characteristics_by_rules: (by_rules != characteristics).then_some(by_rules),
        notes,
        operators: result.operators,
    })
}

/// Totals by operator type.
pub(crate) fn sum_by_kind(operators: &[OperatorCost]) -> BTreeMap<String, OperatorKindCost> {
    let mut kinds: BTreeMap<String, OperatorKindCost> = BTreeMap::new();
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
pub(crate) fn infer_facts(
    model: &OnnxFile,
    bindings: &ShapeBindings,
    limits: &OnnxLimits,
) -> Result<BTreeMap<String, ValueFact>, Error> {
    let inputs = bind_inputs(&model.graph.inputs, bindings, limits, &mut Vec::new())?;
    Ok(graph_walk::GraphWalk::new(model, limits).walk_main(&model.graph, inputs)?.facts)
}

/// Binds the open dimensions of the inputs: to the user's sizes, else a first dimension to a batch
/// of one.
fn bind_inputs(
    inputs: &[ValueInfo],
    bindings: &ShapeBindings,
    limits: &OnnxLimits,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, ValueFact)>, Error> {
    for name in bindings.shapes.keys().chain(bindings.values.keys()) {
        if !inputs.iter().any(|input| input.name == *name) {
            let known: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
            let want = format!("one of the inputs {}", known.join(", "));
            return Err(Error::Shape { input: name.clone(), got: "given".to_string(), want });
        }
    }
    let named = || inputs.iter().flat_map(|input| input.shape.iter().flatten());
    let is_there =
        |name: &str| named().any(|dim| matches!(dim, TensorDimension::Named(known) if known == name));
    if let Some(name) = bindings.dims.keys().find(|name| !is_there(name)) {
        let known: BTreeSet<String> =
            named().filter(|dim| matches!(dim, TensorDimension::Named(_))).map(ToString::to_string).collect();
        let want = match known.is_empty() {
            true => "a shape: no dimension of its inputs has a name".to_string(),
            false => format!("one of {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return Err(Error::Dimension { name: name.clone(), want });
    }
    let sizes = bindings.resolve_dimensions(inputs);
    inputs
        .iter()
        .map(|input| Ok((input.name.clone(), bind_input(input, bindings, &sizes, limits, notes)?)))
        .collect()
}

fn bind_input(
    input: &ValueInfo,
    bindings: &ShapeBindings,
    named: &BTreeMap<String, u64>,
    limits: &OnnxLimits,
    notes: &mut Vec<String>,
) -> Result<ValueFact, Error> {
    let shape_text =
        |shape: &[TensorDimension]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    let shape = match (bindings.shapes.get(&input.name), &input.shape) {
        (Some(given), Some(shape)) => {
            let fits = given.len() == shape.len()
                && given
                    .iter()
                    .zip(shape)
                    .all(|(size, dim)| !matches!(dim, TensorDimension::Known(known) if known != size));
            if !fits {
                let got = given.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
                return Err(Error::Shape { input: input.name.clone(), got, want: shape_text(shape) });
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
                    TensorDimension::Known(size) => Some(*size),
                    TensorDimension::Named(name) if named.contains_key(name) => named.get(name).copied(),
                    _ if axis == 0 && shape.len() > 1 => {
                        notes.push(format!("input {:?}: a batch of 1 is assumed for {dim}", input.name));
                        Some(1)
                    }
                    _ => None,
                });
            }
            if sizes.contains(&None) {
                let shape = shape_text(shape);
                notes.push(format!(
                    "input {:?} is {shape}: without sizes for all of it costs are partial",
                    input.name
                ));
            }
            Some(sizes)
        }
    };
    let mut fact = ValueFact::new(input.data_type, shape);
    if let Some(values) = bindings.values.get(&input.name) {
        let count = fact.elements().unwrap_or(values.len() as u64);
        if count != values.len() as u64 {
            let got = format!("given {} values", values.len());
            return Err(Error::Shape { input: input.name.clone(), got, want: format!("{count} values") });
        }
        fact.small = Some(crate::graph::SmallElements::Integers(values.clone()));
    }
    if fact.dims().is_some() && fact.elements().is_none_or(|count| count > limits.elements) {
        let got = format!("{:?}", fact.dims().unwrap_or_default());
        let want = format!("at most {} elements", limits.elements);
        return Err(Error::Shape { input: input.name.clone(), got, want });
    }
    Ok(fact)
}
