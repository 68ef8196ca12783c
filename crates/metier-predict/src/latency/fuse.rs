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
    pub absorbed: Vec<usize>,
    pub family: Family,
    /// What came of it.
    pub kind: String,
    /// A number for the kind, so that a predictor can tell kinds of a family apart.
    pub code: f64,
    /// Whether it is the last to take what it takes most of, which a runtime may then overwrite or hand on.
    pub is_own: bool,
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
    plan.collect(runtime)
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
            "Mul" if runtime == "rten" && self.is_scale_behind(at) => {}
            "Mul" => self.mul(at),
            "Relu" | "Clip" | "LeakyRelu" | "HardSigmoid" if runtime == "onnxruntime" => {
                let conv = self.alone(at, 0).map(|one| self.host_of(one));
                if let Some(conv) = conv.filter(|one| self.is(*one, &["Conv"])) {
                    self.absorb(conv, at);
                }
            }
            "MatMul" => {
                self.scales(at, runtime);
                self.turns(at, 2);
            }
            "Div" if runtime == "rten" && self.is_scale_behind(at) => {}
            "Concat" | "Expand" | "Slice" | "Split" if runtime == "rten" => {
                let inputs = if self.is(at, &["Concat"]) { self.operators[at].inputs.len() } else { 1 };
                self.turns(at, inputs);
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

    /// Whether an operator multiplies or divides by one number that a runtime knows beforehand; gives the other input.
    fn scaled(&self, at: usize) -> Option<usize> {
        if !self.is(at, &["Mul", "Div"]) {
            return None;
        }
        let is_one = |input: usize| {
            let is_made = self.maker(at, input).is_some_and(|one| self.is(one, &["Sqrt", "Reciprocal"]));
            let is_single = count(&dims(self.operators[at].inputs.get(input))) == 1.0;
            is_single && (is_made || self.is_constant(at, input))
        };
        let others = if self.is(at, &["Div"]) { vec![1] } else { vec![0, 1] };
        others.into_iter().find(|other| is_one(*other)).map(|other| 1 - other)
    }

    /// Numbers that the sides of a product are scaled by go into the product.
    fn scales(&mut self, at: usize, runtime: &str) {
        for input in (0..2).filter(|_| runtime == "rten") {
            if let Some(scale) = self.alone(at, input).filter(|one| self.scaled(*one).is_some()) {
                self.absorb(at, scale);
            }
        }
    }

    /// A product that is scaled afterwards does so itself.
    fn is_scale_behind(&mut self, at: usize) -> bool {
        let product = self.scaled(at).and_then(|input| self.alone(at, input));
        let product = product.filter(|one| self.is(*one, &["MatMul"]));
        product.into_iter().for_each(|product| self.absorb(product, at));
        product.is_some()
    }

    /// Values that are turned around are read as they were.
    fn turns(&mut self, at: usize, inputs: usize) {
        for input in 0..inputs {
            if let Some(turn) = self.alone(at, input).filter(|one| self.is(*one, &["Transpose"])) {
                self.absorb(at, turn);
            }
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

    fn collect(&self, runtime: &str) -> Vec<Planned> {
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
            let is_nothing = matches!(one.kind.as_str(), "Identity" | "Dropout" | "Constant");
            if self.host[at].is_some() || is_nothing || (runtime == "rten" && is_same(one)) {
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
                is_own: false,
            });
        }
        let own = self.own(&planned);
        planned.iter_mut().zip(own).for_each(|(one, is_own)| one.is_own = is_own);
        planned
    }

    /// What a step takes, also in passing.
    fn taken<'b>(&'b self, step: &'b Planned) -> impl Iterator<Item = ((&'b str, &'b str), f64)> + 'b {
        let places = step.absorbed.iter().chain([&step.operator]);
        places.flat_map(|at| {
            let one = &self.operators[*at];
            let key = |name: &'b str| (one.inside.as_str(), name);
            one.inputs.iter().map(move |value| (key(&value.name), count(&dims(Some(value)))))
        })
    }

    /// Which steps are the last to take a value as large as what they make.
    fn own(&self, planned: &[Planned]) -> Vec<bool> {
        let mut last: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (at, step) in planned.iter().enumerate() {
            last.extend(self.taken(step).map(|(key, _)| (key, at)));
        }
        let is_own = |(at, step): (usize, &Planned)| {
            let made = count(&dims(self.operators[step.operator].outputs.first()));
            self.taken(step).any(|(key, size)| {
                let is_made = self.makers.contains_key(&key) && !self.kept.contains(key.1);
                is_made && last.get(&key) == Some(&at) && size >= made
            })
        };
        planned.iter().enumerate().map(is_own).collect()
    }
}

/// Whether a cast changes nothing in a runtime that keeps whole numbers and truth values in 32 bits alike.
fn is_same(one: &OperatorCost) -> bool {
    let is_whole = |value: Option<&metier_onnx::analysis::Value>| {
        let kind = value.and_then(|value| value.data_type);
        kind.is_some_and(|kind| matches!(kind, DataType::Int64 | DataType::Int32 | DataType::Bool))
    };
    one.kind == "Cast" && is_whole(one.inputs.first()) && is_whole(one.outputs.first())
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
