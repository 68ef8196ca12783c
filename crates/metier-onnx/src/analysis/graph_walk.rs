//! Walks a graph's operators in order, including its subgraphs.
//!
//! Small files could cause unbounded work, so tracked elements and loop iterations are bounded over
//! the whole walk.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::function_calls::{MAX_COPIED_BYTES, estimate_copy_bytes};
use super::{OperatorCost, ValueDescription, peak_memory};
use crate::constants::WeightTotals;
use crate::graph::{Graph, GraphNode, LocalFunction, NodeAttribute, OnnxFile};
use crate::operator_cost::{self, multiply_adds};
use crate::shape::{ShapeContext, ValueFact, infer_outputs, shape_rule, weights_input_index};
use crate::soprano::{self, GraphCharacteristics};
use crate::{Error, OnnxLimits};
use metier_types::Bytes;

/// Attributes that affect an operator's speed.
const COST_ATTRIBUTES: [&str; 12] = [
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
const MAX_NOTES: usize = 20;
/// Largest number of tracked elements over all operator outputs.
const MAX_TOTAL_TRACKED_ELEMENTS: usize = 4 << 20;
/// Largest number of operators and constants walked to count loop iterations.
const MAX_SIMULATED_OPERATORS: u64 = 50_000;
/// Bytes of names and attributes that count as one more operator in that limit, far more than an
/// operator has.
const NAME_BYTES_PER_OPERATOR: u64 = 4096;

/// Result of walking one graph.
#[derive(Debug, Clone, Default)]
pub struct WalkResult {
    pub facts: BTreeMap<String, ValueFact>,
    pub operators: Vec<OperatorCost>,
    pub peak: Option<u64>,
    /// Facts of the outputs, in order.
    pub outputs: Vec<ValueFact>,
    /// The first mismatch in a branch that may never run.
    pub misfit: Option<Error>,
}

impl WalkResult {
    fn multiply_adds(&self) -> u64 {
        self.operators.iter().fold(0, |sum, cost| {
            sum.saturating_add(cost.multiply_adds.unwrap_or(0).saturating_mul(cost.turns))
        })
    }
}

/// Values of the enclosing graphs, innermost last.
pub(super) type EnclosingScopes<'a> = Vec<&'a BTreeMap<String, ValueFact>>;

/// Functions of the file by domain, name and overload.
pub(super) type FunctionTable<'a> = HashMap<(&'a str, &'a str, &'a str), &'a LocalFunction>;

pub struct GraphWalk<'a> {
    pub(super) opset: i64,
    pub(super) limits: &'a OnnxLimits,
    functions: Rc<FunctionTable<'a>>,
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
    pub made: WeightTotals,
    pub counts: GraphCharacteristics,
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

impl<'a> GraphWalk<'a> {
    pub fn new(model: &'a OnnxFile, limits: &'a OnnxLimits) -> Self {
        let functions = model
            .functions
            .iter()
            .map(|function| ((&*function.domain, &*function.name, &*function.overload), function));
        Self {
            opset: model.opset(),
            limits,
            functions: Rc::new(functions.collect()),
            called: limits.nodes as u64,
            copied: MAX_COPIED_BYTES,
            calls: 0,
            depth: 0,
            seen: 0,
            made: WeightTotals::default(),
            counts: GraphCharacteristics::default(),
            notes: Vec::new(),
            open_branches: 0,
            followed: MAX_TOTAL_TRACKED_ELEMENTS,
            simulated: MAX_SIMULATED_OPERATORS,
            is_turn: false,
        }
    }

    /// A walk of the same file that simulates one loop iteration, to determine whether another
    /// follows.
    pub(super) fn fork_for_iteration(&self) -> Self {
        Self {
            opset: self.opset,
            limits: self.limits,
            functions: self.functions.clone(),
            called: self.called,
            copied: self.copied,
            calls: self.calls,
            depth: self.depth,
            seen: 0,
            made: WeightTotals::default(),
            counts: GraphCharacteristics::default(),
            notes: Vec::new(),
            open_branches: 0,
            followed: self.followed,
            simulated: self.simulated,
            is_turn: true,
        }
    }

    pub(super) fn add_note(&mut self, text: String) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Walks the main graph with its inputs.
    pub fn walk_main(
        &mut self,
        graph: &Graph,
        inputs: Vec<(String, ValueFact)>,
    ) -> Result<WalkResult, Error> {
        self.walk_graph(graph, inputs, &Vec::new(), "")
    }

