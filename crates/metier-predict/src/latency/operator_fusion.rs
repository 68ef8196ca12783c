//! Determines the operators that a runtime executes: it removes some and fuses others.
//!
//! The rules follow the runtimes' source code and were checked against their profiles.

use std::collections::{BTreeMap, BTreeSet};

use metier_onnx::{DataType, GraphAnalysis, OperatorCost};

use super::family::OperatorFamily;
use super::operator_features::{count, dims};

/// An executed operator with the operators fused into it.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedOperator {
    /// Index of the operator in the graph.
    pub operator: usize,
    pub absorbed: Vec<usize>,
    pub family: OperatorFamily,
    /// Kind of the result.
    pub kind: String,
    /// Numeric code of the kind, by which a predictor distinguishes kinds of a family.
    pub code: f64,
    /// Whether it is the last consumer of its largest input, which a runtime may then overwrite or
    /// pass on.
    pub is_own: bool,
}

/// Integer arithmetic up to this many elements is assumed to be about shapes and indices.
const MAX_SHAPE_ELEMENTS: u64 = 256;

struct FusionPlan<'a> {
    operators: &'a [OperatorCost],
    /// Producer of each value.
    makers: BTreeMap<(&'a str, &'a str), usize>,
    /// Number of consumers of each value.
    taken: BTreeMap<(&'a str, &'a str), u32>,
    texts: BTreeSet<&'a str>,
    /// Operator into which each operator is fused.
    host: Vec<Option<usize>>,
    kind: Vec<Option<&'static str>>,
}

/// The executed operators in order.
pub fn plan(graph: &GraphAnalysis, runtime: &str) -> Vec<FusedOperator> {
    let operators = &graph.operators;
    let mut plan = FusionPlan {
        operators,
        makers: BTreeMap::new(),
        taken: BTreeMap::new(),
        texts: graph.outputs.iter().map(|value| value.name.as_str()).collect(),
        host: vec![None; operators.len()],
        kind: vec![None; operators.len()],
    };
    for (at, cost) in operators.iter().enumerate() {
        for value in cost.outputs.iter().filter(|value| !value.name.is_empty()) {
            plan.makers.insert((cost.inside.as_str(), value.name.as_str()), at);
        }
        for value in cost.inputs.iter().filter(|value| !value.name.is_empty()) {
            *plan.taken.entry((cost.inside.as_str(), value.name.as_str())).or_default() += 1;
        }
    }
    for at in 0..operators.len() {
        plan.fuse(at, runtime);
    }
    plan.collect(runtime)
}

