//! Walks a graph's operators in order, including its subgraphs.
//!
//! Small files could cause unbounded work, so tracked elements and loop iterations are bounded over
//! the whole walk.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::call::{COPIED, size_of};
use super::{OperatorCost, Value, memory};
use crate::constants::Weights;
use crate::cost::{self, multiply_adds};
use crate::graph::{Attribute, Function, Graph, Model, Node};
use crate::shape::{Fact, Given, infer, rule, weights_at};
use crate::soprano::{self, Characteristics};
use crate::{Error, Limits};
use metier_types::Bytes;

/// Attributes that affect an operator's speed.
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
/// Largest number of notes.
const NOTES: usize = 20;
/// Largest number of tracked elements over all operator outputs.
const TOGETHER: usize = 4 << 20;
/// Largest number of operators and constants walked to count loop iterations.
const SIMULATED: u64 = 50_000;
/// Bytes of names and attributes that count as one more operator in that limit, far more than an
/// operator has.
const LONG: u64 = 4096;

/// Result of walking one graph.
#[derive(Debug, Clone, Default)]
pub struct Told {
    pub facts: BTreeMap<String, Fact>,
    pub operators: Vec<OperatorCost>,
    pub peak: Option<u64>,
    /// Facts of the outputs, in order.
    pub outputs: Vec<Fact>,
    /// The first mismatch in a branch that may never run.
    pub misfit: Option<Error>,
}

impl Told {
    fn multiply_adds(&self) -> u64 {
        self.operators
            .iter()
            .fold(0, |sum, one| sum.saturating_add(one.multiply_adds.unwrap_or(0).saturating_mul(one.turns)))
    }
}

/// Values of the enclosing graphs, innermost last.
pub(super) type Around<'a> = Vec<&'a BTreeMap<String, Fact>>;

/// Functions of the file by domain, name and overload.
pub(super) type Functions<'a> = HashMap<(&'a str, &'a str, &'a str), &'a Function>;

pub struct Walk<'a> {
    pub(super) opset: i64,
    pub(super) limits: &'a Limits,
    functions: Rc<Functions<'a>>,
    /// Remaining budget of operators from functions.
    pub(super) called: u64,
    /// Remaining budget of bytes for function copies.
    pub(super) copied: u64,
    /// Nesting depth of function calls.
    pub(super) calls: usize,
    /// Nesting depth of graphs, including functions.
    depth: usize,
    /// Visited operators, including subgraphs.
    pub seen: u64,
    /// Weights that operators create from constants, not stored in the file.
    pub made: Weights,
    pub counts: Characteristics,
    pub notes: Vec<String>,
    /// Enclosing branches that may never run.
    open_branches: u32,
    /// Remaining budget of tracked elements, which bounds their total and not only each value.
    pub(super) followed: usize,
    /// Remaining budget of operators and constants for counting loop iterations, nested loops
    /// included.
    pub(super) simulated: u64,
    /// Whether this walk simulates one loop iteration.
    is_turn: bool,
}

impl<'a> Walk<'a> {
    pub fn new(model: &'a Model, limits: &'a Limits) -> Self {
        let functions = model.functions.iter().map(|one| ((&*one.domain, &*one.name, &*one.overload), one));
        Self {
            opset: model.opset(),
            limits,
            functions: Rc::new(functions.collect()),
            called: limits.nodes as u64,
            copied: COPIED,
            calls: 0,
            depth: 0,
            seen: 0,
            made: Weights::default(),
            counts: Characteristics::default(),
            notes: Vec::new(),
            open_branches: 0,
            followed: TOGETHER,
            simulated: SIMULATED,
            is_turn: false,
        }
    }

    /// A walk of the same file that simulates one loop iteration, to determine whether another
    /// follows.
    pub(super) fn turn(&self) -> Self {
        Self {
            opset: self.opset,
            limits: self.limits,
            functions: self.functions.clone(),
            called: self.called,
            copied: self.copied,
            calls: self.calls,
            depth: self.depth,
            seen: 0,
            made: Weights::default(),
            counts: Characteristics::default(),
            notes: Vec::new(),
            open_branches: 0,
            followed: self.followed,
            simulated: self.simulated,
            is_turn: true,
        }
    }

