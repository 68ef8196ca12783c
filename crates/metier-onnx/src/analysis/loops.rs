//! Loops: the cost of their bodies, and their number of iterations.

use std::collections::HashMap;

use super::graph_walk::{EnclosingScopes, GraphWalk, WalkResult, clone_within_budget, merge_facts};
use crate::graph::{ConstantTensor, Graph, GraphNode, NodeAttribute, SmallElements};
use crate::shape::ValueFact;
use crate::{DataType, Error};

/// Inputs of a `Loop` or `Scan` by their role in the body.
struct LoopInputs<'a> {
    /// Carried from one iteration to the next.
    carried: &'a [Option<&'a ValueFact>],
    /// Split into one slice per iteration, with the axis; `Scan` only.
    scanned: Vec<(Option<&'a ValueFact>, i64)>,
    /// Leading dimensions hidden from the body: the batch of `Scan` version 8.
    hidden: usize,
}

impl<'a> LoopInputs<'a> {
    fn from_node(node: &GraphNode, inputs: &'a [Option<&'a ValueFact>], opset: i64) -> Self {
        if node.kind == "Loop" {
            return Self { carried: inputs.get(2..).unwrap_or_default(), scanned: Vec::new(), hidden: 0 };
        }
        // `Scan` before version 9 had sequence lengths as first input, and a batch.
        let hidden = usize::from(opset < 9);
        let inputs = inputs.get(hidden..).unwrap_or_default();
        let count = node.integer("num_scan_inputs").unwrap_or(0).max(0) as usize;
        let (carried, scanned) = inputs.split_at(inputs.len().saturating_sub(count));
        let axes = node.integers("scan_input_axes").unwrap_or_default();
        let scanned = scanned.iter().enumerate();
        let scanned = scanned.map(|(at, fact)| (*fact, axes.get(at).copied().unwrap_or(0))).collect();
        Self { carried, scanned, hidden }
    }
}

/// The loop-invariant part of a fact: type and shape, without elements.
fn without_elements(fact: Option<&ValueFact>, hidden: usize) -> ValueFact {
    let Some(fact) = fact else { return ValueFact::default() };
    let shape = fact.shape.as_ref().and_then(|shape| shape.get(hidden..)).map(<[_]>::to_vec);
    ValueFact::new(fact.data_type, shape)
}

