//! Which operators a runtime really runs: some it leaves out, some it does in passing of another.
//!
//! The rules are those of the runtimes themselves, read from their sources and checked against what they say of a run.

use std::collections::{BTreeMap, BTreeSet};

use metier_onnx::{Analysis, DataType, OperatorCost};

use super::family::Family;
use super::step::{count, dims};

/// An operator that is run, with those that it does in passing.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Its place among the graph's operators.
    pub operator: usize,
    /// Their places.
    pub absorbed: Vec<usize>,
    /// Its family.
    pub family: Family,
    /// What came of it.
    pub kind: String,
    /// A number for the kind, so that a predictor can tell kinds of a family apart.
    pub code: f64,
}

/// Elements up to which arithmetic on whole numbers is about shapes and indices.
const FEW: u64 = 256;

struct Plan<'a> {
    operators: &'a [OperatorCost],
    /// Who makes a value.
    makers: BTreeMap<(&'a str, &'a str), usize>,
    /// How often a value is taken.
    taken: BTreeMap<(&'a str, &'a str), u32>,
    kept: BTreeSet<&'a str>,
    /// Who does an operator in passing.
    host: Vec<Option<usize>>,
    kind: Vec<Option<&'static str>>,
}

/// The operators that are run, in their order.
pub fn plan(graph: &Analysis, runtime: &str) -> Vec<Planned> {
    let operators = &graph.operators;
    let mut plan = Plan {
        operators,
        makers: BTreeMap::new(),
        taken: BTreeMap::new(),
        kept: graph.outputs.iter().map(|value| value.name.as_str()).collect(),
        host: vec![None; operators.len()],
        kind: vec![None; operators.len()],
    };
    for (at, one) in operators.iter().enumerate() {
        for value in one.outputs.iter().filter(|value| !value.name.is_empty()) {
            plan.makers.insert((one.inside.as_str(), value.name.as_str()), at);
        }
        for value in one.inputs.iter().filter(|value| !value.name.is_empty()) {
            *plan.taken.entry((one.inside.as_str(), value.name.as_str())).or_default() += 1;
        }
    }
    for at in 0..operators.len() {
        plan.fuse(at, runtime);
    }
    plan.collect()
}