    pub(super) fn note(&mut self, text: String) {
        if self.notes.len() < NOTES && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Walks the main graph with its inputs.
    pub fn main(&mut self, graph: &Graph, inputs: Vec<(String, Fact)>) -> Result<Told, Error> {
        self.graph(graph, inputs, &Vec::new(), "")
    }

    pub(super) fn graph(
        &mut self,
        graph: &Graph,
        inputs: Vec<(String, Fact)>,
        around: &Around,
        inside: &str,
    ) -> Result<Told, Error> {
        // Each level takes some stack frames.
        let most = 2 * self.limits.depth as u64;
        if self.depth as u64 > most {
            let what = "the depth of graphs inside graphs and functions";
            return Err(Error::TooMuch { what, got: self.depth as u64, most });
        }
        if self.is_turn {
            let work = 1 + (graph.nodes.len() + graph.initializers.len()) as u64 + size_of(graph) / LONG;
            self.simulated = self.simulated.checked_sub(work).ok_or(Error::TooMuch {
                what: "the number of operators in turns of loops",
                got: SIMULATED.saturating_add(work),
                most: SIMULATED,
            })?;
        }
        let mut told = Told { facts: inputs.into_iter().collect(), ..Told::default() };
        for tensor in &graph.initializers {
            told.facts.insert(tensor.name.clone(), Fact::of_tensor(tensor));
        }
        let mut nested = Vec::with_capacity(graph.nodes.len());
        self.depth += 1;
        for (index, node) in graph.nodes.iter().enumerate() {
            self.seen += 1;
            nested.push(self.node(node, index, &mut told, around, inside)?);
        }
        self.depth -= 1;
        told.outputs = graph
            .outputs
            .iter()
            .map(|output| find(&output.name, &told.facts, around).cloned().unwrap_or_default())
            .collect();
        told.peak = memory::peak(graph, &told.facts, &nested);
        Ok(told)
    }

    /// Walks one operator; returns the memory of its subgraphs.
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
                let fact = find(name, &told.facts, around);
                Some(fact.ok_or_else(|| Error::Order { node: called.clone(), value: name.clone() })?)
            });
        }
        let scope: Around = around.iter().copied().chain([&told.facts]).collect();
        let place = if inside.is_empty() { called.clone() } else { format!("{inside} / {called}") };
        let mut nested = Some(0);
        let mut below = Vec::new();
        let mut misfit = None;
        let function = self.function(node);
        // Only standard operators have subgraphs with a known meaning.
        let kind = if node.is_standard() { node.kind.as_str() } else { "" };
        let made = match (kind, function) {
            (_, Some(function)) => {
                let (facts, body) = self.call(function, node, &inputs, &place)?;
                nested = body.peak;
                misfit = body.misfit;
                below = body.operators;
                facts
            }
            ("If", None) => {
                let (facts, branch) = self.branch(node, &inputs, &scope, &place)?;
                nested = branch.peak;
                misfit = branch.misfit;
                below = branch.operators;
                facts
            }
            ("Loop" | "Scan", None) => {
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
                    told.operators.push(operator(node, &inputs, &made, adds, inside, self.limits.rank));
                }
                made
            }
        };
        told.operators.extend(below);
        told.misfit = told.misfit.take().or(misfit);
        for (name, mut fact) in node.outputs.iter().zip(made) {
            self.follow(&mut fact);
            if !name.is_empty() && told.facts.insert(name.clone(), fact).is_some() {
                return Err(Error::Twice { node: called, value: name.clone() });
            }
        }
        Ok(nested)
    }

    /// The function that an operator calls, unless the operator is standard and supported.
    fn function(&self, node: &Node) -> Option<&'a Function> {
        if self.functions.is_empty() || (node.is_standard() && rule(node).is_some()) {
            return None;
        }
        self.functions.get(&(&*node.domain, &*node.kind, &*node.overload)).copied()
    }

    fn given<'b>(&self, node: &'b Node, inputs: &[Option<&'b Fact>]) -> Given<'b>
    where
        'a: 'b,
    {
        Given { node, inputs: inputs.to_vec(), opset: self.opset, limits: self.limits }
    }

    /// Keeps a value's elements while the budget lasts.
    fn follow(&mut self, fact: &mut Fact) {
        match self.followed.checked_sub(fact.followed()) {
            Some(left) => self.followed = left,
            None => fact.small = None,
        }
    }

    /// Adds the operator to the totals of the whole graph.
    fn account(&mut self, node: &Node, inputs: &[Option<&Fact>], made: &[Fact]) {
        if node.kind == "ConstantOfShape"
            && let Some(fact) = made.first().filter(|fact| fact.is_constant)
            && let (Some(elements), Some(data_type)) = (fact.elements(), fact.data_type)
        {
            self.made.add(elements, data_type, fact.rank().unwrap_or(0));
        }
        let weights = inputs.get(weights_at(&node.kind));
        if node.kind == "MatMulNBits" {
            // Each byte packs several weights, of which one has been counted.
            let bits = node.integer("bits").filter(|bits| (1..=8).contains(bits)).unwrap_or(4) as u64;
            let bytes = weights.copied().flatten().filter(|fact| fact.is_constant).and_then(Fact::elements);
            let more = bytes.unwrap_or(0).saturating_mul(8 / bits - 1);
            self.made.parameters = self.made.parameters.saturating_add(more);
        }
        let weights = weights.copied().flatten().filter(|fact| fact.is_constant);
        // A transposed convolution has the axes swapped, and its output channels are per group.
        let is_transposed = node.kind == "ConvTranspose";
        let groups = node.integer("group").filter(|_| is_transposed).map_or(1, |groups| groups.max(1) as u64);
        let channels =
            weights.and_then(Fact::dims).and_then(|dims| dims.get(usize::from(is_transposed)).copied());
        let channels = channels.unwrap_or(0).saturating_mul(groups);
        if rule(node).is_some() {
            soprano::count(&mut self.counts, node, weights.is_some(), channels);
        } else {
            let whose = if node.domain.is_empty() { String::new() } else { format!(" of {}", node.domain) };
            let kind = &node.kind;
            self.note(format!("operator {kind}{whose} is not supported, so its sizes and cost are unknown"));
        }
    }

    /// Walks an `If`: the branch that a known condition selects, else the heavier one.
    fn branch(
        &mut self,
        node: &Node,
        inputs: &[Option<&Fact>],
        scope: &Around,
        place: &str,
    ) -> Result<(Vec<Fact>, Told), Error> {
        let condition = inputs.first().copied().flatten().and_then(Fact::whole).and_then(|one| one.first());
        if let Some(value) = condition {
            // A mismatch in the other branch is irrelevant: it does not run.
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
        // A mismatch inside one branch is not an error if the other branch fits.
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
            self.note(format!(
                "{place}: the branch is unknown before a run; the heavier one ({which}) is counted"
            ));
        }
        let (taken, other) = if is_yes { (yes, no) } else { (no, yes) };
        let facts = taken.outputs.iter().enumerate().map(|(at, fact)| match other.outputs.get(at) {
            Some(other) => common(fact, other),
            None => fact.clone(),
        });
        Ok((facts.collect(), taken))
    }
}