impl FusionPlan<'_> {
    /// The producer of an input that has no other consumer.
    fn sole_producer(&self, at: usize, input: usize) -> Option<usize> {
        let cost = &self.operators[at];
        let value = cost.inputs.get(input)?;
        let key = (cost.inside.as_str(), value.name.as_str());
        if self.taken.get(&key) != Some(&1) || self.texts.contains(value.name.as_str()) {
            return None;
        }
        self.makers.get(&key).copied().filter(|maker| self.host[*maker].is_none())
    }

    fn maker(&self, at: usize, input: usize) -> Option<usize> {
        let cost = &self.operators[at];
        let value = cost.inputs.get(input)?;
        self.makers.get(&(cost.inside.as_str(), value.name.as_str())).copied()
    }

    fn is_kind(&self, at: usize, kinds: &[&str]) -> bool {
        kinds.contains(&self.operators[at].kind.as_str())
    }

    fn is_constant(&self, at: usize, input: usize) -> bool {
        self.operators[at].inputs.get(input).is_some_and(|value| value.is_constant)
    }

    /// The inputs of a binary operator: the computed one, then the constant.
    fn with_constant(&self, at: usize) -> Option<(usize, usize)> {
        (0..2).find(|other| self.is_constant(at, *other)).map(|other| (1 - other, other))
    }

    /// Fuses `at` into `host`.
    fn absorb(&mut self, host: usize, at: usize) {
        self.host[at] = Some(host);
    }

    fn fuse(&mut self, at: usize, runtime: &str) {
        match self.operators[at].kind.as_str() {
            "BatchNormalization" => {
                if let Some(conv) =
                    self.sole_producer(at, 0).filter(|number| self.is_kind(*number, &["Conv"]))
                {
                    self.absorb(conv, at);
                }
            }
            "Add" => self.add(at),
            "Mul" if runtime == "rten" && self.is_scale_behind(at) => {}
            "Mul" => self.mul(at),
            "Relu" | "Clip" | "LeakyRelu" | "HardSigmoid" if runtime == "onnxruntime" => {
                let conv = self.sole_producer(at, 0).map(|number| self.host_of(number));
                if let Some(conv) = conv.filter(|number| self.is_kind(*number, &["Conv"])) {
                    self.absorb(conv, at);
                }
            }
            "MatMul" => {
                self.absorb_scales(at, runtime);
                self.absorb_transposes(at, 2);
            }
            "Div" if runtime == "rten" && self.is_scale_behind(at) => {}
            "Concat" | "Expand" | "Slice" | "Split" if runtime == "rten" => {
                let inputs = if self.is_kind(at, &["Concat"]) { self.operators[at].inputs.len() } else { 1 };
                self.absorb_transposes(at, inputs);
            }
            "Softmax" => {
                if let Some(add) = self.sole_producer(at, 0).filter(|number| self.is_kind(*number, &["Add"]))
                {
                    self.absorb(at, add);
                }
            }
            "Div" => self.center(at),
            _ => {}
        }
    }

    /// The other input, if an operator multiplies or divides by a constant scalar.
    fn scaled_input(&self, at: usize) -> Option<usize> {
        if !self.is_kind(at, &["Mul", "Div"]) {
            return None;
        }
        let is_one = |input: usize| {
            let is_made =
                self.maker(at, input).is_some_and(|number| self.is_kind(number, &["Sqrt", "Reciprocal"]));
            let is_single = count(&dims(self.operators[at].inputs.get(input))) == 1.0;
            is_single && (is_made || self.is_constant(at, input))
        };
        let others = if self.is_kind(at, &["Div"]) { vec![1] } else { vec![0, 1] };
        others.into_iter().find(|other| is_one(*other)).map(|other| 1 - other)
    }

    /// Fuses constant scales of a product's inputs into the product.
    fn absorb_scales(&mut self, at: usize, runtime: &str) {
        for input in (0..2).filter(|_| runtime == "rten") {
            if let Some(scale) =
                self.sole_producer(at, input).filter(|number| self.scaled_input(*number).is_some())
            {
                self.absorb(at, scale);
            }
        }
    }

    /// Fuses a scale after a product into the product.
    fn is_scale_behind(&mut self, at: usize) -> bool {
        let product = self.scaled_input(at).and_then(|input| self.sole_producer(at, input));
        let product = product.filter(|number| self.is_kind(*number, &["MatMul"]));
        product.into_iter().for_each(|product| self.absorb(product, at));
        product.is_some()
    }

    /// Fuses transposes of inputs: the values are read in their original layout.
    fn absorb_transposes(&mut self, at: usize, inputs: usize) {
        for input in 0..inputs {
            if let Some(turn) =
                self.sole_producer(at, input).filter(|number| self.is_kind(*number, &["Transpose"]))
            {
                self.absorb(at, turn);
            }
        }
    }

    fn host_of(&self, at: usize) -> usize {
        self.host[at].unwrap_or(at)
    }

    /// Fuses a bias after a product or a convolution.
    fn add(&mut self, at: usize) {
        let Some((made, constant)) = self.with_constant(at) else { return };
        let size = count(&dims(self.operators[at].inputs.get(constant)));
        let out = dims(self.operators[at].outputs.first());
        let Some(before) = self.sole_producer(at, made) else {
            return;
        };
        let width = |axis: usize| out.get(axis).copied().unwrap_or(0.0);
        let is_bias = (self.is_kind(before, &["MatMul"]) && out.last() == Some(&size))
            || (self.is_kind(before, &["Conv"]) && size == width(1) && out.len() > 2);
        let is_shift = self.is_kind(before, &["Mul"]) && self.kind[before] == Some("LayerNormalization");
        if is_bias || is_shift {
            self.absorb(before, at);
        }
    }

    /// Fuses `x · sigmoid(x)`, a Gelu, the scale of a normalisation, or the scale of a product.
    fn mul(&mut self, at: usize) {
        for side in 0..2 {
            let other = self.operators[at].inputs.get(1 - side).map(|value| value.name.clone());
            let Some(before) = self.sole_producer(at, side) else { continue };
            let source = self.operators[before].inputs.first().map(|value| value.name.clone());
            if self.is_kind(before, &["Sigmoid"]) {
                // The argument may be scaled by a constant first.
                let scale = self.sole_producer(before, 0).filter(|number| self.is_kind(*number, &["Mul"]));
                let scaled = scale.and_then(|scale| {
                    let (made, _) = self.with_constant(scale)?;
                    Some(self.operators[scale].inputs.get(made)?.name.clone())
                });
                if source == other || (scaled.is_some() && scaled == other) {
                    if source != other {
                        scale.into_iter().for_each(|scale| self.absorb(at, scale));
                    }
                    self.absorb(at, before);
                    self.kind[at] = Some("Silu");
                    return;
                }
            }
            if self.is_kind(before, &["Div"])
                && self.kind[before] == Some("Normalised")
                && self.is_constant(at, 1 - side)
            {
                let inner: Vec<usize> =
                    (0..self.host.len()).filter(|number| self.host[*number] == Some(before)).collect();
                inner.into_iter().for_each(|number| self.absorb(at, number));
                self.absorb(at, before);
                self.kind[at] = Some("LayerNormalization");
                return;
            }
        }
        self.gelu(at);
    }

    /// Fuses `x · (1 + erf(x
    /// √2)) · ½`, with the last two factors in either order.
    fn gelu(&mut self, at: usize) {
        let Some((made, _)) = self.with_constant(at) else { return };
        let Some(inner) = self.sole_producer(at, made).filter(|number| self.is_kind(*number, &["Mul"]))
        else {
            return;
        };
        for side in 0..2 {
            let Some(sum) = self.sole_producer(inner, side).filter(|number| self.is_kind(*number, &["Add"]))
            else {
                continue;
            };
            let Some((arm, _)) = self.with_constant(sum) else { continue };
            let Some(erf) = self.sole_producer(sum, arm).filter(|number| self.is_kind(*number, &["Erf"]))
            else {
                continue;
            };
            let Some(scale) =
                self.sole_producer(erf, 0).filter(|number| self.is_kind(*number, &["Div", "Mul"]))
            else {
                continue;
            };
            [inner, sum, erf, scale].into_iter().for_each(|number| self.absorb(at, number));
            self.kind[at] = Some("Gelu");
            return;
        }
    }

    /// Fuses `(x − mean)
    /// √(variance + ε)`, the centre of a decomposed normalisation.
    fn center(&mut self, at: usize) {
        let Some(root) = self.sole_producer(at, 1).filter(|number| self.is_kind(*number, &["Sqrt"])) else {
            return;
        };
        let Some(sum) = self.sole_producer(root, 0).filter(|number| self.is_kind(*number, &["Add"])) else {
            return;
        };
        let Some((arm, _)) = self.with_constant(sum) else { return };
        let Some(mean) = self.sole_producer(sum, arm).filter(|number| self.is_kind(*number, &["ReduceMean"]))
        else {
            return;
        };
        let Some(square) = self.sole_producer(mean, 0).filter(|number| self.is_kind(*number, &["Pow"]))
        else {
            return;
        };
        let Some(center) = self.maker(at, 0).filter(|number| self.is_kind(*number, &["Sub"])) else { return };
        if self.maker(square, 0) != Some(center) {
            return;
        }
        let Some(first) =
            self.sole_producer(center, 1).filter(|number| self.is_kind(*number, &["ReduceMean"]))
        else {
            return;
        };
        [root, sum, mean, square, center, first].into_iter().for_each(|number| self.absorb(at, number));
        self.kind[at] = Some("Normalised");
    }

    fn collect(&self, runtime: &str) -> Vec<FusedOperator> {
        let mut absorbed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, host) in self.host.iter().enumerate() {
            if let Some(mut host) = *host {
                // A host may itself be fused; no chain is longer than the graph.
                for _ in 0..self.host.len() {
                    let Some(next) = self.host[host] else { break };
                    host = next;
                }
                absorbed.entry(host).or_default().push(at);
            }
        }
        let mut planned = Vec::new();
        for (at, cost) in self.operators.iter().enumerate() {
            let is_nothing = matches!(cost.kind.as_str(), "Identity" | "Dropout" | "Constant");
            if self.host[at].is_some() || is_nothing || (runtime == "rten" && is_cast_without_effect(cost)) {
                continue;
            }
            let kind = match self.kind[at] {
                Some("Normalised") | None => cost.kind.as_str(),
                Some(kind) => kind,
            };
            let is_whole = cost
                .outputs
                .first()
                .and_then(|value| value.data_type)
                .is_some_and(|kind| matches!(kind, DataType::Int64 | DataType::Int32 | DataType::Bool));
            let mut family = OperatorFamily::of_kind(kind);
            if self.kind[at] == Some("Normalised") {
                family = OperatorFamily::Norm;
            }
            if is_whole
                && cost.elements.is_some_and(|elements| elements <= MAX_SHAPE_ELEMENTS)
                && cost.multiply_adds.unwrap_or(0) == 0
            {
                let taken: f64 = cost.inputs.iter().map(|value| count(&dims(Some(value)))).sum();
                if taken <= MAX_SHAPE_ELEMENTS as f64 || matches!(kind, "Shape" | "Size") {
                    family = OperatorFamily::Scalar;
                }
            }
            planned.push(FusedOperator {
                operator: at,
                absorbed: absorbed.remove(&at).unwrap_or_default(),
                family,
                kind: kind.to_string(),
                code: code(kind),
                is_own: false,
            });
        }
        let own = self.owned_inputs(&planned);
        planned.iter_mut().zip(own).for_each(|(operator, is_own)| operator.is_own = is_own);
        planned
    }

    /// Inputs of a step, including those of fused operators.
    fn taken<'b>(&'b self, step: &'b FusedOperator) -> impl Iterator<Item = ((&'b str, &'b str), f64)> + 'b {
        let places = step.absorbed.iter().chain([&step.operator]);
        places.flat_map(|at| {
            let cost = &self.operators[*at];
            let key = |name: &'b str| (cost.inside.as_str(), name);
            cost.inputs.iter().map(move |value| (key(&value.name), count(&dims(Some(value)))))
        })
    }

    /// Steps that are the last consumer of an input as large as their output.
    fn owned_inputs(&self, planned: &[FusedOperator]) -> Vec<bool> {
        let mut last: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (at, step) in planned.iter().enumerate() {
            last.extend(self.taken(step).map(|(key, _)| (key, at)));
        }
        let is_own = |(at, step): (usize, &FusedOperator)| {
            let made = count(&dims(self.operators[step.operator].outputs.first()));
            self.taken(step).any(|(key, size)| {
                let is_made = self.makers.contains_key(&key) && !self.texts.contains(key.1);
                is_made && last.get(&key) == Some(&at) && size >= made
            })
        };
        planned.iter().enumerate().map(is_own).collect()
    }
}