impl Plan<'_> {
    /// The operator that makes an input, where nobody else takes it.
    fn alone(&self, at: usize, input: usize) -> Option<usize> {
        let one = &self.operators[at];
        let value = one.inputs.get(input)?;
        let key = (one.inside.as_str(), value.name.as_str());
        if self.taken.get(&key) != Some(&1) || self.kept.contains(value.name.as_str()) {
            return None;
        }
        self.makers.get(&key).copied().filter(|maker| self.host[*maker].is_none())
    }

    fn maker(&self, at: usize, input: usize) -> Option<usize> {
        let one = &self.operators[at];
        let value = one.inputs.get(input)?;
        self.makers.get(&(one.inside.as_str(), value.name.as_str())).copied()
    }

    fn is(&self, at: usize, kinds: &[&str]) -> bool {
        kinds.contains(&self.operators[at].kind.as_str())
    }

    fn is_constant(&self, at: usize, input: usize) -> bool {
        self.operators[at].inputs.get(input).is_some_and(|value| value.is_constant)
    }

    /// The inputs of an operator of two: the one that is made, then the constant.
    fn with_constant(&self, at: usize) -> Option<(usize, usize)> {
        (0..2).find(|other| self.is_constant(at, *other)).map(|other| (1 - other, other))
    }

    /// Lets `at` be done in passing of `host`.
    fn absorb(&mut self, host: usize, at: usize) {
        self.host[at] = Some(host);
    }

    fn fuse(&mut self, at: usize, runtime: &str) {
        match self.operators[at].kind.as_str() {
            "BatchNormalization" => {
                if let Some(conv) = self.alone(at, 0).filter(|one| self.is(*one, &["Conv"])) {
                    self.absorb(conv, at);
                }
            }
            "Add" => self.add(at),
            "Mul" => self.mul(at),
            "Relu" | "Clip" | "LeakyRelu" | "HardSigmoid" if runtime == "onnxruntime" => {
                let conv = self.alone(at, 0).map(|one| self.host_of(one));
                if let Some(conv) = conv.filter(|one| self.is(*one, &["Conv"])) {
                    self.absorb(conv, at);
                }
            }
            "MatMul" => {
                for input in 0..2 {
                    if let Some(turn) = self.alone(at, input).filter(|one| self.is(*one, &["Transpose"])) {
                        self.absorb(at, turn);
                    }
                }
            }
            "Softmax" => {
                if let Some(add) = self.alone(at, 0).filter(|one| self.is(*one, &["Add"])) {
                    self.absorb(at, add);
                }
            }
            "Div" => self.center(at),
            _ => {}
        }
    }

    fn host_of(&self, at: usize) -> usize {
        self.host[at].unwrap_or(at)
    }

    /// A bias behind a product or a convolution.
    fn add(&mut self, at: usize) {
        let Some((made, constant)) = self.with_constant(at) else { return };
        let size = count(&dims(self.operators[at].inputs.get(constant)));
        let out = dims(self.operators[at].outputs.first());
        let Some(before) = self.alone(at, made) else {
            return;
        };
        let width = |axis: usize| out.get(axis).copied().unwrap_or(0.0);
        let is_bias = (self.is(before, &["MatMul"]) && out.last() == Some(&size))
            || (self.is(before, &["Conv"]) && size == width(1) && out.len() > 2);
        let is_shift = self.is(before, &["Mul"]) && self.kind[before] == Some("LayerNormalization");
        if is_bias || is_shift {
            self.absorb(before, at);
        }
    }

    /// `x · sigmoid(x)`, a Gelu, the scale of a normalisation, the scale of a product.
    fn mul(&mut self, at: usize) {
        for side in 0..2 {
            let other = self.operators[at].inputs.get(1 - side).map(|value| value.name.clone());
            let Some(before) = self.alone(at, side) else { continue };
            let source = self.operators[before].inputs.first().map(|value| value.name.clone());
            if self.is(before, &["Sigmoid"]) {
                // The argument may be scaled by a constant first.
                let scale = self.alone(before, 0).filter(|one| self.is(*one, &["Mul"]));
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
            if self.is(before, &["Div"])
                && self.kind[before] == Some("Normalised")
                && self.is_constant(at, 1 - side)
            {
                let inner: Vec<usize> =
                    (0..self.host.len()).filter(|one| self.host[*one] == Some(before)).collect();
                inner.into_iter().for_each(|one| self.absorb(at, one));
                self.absorb(at, before);
                self.kind[at] = Some("LayerNormalization");
                return;
            }
        }
        self.gelu(at);
    }

    /// `x · (1 + erf(x / √2)) · ½`, in either order of the last two.
    fn gelu(&mut self, at: usize) {
        let Some((made, _)) = self.with_constant(at) else { return };
        let Some(inner) = self.alone(at, made).filter(|one| self.is(*one, &["Mul"])) else { return };
        for side in 0..2 {
            let Some(sum) = self.alone(inner, side).filter(|one| self.is(*one, &["Add"])) else { continue };
            let Some((arm, _)) = self.with_constant(sum) else { continue };
            let Some(erf) = self.alone(sum, arm).filter(|one| self.is(*one, &["Erf"])) else { continue };
            let Some(scale) = self.alone(erf, 0).filter(|one| self.is(*one, &["Div", "Mul"])) else {
                continue;
            };
            [inner, sum, erf, scale].into_iter().for_each(|one| self.absorb(at, one));
            self.kind[at] = Some("Gelu");
            return;
        }
    }

    /// `(x − mean) / √(variance + ε)`: the middle of a normalisation that was written out.
    fn center(&mut self, at: usize) {
        let Some(root) = self.alone(at, 1).filter(|one| self.is(*one, &["Sqrt"])) else { return };
        let Some(sum) = self.alone(root, 0).filter(|one| self.is(*one, &["Add"])) else { return };
        let Some((arm, _)) = self.with_constant(sum) else { return };
        let Some(mean) = self.alone(sum, arm).filter(|one| self.is(*one, &["ReduceMean"])) else { return };
        let Some(square) = self.alone(mean, 0).filter(|one| self.is(*one, &["Pow"])) else { return };
        let Some(center) = self.maker(at, 0).filter(|one| self.is(*one, &["Sub"])) else { return };
        if self.maker(square, 0) != Some(center) {
            return;
        }
        let Some(first) = self.alone(center, 1).filter(|one| self.is(*one, &["ReduceMean"])) else { return };
        [root, sum, mean, square, center, first].into_iter().for_each(|one| self.absorb(at, one));
        self.kind[at] = Some("Normalised");
    }

    fn collect(self) -> Vec<Planned> {
        let mut absorbed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, host) in self.host.iter().enumerate() {
            if let Some(mut host) = *host {
                // A host may itself be done in passing; no way is longer than the graph.
                for _ in 0..self.host.len() {
                    let Some(next) = self.host[host] else { break };
                    host = next;
                }
                absorbed.entry(host).or_default().push(at);
            }
        }
        let mut planned = Vec::new();
        for (at, one) in self.operators.iter().enumerate() {
            if self.host[at].is_some() || matches!(one.kind.as_str(), "Identity" | "Dropout" | "Constant") {
                continue;
            }
            let kind = match self.kind[at] {
                Some("Normalised") | None => one.kind.as_str(),
                Some(kind) => kind,
            };
            let is_whole = one
                .outputs
                .first()
                .and_then(|value| value.data_type)
                .is_some_and(|kind| matches!(kind, DataType::Int64 | DataType::Int32 | DataType::Bool));
            let mut family = Family::of_kind(kind);
            if self.kind[at] == Some("Normalised") {
                family = Family::Norm;
            }
            if is_whole
                && one.elements.is_some_and(|elements| elements <= FEW)
                && one.multiply_adds.unwrap_or(0) == 0
            {
                let taken: f64 = one.inputs.iter().map(|value| count(&dims(Some(value)))).sum();
                if taken <= FEW as f64 || matches!(kind, "Shape" | "Size") {
                    family = Family::Scalar;
                }
            }
            planned.push(Planned {
                operator: at,
                absorbed: absorbed.remove(&at).unwrap_or_default(),
                family,
                kind: kind.to_string(),
                code: code(kind),
            });
        }
        planned
    }
}

/// A number for a kind: kinds of like cost next to each other where it is known, else by name.
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
        None => 100.0 + (metier_learn::validate::group_of(kind) % 900) as f64,
    }
}