fn find<'b>(name: &str, own: &'b BTreeMap<String, Fact>, around: &Around<'b>) -> Option<&'b Fact> {
    own.get(name).or_else(|| around.iter().rev().find_map(|facts| facts.get(name)))
}

/// Copies a fact for another graph; keeps its elements while the budget lasts, since it may be
/// copied often.
pub(super) fn within(fact: Option<&Fact>, room: &mut usize) -> Fact {
    let Some(fact) = fact else { return Fact::default() };
    match room.checked_sub(fact.followed()) {
        Some(left) => {
            *room = left;
            fact.clone()
        }
        None => Fact { is_constant: fact.is_constant, ..Fact::new(fact.data_type, fact.shape.clone()) },
    }
}

/// The common part of two facts.
pub(super) fn common(a: &Fact, b: &Fact) -> Fact {
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
    inputs: &[Option<&Fact>],
    made: &[Fact],
    multiply_adds: Option<u64>,
    inside: &str,
    rank: usize,
) -> OperatorCost {
    let sum = |facts: &[&Fact]| {
        facts.iter().try_fold(0u64, |sum, fact| sum.checked_add(cost::bytes(Some(fact))?)).map(Bytes)
    };
    let taken: Vec<&Fact> = inputs.iter().copied().flatten().collect();
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
            .map(|(name, fact)| Value::of(name, fact.unwrap_or(&Fact::default())))
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
                // At most the pads of all dimensions; a longer list fits no operator.
                Attribute::Integers(values) if values.len() <= 2 * rank => {
                    Some((name.clone(), values.clone()))
                }
                _ => None,
            })
            .collect(),
    }
}
