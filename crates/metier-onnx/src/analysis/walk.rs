//! Goes through the operators of a graph in their order, and into its sub-graphs.

use std::collections::BTreeMap;

use super::{OperatorCost, Value, memory};
use crate::constants::Weights;
use crate::cost::{self, multiply_adds};
use crate::graph::{Attribute, Graph, Model, Node};
use crate::shape::{Fact, Given, infer};
use crate::soprano::{self, Characteristics};
use crate::{Error, Limits};
use metier_types::Bytes;

/// Attributes that bear on the speed of an operator.
const KEPT: [&str; 12] = [
    "group",
    "kernel_shape",
    "strides",
    "pads",
    "dilations",
    "axis",
    "axes",
    "perm",
    "transA",
    "transB",
    "hidden_size",
    "keepdims",
];
/// How many assumptions are told.
const NOTES: usize = 20;

/// What was found of one graph.
#[derive(Debug, Clone, Default)]
pub struct Told {
    pub facts: BTreeMap<String, Fact>,
    pub operators: Vec<OperatorCost>,
    pub peak: Option<u64>,
    /// Facts of the outputs, in their order.
    pub outputs: Vec<Fact>,
    /// The first thing that did not fit, in a branch that a run may never take.
    pub misfit: Option<Error>,
}

impl Told {
    fn multiply_adds(&self) -> u64 {
        self.operators
            .iter()
            .fold(0, |sum, one| sum.saturating_add(one.multiply_adds.unwrap_or(0).saturating_mul(one.turns)))
    }
}

/// Values of the graphs around the present one, innermost last.
type Around<'a> = Vec<&'a BTreeMap<String, Fact>>;

pub struct Walk<'a> {
    opset: i64,
    limits: &'a Limits,
    functions: &'a [String],
    /// Operators seen, sub-graphs included.
    pub seen: u64,
    /// Weights that operators make out of nothing.
    pub made: Weights,
    pub counts: Characteristics,
    pub notes: Vec<String>,
    /// Branches around the present operator that a run may never take.
    open_branches: u32,
}

impl<'a> Walk<'a> {
    pub fn new(model: &'a Model, limits: &'a Limits) -> Self {
        Self {
            opset: model.opset(),
            limits,
            functions: &model.functions,
            seen: 0,
            made: Weights::default(),
            counts: Characteristics::default(),
            notes: Vec::new(),
            open_branches: 0,
        }
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < NOTES && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// The main graph, given its inputs.
    pub fn main(&mut self, graph: &Graph, inputs: Vec<(String, Fact)>) -> Result<Told, Error> {
        self.graph(graph, inputs, &Vec::new(), "")
    }

    fn graph(
        &mut self,
        graph: &Graph,
        inputs: Vec<(String, Fact)>,
        around: &Around,
        inside: &str,
    ) -> Result<Told, Error> {
        let mut told = Told { facts: inputs.into_iter().collect(), ..Told::default() };
        for tensor in &graph.initializers {
            told.facts.insert(tensor.name.clone(), Fact::of_tensor(tensor));
        }
        let mut nested = Vec::with_capacity(graph.nodes.len());
        for (index, node) in graph.nodes.iter().enumerate() {
            self.seen += 1;
            nested.push(self.node(node, index, &mut told, around, inside)?);
        }
        told.outputs = graph
            .outputs
            .iter()
            .map(|output| find(&output.name, &told.facts, around).cloned().unwrap_or_default())
            .collect();
        told.peak = memory::peak(graph, &told.facts, &nested);
        Ok(told)
    }

    /// One operator; gives what its sub-graphs need of memory.
    fn node(
        &mut self,
        node: &Node,
        index: usize,
        told: &mut Told,
        around: &Around,
        inside: &str,
    ) -> Result<Option<u64>, Error> {
        let called = node.called(index);
        let named = |error| match error {
            Error::Misfit { why, .. } => Error::Misfit { node: called.clone(), why },
            other => other,
        };
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            inputs.push(if name.is_empty() {
                None
            } else {
                let fact = find(name, &told.facts, around).cloned();
                Some(fact.ok_or_else(|| Error::Order { node: called.clone(), value: name.clone() })?)
            });
        }
        let scope: Around = around.iter().copied().chain([&told.facts]).collect();
        let place = if inside.is_empty() { called.clone() } else { format!("{inside} / {called}") };
        let mut nested = Some(0);
        let mut below = Vec::new();
        let mut misfit = None;
        let made = match node.kind.as_str() {
            "If" => {
                let (facts, branch) = self.branch(node, &inputs, &scope, &place)?;
                nested = branch.peak;
                misfit = branch.misfit;
                below = branch.operators;
                facts
            }
            "Loop" | "Scan" => {
                let (facts, body) = self.turns(node, &inputs, &scope, &place)?;
                nested = body.peak;
                misfit = body.misfit;
                below = body.operators;
                facts
            }
            _ => {
                let given = self.given(node, &inputs);
                let done = infer(&given).and_then(|made| Ok((multiply_adds(&given, &made)?, made)));
                let (adds, made) = match done.map_err(named) {
                    Ok(done) => done,
                    Err(error) if self.open_branches > 0 => {
                        told.misfit.get_or_insert(error);
                        (None, vec![Fact::default(); node.outputs.len()])
                    }
                    Err(error) => return Err(error),
                };
                self.account(node, &inputs, &made);
                if !made.iter().all(|fact| fact.is_constant) {
                    told.operators.push(operator(node, &inputs, &made, adds, inside));
                }
                made
            }
        };
        told.operators.extend(below);
        told.misfit = told.misfit.take().or(misfit);
        for (name, fact) in node.outputs.iter().zip(made) {
            if !name.is_empty() && told.facts.insert(name.clone(), fact).is_some() {
                return Err(Error::Twice { node: called, value: name.clone() });
            }
        }
        Ok(nested)
    }