    pub(super) fn walk_graph(
        &mut self,
        graph: &Graph,
        inputs: Vec<(String, ValueFact)>,
        around: &EnclosingScopes,
        inside: &str,
    ) -> Result<WalkResult, Error> {
        // Each level takes some stack frames.
        let most = 2 * self.limits.depth as u64;
        if self.depth as u64 > most {
            let what = "the depth of graphs inside graphs and functions";
            return Err(Error::LimitExceeded { what, got: self.depth as u64, most });
        }
        if self.is_turn {
            let work = 1
                + (graph.nodes.len() + graph.initializers.len()) as u64
                + estimate_copy_bytes(graph) / NAME_BYTES_PER_OPERATOR;
            self.simulated = self.simulated.checked_sub(work).ok_or(Error::LimitExceeded {
                what: "the number of operators in turns of loops",
                got: MAX_SIMULATED_OPERATORS.saturating_add(work),
                most: MAX_SIMULATED_OPERATORS,
            })?;
        }
        let mut result = WalkResult { facts: inputs.into_iter().collect(), ..WalkResult::default() };
        for tensor in &graph.initializers {
            result.facts.insert(tensor.name.clone(), ValueFact::from_tensor(tensor));
        }
        let mut nested = Vec::with_capacity(graph.nodes.len());
        self.depth += 1;
        for (index, node) in graph.nodes.iter().enumerate() {
            self.seen += 1;
            nested.push(self.walk_node(node, index, &mut result, around, inside)?);
        }
        self.depth -= 1;
        result.outputs = graph
            .outputs
            .iter()
            .map(|output| find_fact(&output.name, &result.facts, around).cloned().unwrap_or_default())
            .collect();
        result.peak = peak_memory::peak_activation_bytes(graph, &result.facts, &nested);
        Ok(result)
    }

