//! Partitions a graph into parts that run one after the other, on one device or on several.
//!
//! The running operators have one order, that of the file; a cut is a position in it. Values that
//! are produced before a cut and consumed after it cross the cut. Operators that only compute
//! constants (`Constant`, `ConstantOfShape`, reshapes of weights) are not in the order. Each part
//! includes the ones it needs, and only its own weights, so the parts together are about as large
//! as the whole.
//!
//! [`OperatorChain`] provides the order and the crossings of each cut, [`slice_range`] writes one
//! part as a file, and [`solver`] finds the fastest cuts and devices.

mod part_writer;
pub mod solver;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::analysis::{
    GraphAnalysis, OperatorCost, ShapeBindings, ValueDescription, collect_input_names, infer_facts,
    sum_by_kind,
};
use crate::graph::{Graph, OnnxFile};
use crate::shape::ValueFact;
use crate::{Error, OnnxLimits};

pub use part_writer::{ExternalWeightsFile, GraphPart, WeightSegment};

/// The running operators of a graph in order, and the values between them.
#[derive(Debug)]
pub struct OperatorChain<'a> {
    bytes: &'a [u8],
    model: &'a OnnxFile,
    /// Inferred facts of its values.
    facts: BTreeMap<String, ValueFact>,
    /// Indices of the running operators.
    steps: Vec<usize>,
    /// The operator that produces a value.
    maker: BTreeMap<&'a str, usize>,
    /// Position in `steps` of a value's last consumer; past the end for outputs.
    last: BTreeMap<&'a str, usize>,
    /// Whether all sizes are fixed, because no input is open.
    is_closed: bool,
    /// Inputs with fixed sizes.
    bound: BTreeSet<String>,
    /// Stem of the part file names.
    stem: String,
}

/// Largest number of values over all cuts; real graphs have a few at each.
const MAX_LISTED_VALUES: u64 = 10_000_000;

/// Rejects a graph with too many values over its cuts.
fn check_listed_values(graph: &Graph, steps: &[usize], last: &BTreeMap<&str, usize>) -> Result<(), Error> {
    let outputs = steps.iter().enumerate().flat_map(|(position, index)| {
        graph.nodes[*index].outputs.iter().map(move |name| (name.as_str(), position))
    });
    let inputs = graph.inputs.iter().map(|input| (input.name.as_str(), 0));
    let places = |(name, position): (&str, usize)| {
        last.get(name).map_or(0, |last| (*last).min(steps.len()).saturating_sub(position) as u64)
    };
    let got = outputs.chain(inputs).fold(0u64, |sum, value| sum.saturating_add(places(value)));
    if got > MAX_LISTED_VALUES {
        let what = "the number of values over all places to cut a graph at";
        return Err(Error::LimitExceeded { what, got, most: MAX_LISTED_VALUES });
    }
    Ok(())
}

/// The values that cross a cut between two operators.
#[derive(Debug, Clone, PartialEq)]
pub struct CutCrossing {
    pub place: usize,
    /// Names of the values.
    pub values: Vec<String>,
    /// Their size; `None` if one is unknown.
    pub bytes: Option<u64>,
}