    fn given<'b>(&self, node: &'b Node, inputs: &'b [Option<Fact>]) -> Given<'b>
    where
        'a: 'b,
    {
        Given {
            node,
            inputs: inputs.iter().map(Option::as_ref).collect(),
            opset: self.opset,
            limits: self.limits,
        }
    }

    /// Counts what the operator means for the whole graph.
    fn account(&mut self, node: &Node, inputs: &[Option<Fact>], made: &[Fact]) {
        if node.kind == "ConstantOfShape"
            && let Some(fact) = made.first().filter(|fact| fact.is_constant)
            && let (Some(elements), Some(data_type)) = (fact.elements(), fact.data_type)
        {
            self.made.add(elements, data_type);
        }
        let weights = inputs.get(if node.kind.starts_with("QLinear") { 3 } else { 1 });
        let weights = weights.and_then(Option::as_ref).filter(|fact| fact.is_constant);
        let side = usize::from(node.kind == "ConvTranspose");
        let channels = weights.and_then(Fact::dims).and_then(|dims| dims.get(side).copied()).unwrap_or(0);
        soprano::count(&mut self.counts, node, weights.is_some(), channels);
        if crate::shape::rule(&node.kind).is_none() {
            let whose = if node.domain.is_empty() { String::new() } else { format!(" of {}", node.domain) };
            let is_own = self.functions.iter().any(|name| *name == format!("{}.{}", node.domain, node.kind));
            let why = if is_own { "the file defines it itself" } else { "it is not known here" };
            self.note(format!("operator {}{whose}: {why}, so its sizes and cost are open", node.kind));
        }
    }

    /// An `If`: the branch that the condition chooses, or the heavier one.
    fn branch(
        &mut self,
        node: &Node,
        inputs: &[Option<Fact>],
        scope: &Around,
        place: &str,
    ) -> Result<(Vec<Fact>, Told), Error> {
        let condition =
            inputs.first().and_then(Option::as_ref).and_then(Fact::whole).and_then(|one| one.first());
        if let Some(value) = condition {
            // What does not fit in the other branch is of no importance: it does not run.
            let name = if *value != 0 { "then_branch" } else { "else_branch" };
            let Some(graph) = node.graph(name) else {
                return Err(Error::Misfit { node: place.to_string(), why: format!("no {name}") });
            };
            let taken = self.graph(graph, Vec::new(), scope, place)?;
            return Ok((taken.outputs.clone(), taken));
        }
        let mut sides = Vec::new();
        for name in ["then_branch", "else_branch"] {
            let Some(graph) = node.graph(name) else {
                return Err(Error::Misfit { node: place.to_string(), why: format!("no {name}") });
            };
            self.open_branches += 1;
            let side = self.graph(graph, Vec::new(), scope, place);
            self.open_branches -= 1;
            sides.push(side?);
        }
        let (Some(no), Some(yes)) = (sides.pop(), sides.pop()) else {
            return Ok((Vec::new(), Told::default()));
        };
        // What does not fit inside a branch is no fault of the graph where the other one fits.
        let (yes, no) = match (&yes.misfit, &no.misfit) {
            (None, None) => (yes, no),
            (None, Some(error)) | (Some(error), None) => {
                self.note(format!(
                    "{place}: the branch that fits these sizes is counted (the other: {error})"
                ));
                let taken = if yes.misfit.is_none() { yes } else { no };
                return Ok((taken.outputs.clone(), taken));
            }
            (Some(error), Some(_)) if self.open_branches == 0 => return Err(error.clone()),
            _ => return Ok((yes.outputs.clone(), yes)),
        };
        let is_yes = yes.multiply_adds() >= no.multiply_adds();
        if yes.multiply_adds() != no.multiply_adds() {
            let which = if is_yes { "then" } else { "else" };
            self.note(format!("{place}: only a run tells the branch; the heavier one ({which}) is counted"));
        }
        let (taken, other) = if is_yes { (yes, no) } else { (no, yes) };
        let facts = taken.outputs.iter().enumerate().map(|(at, fact)| match other.outputs.get(at) {
            Some(other) => common(fact, other),
            None => fact.clone(),
        });
        Ok((facts.collect(), taken))
    }