    /// Walks one operator; returns the memory of its subgraphs.
    fn walk_node(
        &mut self,
        node: &GraphNode,
        index: usize,
        result: &mut WalkResult,
        around: &EnclosingScopes,
        inside: &str,
    ) -> Result<Option<u64>, Error> {
        let called = node.display_name(index);
        let named = |error| match error {
            Error::OperatorMismatch { why, .. } => Error::OperatorMismatch { node: called.clone(), why },
            other => other,
        };
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            inputs.push(if name.is_empty() {
                None
            } else {
                let fact = find_fact(name, &result.facts, around);
                Some(fact.ok_or_else(|| Error::ValueUsedBeforeMade {
                    node: called.clone(),
                    value: name.clone(),
                })?)
            });
        }
        let scope: EnclosingScopes = around.iter().copied().chain([&result.facts]).collect();
        let place = if inside.is_empty() { called.clone() } else { format!("{inside} / {called}") };
        let mut nested = Some(0);
        let mut below = Vec::new();
        let mut misfit = None;
        let function = self.find_function(node);
        // Only standard operators have subgraphs with a known meaning.
        let kind = if node.is_standard() { node.kind.as_str() } else { "" };
        let made = match (kind, function) {
            (_, Some(function)) => {
                let (facts, body) = self.call_function(function, node, &inputs, &place)?;
                nested = body.peak;
                misfit = body.misfit;
                below = body.operators;
                facts
            }
            ("If", None) => {
                let (facts, branch) = self.walk_branch(node, &inputs, &scope, &place)?;
                nested = branch.peak;
                misfit = branch.misfit;
                below = branch.operators;
                facts
            }
            ("Loop" | "Scan", None) => {
                let (facts, body) = self.walk_loop(node, &inputs, &scope, &place)?;
                nested = body.peak;
                misfit = body.misfit;
                below = body.operators;
                facts
            }
            _ => {
                let given = self.shape_context(node, &inputs);
                let done = infer_outputs(&given).and_then(|made| Ok((multiply_adds(&given, &made)?, made)));
                let (adds, made) = match done.map_err(named) {
                    Ok(done) => done,
                    Err(error) if self.open_branches > 0 => {
                        result.misfit.get_or_insert(error);
                        (None, vec![ValueFact::default(); node.outputs.len()])
                    }
                    Err(error) => return Err(error),
                };
                self.count_operator(node, &inputs, &made);
                if !made.iter().all(|fact| fact.is_constant) {
                    result.operators.push(build_operator_cost(
                        node,
                        &inputs,
                        &made,
                        adds,
                        inside,
                        self.limits.rank,
                    ));
                }
                made
            }
        };
        result.operators.extend(below);
        result.misfit = result.misfit.take().or(misfit);
        for (name, mut fact) in node.outputs.iter().zip(made) {
            self.limit_tracked_elements(&mut fact);
            if !name.is_empty() && result.facts.insert(name.clone(), fact).is_some() {
                return Err(Error::DuplicateValue { node: called, value: name.clone() });
            }
        }
        Ok(nested)
    }

    /// The function that an operator calls, unless the operator is standard and supported.
    fn find_function(&self, node: &GraphNode) -> Option<&'a LocalFunction> {
        if self.functions.is_empty() || (node.is_standard() && shape_rule(node).is_some()) {
            return None;
        }
        self.functions.get(&(&*node.domain, &*node.kind, &*node.overload)).copied()
    }

    fn shape_context<'b>(&self, node: &'b GraphNode, inputs: &[Option<&'b ValueFact>]) -> ShapeContext<'b>
    where
        'a: 'b,
    {
        ShapeContext { node, inputs: inputs.to_vec(), opset: self.opset, limits: self.limits }
    }

    /// Keeps a value's elements while the budget lasts.
    fn limit_tracked_elements(&mut self, fact: &mut ValueFact) {
        match self.followed.checked_sub(fact.tracked_elements()) {
            Some(left) => self.followed = left,
            None => fact.small = None,
        }
    }

    /// Adds the operator to the totals of the whole graph.
    fn count_operator(&mut self, node: &GraphNode, inputs: &[Option<&ValueFact>], made: &[ValueFact]) {
        if node.kind == "ConstantOfShape"
            && let Some(fact) = made.first().filter(|fact| fact.is_constant)
            && let (Some(elements), Some(data_type)) = (fact.elements(), fact.data_type)
        {
            self.made.add_elements(elements, data_type, fact.rank().unwrap_or(0));
        }
        let weights = inputs.get(weights_input_index(&node.kind));
        if node.kind == "MatMulNBits" {
            // Each byte packs several weights, of which one has been counted.
            let bits = node.integer("bits").filter(|bits| (1..=8).contains(bits)).unwrap_or(4) as u64;
            let bytes =
                weights.copied().flatten().filter(|fact| fact.is_constant).and_then(ValueFact::elements);
            let more = bytes.unwrap_or(0).saturating_mul(8 / bits - 1);
            self.made.parameters = self.made.parameters.saturating_add(more);
        }
        let weights = weights.copied().flatten().filter(|fact| fact.is_constant);
        // A transposed convolution has the axes swapped, and its output channels are per group.
        let is_transposed = node.kind == "ConvTranspose";
        let groups = node.integer("group").filter(|_| is_transposed).map_or(1, |groups| groups.max(1) as u64);
        let channels =
            weights.and_then(ValueFact::dims).and_then(|dims| dims.get(usize::from(is_transposed)).copied());
        let channels = channels.unwrap_or(0).saturating_mul(groups);
        if shape_rule(node).is_some() {
            soprano::count_operator(&mut self.counts, node, weights.is_some(), channels);
        } else {
            let whose = if node.domain.is_empty() { String::new() } else { format!(" of {}", node.domain) };
            let kind = &node.kind;
            self.add_note(format!(
                "operator {kind}{whose} is not supported, so its sizes and cost are unknown"
            ));
        }
    }

    /// Walks an `If`: the branch that a known condition selects, else the heavier one.
    fn walk_branch(
        &mut self,
        node: &GraphNode,
        inputs: &[Option<&ValueFact>],
        scope: &EnclosingScopes,
        place: &str,
    ) -> Result<(Vec<ValueFact>, WalkResult), Error> {
        let condition = inputs
            .first()
            .copied()
            .flatten()
            .and_then(ValueFact::as_integers)
            .and_then(|numbers| numbers.first());
        if let Some(value) = condition {
            // A mismatch in the other branch is irrelevant: it does not run.
            let name = if *value != 0 { "then_branch" } else { "else_branch" };
            let Some(graph) = node.graph(name) else {
                return Err(Error::OperatorMismatch { node: place.to_string(), why: format!("no {name}") });
            };
            let taken = self.walk_graph(graph, Vec::new(), scope, place)?;
            return Ok((taken.outputs.clone(), taken));
        }
        let mut sides = Vec::new();
        for name in ["then_branch", "else_branch"] {
            let Some(graph) = node.graph(name) else {
                return Err(Error::OperatorMismatch { node: place.to_string(), why: format!("no {name}") });
            };
            self.open_branches += 1;
            let side = self.walk_graph(graph, Vec::new(), scope, place);
            self.open_branches -= 1;
            sides.push(side?);
        }
        let (Some(no), Some(yes)) = (sides.pop(), sides.pop()) else {
            return Ok((Vec::new(), WalkResult::default()));
        };
        // A mismatch inside one branch is not an error if the other branch fits.
        let (yes, no) = match (&yes.misfit, &no.misfit) {
            (None, None) => (yes, no),
            (None, Some(error)) | (Some(error), None) => {
                self.add_note(format!(
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
            self.add_note(format!(
                "{place}: the branch is unknown before a run; the heavier one ({which}) is counted"
            ));
        }
        let (taken, other) = if is_yes { (yes, no) } else { (no, yes) };
        let facts = taken.outputs.iter().enumerate().map(|(at, fact)| match other.outputs.get(at) {
            Some(other) => merge_facts(fact, other),
            None => fact.clone(),
        });
        Ok((facts.collect(), taken))
    }
}

fn find_fact<'b>(
    name: &str,
    own: &'b BTreeMap<String, ValueFact>,
    around: &EnclosingScopes<'b>,
) -> Option<&'b ValueFact> {
    own.get(name).or_else(|| around.iter().rev().find_map(|facts| facts.get(name)))
}

/// Copies a fact for another graph; keeps its elements while the budget lasts, since it may be
/// copied often.
pub(super) fn clone_within_budget(fact: Option<&ValueFact>, room: &mut usize) -> ValueFact {
    let Some(fact) = fact else { return ValueFact::default() };
    match room.checked_sub(fact.tracked_elements()) {
        Some(left) => {
            *room = left;
            fact.clone()
        }
        None => {
            ValueFact { is_constant: fact.is_constant, ..ValueFact::new(fact.data_type, fact.shape.clone()) }
        }
    }
}

/// The common part of two facts.
pub(super) fn merge_facts(a: &ValueFact, b: &ValueFact) -> ValueFact {
    let shape = match (&a.shape, &b.shape) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            Some(a.iter().zip(b).map(|(a, b)| if a == b { *a } else { None }).collect())
        }
        _ => None,
    };
    ValueFact::new(a.data_type.or(b.data_type), shape)
}