impl<'a> OperatorChain<'a> {
    /// Determines the order of a graph's operators.
    pub fn new(
        bytes: &'a [u8],
        model: &'a OnnxFile,
        bindings: &ShapeBindings,
        limits: &OnnxLimits,
    ) -> Result<Self, Error> {
        let facts = infer_facts(model, bindings, limits)?;
        let graph = &model.graph;
        let is_constant = |name: &str| facts.get(name).is_some_and(|fact| fact.is_constant);
        let steps: Vec<usize> = (0..graph.nodes.len())
            .filter(|index| {
                let outputs = &graph.nodes[*index].outputs;
                !outputs.iter().filter(|name| !name.is_empty()).all(|name| is_constant(name))
            })
            .collect();
        let mut maker = BTreeMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            node.outputs.iter().filter(|name| !name.is_empty()).for_each(|name| {
                maker.insert(name.as_str(), index);
            });
        }
        let mut last = BTreeMap::new();
        for (position, index) in steps.iter().enumerate() {
            let mut names = Vec::new();
            collect_input_names(&graph.nodes[*index], &mut names);
            for name in names {
                last.insert(name, position);
            }
        }
        for output in &graph.outputs {
            last.insert(output.name.as_str(), steps.len());
        }
        check_listed_values(graph, &steps, &last)?;
        let named = bindings.resolve_dimensions(&graph.inputs);
        let is_bound = |input: &&crate::ValueInfo| {
            let is_given = |dim: &crate::TensorDimension| match dim {
                crate::TensorDimension::Known(_) => true,
                crate::TensorDimension::Named(name) => named.contains_key(name),
                crate::TensorDimension::Unknown => false,
            };
            bindings.shapes.contains_key(&input.name)
                || input.shape.as_ref().is_some_and(|shape| shape.iter().all(is_given))
        };
        let bound: BTreeSet<String> =
            graph.inputs.iter().filter(is_bound).map(|input| input.name.clone()).collect();
        let is_closed = bound.len() == graph.inputs.len();
        let stem = graph.name.clone();
        Ok(Self { bytes, model, facts, steps, maker, last, is_closed, bound, stem })
    }

    /// Names the part files `STEM.1.onnx`, `STEM.2.onnx`, …. Weights that are external in the whole
    /// graph stay external, in `STEM.1.onnx.data` and so on.
    pub fn with_file_stem(self, stem: &str) -> Self {
        Self { stem: stem.to_string(), ..self }
    }

    /// Number of running operators.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Indices of the running operators in order, matching the main graph's in
    /// [`crate::GraphAnalysis::operators`].
    pub fn operator_indices(&self) -> &[usize] {
        &self.steps
    }

    /// For each operator of the order its range in [`GraphAnalysis::operators`]: itself, or the
    /// operators of its subgraphs.
    pub fn cost_ranges(&self, whole: &GraphAnalysis) -> Vec<Range<usize>> {
        let makers: BTreeMap<&str, usize> = whole
            .operators
            .iter()
            .enumerate()
            .filter(|(_, cost)| cost.inside.is_empty())
            .flat_map(|(place, cost)| cost.outputs.iter().map(move |value| (value.name.as_str(), place)))
            .collect();
        let mut at = 0;
        let mut all = Vec::with_capacity(self.steps.len());
        for index in &self.steps {
            let node = &self.model.graph.nodes[*index];
            let outputs = node.outputs.iter().filter(|name| !name.is_empty());
            let own = outputs.filter_map(|name| makers.get(name.as_str())).find(|place| **place >= at);
            let range = match own {
                Some(place) => *place..place + 1,
                None => {
                    let called = node.display_name(*index);
                    let is_inside = |cost: &&OperatorCost| {
                        let rest = cost.inside.strip_prefix(&called);
                        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" / "))
                    };
                    at..at + whole.operators[at..].iter().take_while(is_inside).count()
                }
            };
            at = range.end;
            all.push(range);
        }
        all
    }

    /// Analysis of a part, derived from the whole's: sizes are those of the whole graph.
    /// Characteristics by SOPRANO's rules are omitted.
    pub fn part_analysis(
        &self,
        whole: &GraphAnalysis,
        costs: &[Range<usize>],
        part: &GraphPart,
    ) -> GraphAnalysis {
        let stretch = costs.get(part.range.clone()).unwrap_or_default();
        let ends = stretch.first().map(|first| first.start).zip(stretch.last().map(|last| last.end));
        let operators = ends.and_then(|(from, to)| whole.operators.get(from..to)).unwrap_or_default();
        let value = |name: &String| {
            ValueDescription::from_fact(name, self.facts.get(name.as_str()).unwrap_or(&ValueFact::default()))
        };
        let kinds = sum_by_kind(operators);
        GraphAnalysis {
            schema: whole.schema.clone(),
            name: format!("{} {}..{}", whole.name, part.range.start, part.range.end),
            producer: whole.producer.clone(),
            opset: whole.opset,
            inputs: part.inputs.iter().map(value).collect(),
            outputs: part.outputs.iter().map(value).collect(),
            operators_in_file: part.operators as u64,
            parameters: part.weights.parameters,
            weight_bytes: metier_types::Bytes(part.weights.bytes),
            external_files: BTreeSet::new(),
            multiply_adds: kinds.values().fold(0, |sum, kind| sum.saturating_add(kind.multiply_adds)),
            operators_without_cost: operators.iter().filter(|cost| cost.multiply_adds.is_none()).count()
                as u64,
            peak_activation_bytes: None,
            kinds,
            network_type: whole.network_type,
            characteristics: Default::default(),
            characteristics_by_rules: None,
            notes: Vec::new(),
            operators: operators.to_vec(),
        }
    }

    /// Bytes of the graph's inputs, and of its outputs; `None` if a size is unknown.
    pub fn edge_bytes(&self) -> [Option<u64>; 2] {
        let graph = &self.model.graph;
        [&graph.inputs, &graph.outputs].map(|values| {
            values.iter().try_fold(0u64, |sum, value| {
                sum.checked_add(self.facts.get(&value.name).and_then(ValueFact::bytes)?)
            })
        })
    }

    fn is_constant(&self, name: &str) -> bool {
        self.facts.get(name).is_some_and(|fact| fact.is_constant)
    }

    /// Crossings of every possible cut, without the two ends.
    pub fn crossings(&self) -> Vec<CutCrossing> {
        let nodes = &self.model.graph.nodes;
        let mut alive: BTreeSet<&str> = self
            .model
            .graph
            .inputs
            .iter()
            .map(|input| input.name.as_str())
            .filter(|name| self.last.contains_key(name))
            .collect();
        let mut all = Vec::new();
        for (position, index) in self.steps.iter().enumerate() {
            let outputs = nodes[*index].outputs.iter().map(String::as_str);
            alive.extend(outputs.filter(|name| self.last.contains_key(name) && !self.is_constant(name)));
            let mut names = Vec::new();
            collect_input_names(&nodes[*index], &mut names);
            let ended = |name: &&str| self.last.get(name).is_some_and(|last| *last == position);
            names.into_iter().filter(ended).for_each(|name| {
                alive.remove(name);
            });
            if position + 1 < self.steps.len() {
                let bytes = alive.iter().try_fold(0u64, |sum, name| {
                    sum.checked_add(self.facts.get(*name).and_then(ValueFact::bytes)?)
                });
                all.push(CutCrossing {
                    place: position + 1,
                    values: alive.iter().map(ToString::to_string).collect(),
                    bytes,
                });
            }
        }
        all
    }

    /// The cut right after the operator that produces a value.
    pub fn place_after(&self, value: &str) -> Option<usize> {
        let index = self.maker.get(value)?;
        self.steps.iter().position(|step| step == index).map(|position| position + 1)
    }

    /// The parts between cuts, which are given in ascending order.
    pub fn write_parts(&self, cuts: &[usize]) -> Result<Vec<GraphPart>, Error> {
        let ends = || cuts.iter().copied().chain([self.steps.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        for (from, to) in starts.clone().zip(ends()) {
            if from >= to {
                return Err(Error::OperatorMismatch {
                    node: "split".to_string(),
                    why: format!(
                        "a cut at place {to} after one at {from}; want ascending places below {}",
                        self.steps.len()
                    ),
                });
            }
        }
        let ranges = starts.zip(ends()).enumerate();
        ranges.map(|(number, (from, to))| part_writer::write_part(self, from..to, number + 1)).collect()
    }
}