    /// A `Loop` or `Scan`: its body, as often as it turns.
    fn turns(
        &mut self,
        node: &Node,
        inputs: &[Option<Fact>],
        scope: &Around,
        place: &str,
    ) -> Result<(Vec<Fact>, Told), Error> {
        let Some(body) = node.graph("body") else {
            return Err(Error::Misfit { node: place.to_string(), why: "no body".to_string() });
        };
        let is_scan = node.kind == "Scan";
        let scanned = if is_scan { node.integer("num_scan_inputs").unwrap_or(0).max(0) as usize } else { 0 };
        let carried =
            if is_scan { inputs.len().saturating_sub(scanned) } else { inputs.len().saturating_sub(2) };
        let single = |fact: &Fact| fact.whole().and_then(|values| values.first().copied());
        let turns = if is_scan {
            let first = inputs.get(carried).and_then(Option::as_ref);
            first.and_then(|fact| fact.shape.as_ref()?.first().copied().flatten())
        } else {
            inputs.first().and_then(Option::as_ref).and_then(single).map(|turns| turns.max(0) as u64)
        };
        let turns = match turns {
            Some(turns) if turns <= self.limits.turns => Some(turns),
            _ if is_scan => None,
            _ => self.simulate(body, inputs, scope, place),
        };
        let counted = turns.map(|turns| turns.min(self.limits.turns));
        if turns.is_none_or(|turns| turns > self.limits.turns) {
            self.note(format!("{place}: only a run tells how often it turns; one turn is counted"));
        }
        // What is carried keeps its type and shape from turn to turn, but not its elements.
        let carry = |fact: &Option<Fact>| {
            let fact = fact.clone().unwrap_or_default();
            Fact { small: None, is_constant: false, ..fact }
        };
        let given: Vec<Fact> = if is_scan {
            let rest = |fact: &Option<Fact>| {
                let fact = carry(fact);
                Fact { shape: fact.shape.and_then(|shape| shape.get(1..).map(<[_]>::to_vec)), ..fact }
            };
            inputs.iter().take(carried).map(carry).chain(inputs.iter().skip(carried).map(rest)).collect()
        } else {
            let number = Fact::new(Some(crate::DataType::Int64), Some(Vec::new()));
            let truth = Fact::new(Some(crate::DataType::Bool), Some(Vec::new()));
            [number, truth].into_iter().chain(inputs.iter().skip(2).map(carry)).collect()
        };
        let named = body.inputs.iter().zip(given).map(|(input, fact)| (input.name.clone(), fact)).collect();
        let mut told = self.graph(body, named, scope, place)?;
        let counted = counted.filter(|_| turns.is_some_and(|turns| turns <= self.limits.turns)).unwrap_or(1);
        for one in &mut told.operators {
            one.turns = one.turns.saturating_mul(counted);
        }
        let skipped = usize::from(!is_scan);
        let outputs = told.outputs.iter().skip(skipped).enumerate().map(|(at, fact)| {
            let before = inputs.get(if is_scan { at } else { at + 2 }).and_then(Option::as_ref);
            match before {
                Some(before) if at < carried => common(fact, before),
                _ => {
                    let stacked = fact.shape.as_ref().map(|shape| [&[turns], shape.as_slice()].concat());
                    Fact::new(fact.data_type, stacked)
                }
            }
        });
        Ok((outputs.collect(), told))
    }
}