/// Whether a cast has no effect in a runtime that stores integers and booleans in 32 bits alike.
fn is_cast_without_effect(cost: &OperatorCost) -> bool {
    let is_whole = |value: Option<&metier_onnx::analysis::ValueDescription>| {
        let kind = value.and_then(|value| value.data_type);
        kind.is_some_and(|kind| matches!(kind, DataType::Int64 | DataType::Int32 | DataType::Bool))
    };
    cost.kind == "Cast" && is_whole(cost.inputs.first()) && is_whole(cost.outputs.first())
}

/// Numeric code of a kind: kinds with similar cost get adjacent codes if known, others a code by
/// name.
fn code(kind: &str) -> f64 {
    const KNOWN: [&str; 64] = [
        "Relu",
        "Clip",
        "LeakyRelu",
        "Neg",
        "Abs",
        "Not",
        "Cast",
        "HardSigmoid",
        "HardSwish",
        "Reciprocal",
        "Sqrt",
        "Sigmoid",
        "Silu",
        "Tanh",
        "Exp",
        "Log",
        "Erf",
        "Gelu",
        "Softplus",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "Pow",
        "Where",
        "Equal",
        "Less",
        "Greater",
        "And",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Shape",
        "Concat",
        "Split",
        "Slice",
        "Transpose",
        "Gather",
        "Pad",
        "Expand",
        "Tile",
        "ConstantOfShape",
        "Range",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "LRN",
        "BatchNormalization",
        "LayerNormalization",
        "InstanceNormalization",
        "Conv",
        "Gemm",
        "MatMul",
        "LSTM",
        "GRU",
        "Resize",
        "Upsample",
    ];
    match KNOWN.iter().position(|known| *known == kind) {
        Some(at) => at as f64,
        None => 100.0 + (metier_learn::cross_validation::hash_group(kind) % 900) as f64,
    }
}