/// An axis counted from the front; `None` if out of range.
fn axis_from_front(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

/// A slice of a value without the scan axis, and the length of that axis.
fn remove_axis(fact: Option<&ValueFact>, axis: i64, hidden: usize) -> (ValueFact, Option<u64>) {
    let mut fact = without_elements(fact, hidden);
    let rank = fact.rank().unwrap_or(0);
    let place = axis_from_front(axis, rank);
    let length = fact.shape.as_mut().zip(place).map(|(shape, place)| shape.remove(place));
    if place.is_none() {
        fact.shape = None;
    }
    (fact, length.flatten())
}

impl GraphWalk<'_> {
    /// Walks the body of a `Loop` or `Scan`, and multiplies its cost by the number of iterations.
    pub(super) fn walk_loop(
        &mut self,
        node: &GraphNode,
        inputs: &[Option<&ValueFact>],
        scope: &EnclosingScopes,
        place: &str,
    ) -> Result<(Vec<ValueFact>, WalkResult), Error> {
        let Some(body) = node.graph("body") else {
            return Err(Error::OperatorMismatch { node: place.to_string(), why: "no body".to_string() });
        };
        let is_scan = node.kind == "Scan";
        let given = LoopInputs::from_node(node, inputs, self.opset);
        let pieces: Vec<(ValueFact, Option<u64>)> =
            given.scanned.iter().map(|(fact, axis)| remove_axis(*fact, *axis, given.hidden)).collect();
        let batch = match given.scanned.first() {
            Some((Some(fact), _)) if given.hidden > 0 => {
                fact.shape.as_ref().and_then(|shape| shape.first().copied().flatten())
            }
            _ => Some(1),
        };
        let steps = if is_scan {
            pieces.iter().find_map(|(_, length)| *length).filter(|steps| *steps <= self.limits.turns)
        } else {
            self.count_iterations(body, inputs, scope, place)
        };
        let turns = steps.zip(batch).and_then(|(steps, batch)| steps.checked_mul(batch));
        if turns.is_none() {
            self.add_note(format!(
                "{place}: its number of iterations is unknown before a run; one is counted"
            ));
        }
        let mut facts = Vec::new();
        if !is_scan {
            facts.push(ValueFact::new(Some(DataType::Int64), Some(Vec::new())));
            facts.push(ValueFact::new(Some(DataType::Bool), Some(Vec::new())));
        }
        facts.extend(given.carried.iter().map(|fact| without_elements(*fact, given.hidden)));
        facts.extend(pieces.into_iter().map(|(fact, _)| fact));
        let named = body.inputs.iter().zip(facts).map(|(input, fact)| (input.name.clone(), fact)).collect();
        let mut result = self.walk_graph(body, named, scope, place)?;
        for cost in &mut result.operators {
            cost.turns = cost.turns.saturating_mul(turns.unwrap_or(1));
        }
        let axes = node.integers("scan_output_axes").unwrap_or_default();
        let hidden = vec![batch; given.hidden];
        let made = result.outputs.iter().skip(usize::from(!is_scan)).enumerate();
        let outputs = made.map(|(at, fact)| match given.carried.get(at) {
            Some(Some(before)) => {
                let shape = fact.shape.as_ref().map(|shape| [hidden.as_slice(), shape].concat());
                merge_facts(&ValueFact::new(fact.data_type, shape), before)
            }
            Some(None) => ValueFact::new(fact.data_type, None),
            None => {
                let axis = axes.get(at - given.carried.len()).copied().unwrap_or(0);
                ValueFact::new(
                    fact.data_type,
                    fact.shape.as_ref().and_then(|shape| stack_shape(shape, axis, steps, &hidden)),
                )
            }
        });
        Ok((outputs.collect(), result))
    }

    /// Iterations of a `Loop`: its trip count, unless its condition ends it earlier.
    fn count_iterations(
        &mut self,
        body: &Graph,
        inputs: &[Option<&ValueFact>],
        scope: &EnclosingScopes,
        place: &str,
    ) -> Option<u64> {
        let most = first_integer(inputs.first().copied().flatten()).map(|count| count.max(0) as u64);
        if first_integer(inputs.get(1).copied().flatten()) == Some(0) {
            return Some(0);
        }
        let counted = most.filter(|most| *most <= self.limits.turns);
        if counted.is_some() && is_condition_always_true(body, scope) {
            return counted;
        }
        let followed = self.simulate_iterations(body, inputs, most.unwrap_or(u64::MAX), scope, place);
        match (followed.filter(|turns| *turns <= self.limits.turns), counted) {
            (Some(turns), _) => Some(turns),
            (None, Some(most)) => {
                self.add_note(format!("{place}: it may end before iteration {most}; that many are counted"));
                Some(most)
            }
            (None, None) => None,
        }
    }

    /// Counts the iterations of a `Loop` whose condition depends on counters only, up to `most`. It
    /// simulates each iteration while the condition is known and the budget lasts.
    fn simulate_iterations(
        &mut self,
        body: &Graph,
        inputs: &[Option<&ValueFact>],
        most: u64,
        scope: &EnclosingScopes,
        place: &str,
    ) -> Option<u64> {
        let number = |value: i64| ValueFact::from_integers(DataType::Int64, Vec::new(), vec![value]);
        let mut room = self.followed;
        let carried = inputs.get(2..).unwrap_or_default();
        let mut carried: Vec<ValueFact> = carried
            .iter()
            .map(|fact| ValueFact { is_constant: false, ..clone_within_budget(*fact, &mut room) })
            .collect();
        let condition = ValueFact::from_integers(DataType::Bool, Vec::new(), vec![1]);
        for turn in 0..most {
            let given = [number(i64::try_from(turn).ok()?), condition.clone()];
            let given = given.into_iter().chain(carried.iter().cloned());
            let named =
                body.inputs.iter().zip(given).map(|(input, fact)| (input.name.clone(), fact)).collect();
            let mut walk = self.fork_for_iteration();
            let result = walk.walk_graph(body, named, scope, place);
            self.simulated = walk.simulated;
            let walk_result = result.ok()?;
            if first_integer(walk_result.outputs.first())? == 0 {
                return Some(turn + 1);
            }
            carried = walk_result.outputs.iter().skip(1).take(carried.len()).cloned().collect();
        }
        Some(most)
    }
}

/// The first element of a value, if known.
fn first_integer(fact: Option<&ValueFact>) -> Option<i64> {
    fact.and_then(ValueFact::as_integers).and_then(|elements| elements.first().copied())
}

/// Whether a body's condition never ends its loop: it is passed through unchanged, or is constantly
/// true.
fn is_condition_always_true(body: &Graph, scope: &EnclosingScopes) -> bool {
    let Some(mut name) = body.outputs.first().map(|output| output.name.as_str()) else { return false };
    let given = body.inputs.get(1).map(|input| input.name.as_str());
    let is_true = |small: Option<&SmallElements>| match small {
        Some(SmallElements::Integers(values)) => values.first().is_some_and(|value| *value != 0),
        _ => false,
    };
    let makers: HashMap<&str, &GraphNode> =
        body.nodes.iter().filter_map(|node| Some((node.outputs.first()?.as_str(), node))).collect();
    let constants: HashMap<&str, &ConstantTensor> =
        body.initializers.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    // No chain of nodes is longer than the body.
    for _ in 0..=body.nodes.len() {
        if Some(name) == given {
            return true;
        }
        if let Some(tensor) = constants.get(name) {
            return is_true(tensor.small.as_ref());
        }
        let Some(maker) = makers.get(name) else {
            let around = scope.iter().rev().find_map(|facts| facts.get(name));
            return around.is_some_and(|fact| fact.is_constant && is_true(fact.small.as_ref()));
        };
        match (maker.kind.as_str(), maker.attributes.get("value"), maker.inputs.first()) {
            ("Identity", _, Some(from)) => name = from,
            ("Constant", Some(NodeAttribute::Tensor(tensor)), _) => return is_true(tensor.small.as_ref()),
            _ => return false,
        }
    }
    false
}

/// The shape of slices that are stacked along an axis.
fn stack_shape(
    shape: &[Option<u64>],
    axis: i64,
    steps: Option<u64>,
    hidden: &[Option<u64>],
) -> Option<Vec<Option<u64>>> {
    let place = axis_from_front(axis, shape.len() + 1)?;
    let mut shape = shape.to_vec();
    shape.insert(place, steps);
    Some([hidden, shape.as_slice()].concat())
}