/// A loop whose end is a condition is gone through turn by turn, as long as the condition can be told, for at most so
/// many operators.
const SIMULATED: u64 = 200_000;

impl Walk<'_> {
    /// How often a `Loop` turns whose condition depends on counters only.
    fn simulate(&self, body: &Graph, inputs: &[Option<Fact>], scope: &Around, place: &str) -> Option<u64> {
        let truth = |fact: Option<&Fact>| fact.and_then(Fact::whole).and_then(|one| one.first().copied());
        let number = |value: i64| Fact::integers(crate::DataType::Int64, Vec::new(), vec![value]);
        if truth(inputs.get(1).and_then(Option::as_ref)) == Some(0) {
            return Some(0);
        }
        let mut carried: Vec<Fact> =
            inputs.iter().skip(2).map(|fact| fact.clone().unwrap_or_default()).collect();
        carried.iter_mut().for_each(|fact| fact.is_constant = false);
        let condition = Fact::integers(crate::DataType::Bool, Vec::new(), vec![1]);
        let most = SIMULATED / (body.nodes.len() as u64).max(1);
        for turn in 0..most {
            let given = [number(turn as i64), condition.clone()].into_iter().chain(carried.iter().cloned());
            let named =
                body.inputs.iter().zip(given).map(|(input, fact)| (input.name.clone(), fact)).collect();
            let mut walk = Walk {
                opset: self.opset,
                limits: self.limits,
                functions: self.functions,
                seen: 0,
                made: Weights::default(),
                counts: Characteristics::default(),
                notes: Vec::new(),
                open_branches: 0,
            };
            let told = walk.graph(body, named, scope, place).ok()?;
            if truth(told.outputs.first())? == 0 {
                return Some(turn + 1);
            }
            carried = told.outputs.iter().skip(1).take(carried.len()).cloned().collect();
        }
        None
    }
}

fn find<'b>(name: &str, own: &'b BTreeMap<String, Fact>, around: &Around<'b>) -> Option<&'b Fact> {
    own.get(name).or_else(|| around.iter().rev().find_map(|facts| facts.get(name)))
}

/// What two facts agree in.
fn common(a: &Fact, b: &Fact) -> Fact {
    let shape = match (&a.shape, &b.shape) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            Some(a.iter().zip(b).map(|(a, b)| if a == b { *a } else { None }).collect())
        }
        _ => None,
    };
    Fact::new(a.data_type.or(b.data_type), shape)
}

fn operator(
    node: &Node,
    inputs: &[Option<Fact>],
    made: &[Fact],
    multiply_adds: Option<u64>,
    inside: &str,
) -> OperatorCost {
    let sum = |facts: &[&Fact]| {
        facts.iter().try_fold(0u64, |sum, fact| sum.checked_add(cost::bytes(Some(fact))?)).map(Bytes)
    };
    let taken: Vec<&Fact> = inputs.iter().flatten().collect();
    let weights: Vec<&Fact> = taken.iter().copied().filter(|fact| fact.is_constant).collect();
    let written: Vec<&Fact> =
        made.iter().zip(&node.outputs).filter(|(_, name)| !name.is_empty()).map(|(fact, _)| fact).collect();
    let attributes = node.attributes.iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
    OperatorCost {
        name: node.name.clone(),
        kind: node.kind.clone(),
        domain: node.domain.clone(),
        inside: inside.to_string(),
        inputs: node
            .inputs
            .iter()
            .zip(inputs)
            .map(|(name, fact)| Value::of(name, fact.as_ref().unwrap_or(&Fact::default())))
            .collect(),
        outputs: node.outputs.iter().zip(made).map(|(name, fact)| Value::of(name, fact)).collect(),
        multiply_adds,
        elements: made.first().and_then(Fact::elements),
        read_bytes: sum(&taken),
        written_bytes: sum(&written),
        weight_bytes: sum(&weights),
        turns: 1,
        attributes: attributes
            .filter_map(|(name, value)| match value {
                Attribute::Integer(value) => Some((name.clone(), vec![*value])),
                Attribute::Integers(values) => Some((name.clone(), values.clone())),
                _ => None,
            })
            .collect(),
    }
}