fn build_operator_cost(
    node: &GraphNode,
    inputs: &[Option<&ValueFact>],
    made: &[ValueFact],
    multiply_adds: Option<u64>,
    inside: &str,
    rank: usize,
) -> OperatorCost {
    let sum = |facts: &[&ValueFact]| {
        facts
            .iter()
            .try_fold(0u64, |sum, fact| sum.checked_add(operator_cost::value_bytes(Some(fact))?))
            .map(Bytes)
    };
    let taken: Vec<&ValueFact> = inputs.iter().copied().flatten().collect();
    let weights: Vec<&ValueFact> = taken.iter().copied().filter(|fact| fact.is_constant).collect();
    let written: Vec<&ValueFact> =
        made.iter().zip(&node.outputs).filter(|(_, name)| !name.is_empty()).map(|(fact, _)| fact).collect();
    let attributes = node.attributes.iter().filter(|(name, _)| COST_ATTRIBUTES.contains(&name.as_str()));
    OperatorCost {
        name: node.name.clone(),
        kind: node.kind.clone(),
        domain: node.domain.clone(),
        inside: inside.to_string(),
        inputs: node
            .inputs
            .iter()
            .zip(inputs)
            .map(|(name, fact)| ValueDescription::from_fact(name, fact.unwrap_or(&ValueFact::default())))
            .collect(),
        outputs: node
            .outputs
            .iter()
            .zip(made)
            .map(|(name, fact)| ValueDescription::from_fact(name, fact))
            .collect(),
        multiply_adds,
        elements: made.first().and_then(ValueFact::elements),
        read_bytes: sum(&taken),
        written_bytes: sum(&written),
        weight_bytes: sum(&weights),
        turns: 1,
        attributes: attributes
            .filter_map(|(name, value)| match value {
                NodeAttribute::Integer(value) => Some((name.clone(), vec![*value])),
                // At most the pads of all dimensions; a longer list fits no operator.
                NodeAttribute::Integers(values) if values.len() <= 2 * rank => {
                    Some((name.clone(), values.clone()))
                }
                _ => None,
            })
            .collect(),
    }
}
