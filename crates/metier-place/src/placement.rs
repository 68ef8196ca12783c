//! The placement answer `metier.placement/1`: every node with its prediction or the reason why it
//! has none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metier_types::{Bytes, Passport, PassportUse, Prediction};
use schemars::JsonSchema;
use serde::Serialize;

use crate::node::{NodeFacts, NodeInventory};
use crate::rank::{NodeCost, PlacementDemand, RankedNode, rank};

/// Largest number of reasons joined if no node qualifies.
const MAX_REASONS: usize = 5;
/// Largest number of Prometheus-only nodes listed by name.
const MAX_NAMED_NODES: usize = 8;

/// The passport used for a node.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedPassport {
    pub passport: Arc<Passport>,
    /// Whether only the node's cores and instruction set are known.
    pub is_generic: bool,
}

/// Predicted cost of a graph on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementEstimate {
    /// Seconds of one inference.
    pub latency: Prediction,
    pub memory: Prediction,
    /// Threads assumed by both predictions.
    pub threads: u32,
    /// Passport used for the predictions.
    pub source: ResolvedPassport,
}

impl NodeCost for PlacementEstimate {
    fn seconds(&self) -> f64 {
        self.latency.value()
    }

    fn memory_high(&self) -> Option<f64> {
        Some(self.memory.interval().high())
    }
}

/// Result for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementStanding {
    /// The selected node.
    Chosen,
    /// The node qualifies, but others are faster.
    Possible,
    /// The node does not qualify, or its cost is unknown.
    LeftOut,
}

/// A candidate node.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlacementCandidate {
    /// Name of the node.
    pub device: String,
    /// Result for the node.
    pub status: PlacementStanding,
    /// Reason for the result.
    pub because: String,
    /// Predicted seconds of one inference.
    pub prediction: Option<Prediction>,
    /// Predicted memory in bytes.
    pub memory: Option<Prediction>,
    /// Threads assumed by both predictions.
    pub threads: Option<u32>,
    /// Passport used for the predictions.
    pub passport: Option<PassportUse>,
    /// Architecture.
    pub architecture: String,
    /// Cores without requests.
    pub free_cores: Option<f64>,
    /// Memory without requests.
    pub free_memory_bytes: Option<Bytes>,
    /// The hostname label that pods select the node by.
    #[serde(skip)]
    pub hostname: Option<String>,
}

/// Assignment of a workload to a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkloadAssignment {
    /// Name of the workload.
    pub workload: String,
    /// Name of the device.
    pub device: String,
    /// Number of replicas.
    pub replicas: u32,
    /// Predicted seconds of one inference.
    pub prediction: Prediction,
    /// Predicted memory in bytes.
    pub memory: Prediction,
}

/// A workload without a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Unplaced")]
pub struct UnplacedWorkload {
    /// Name of the workload.
    pub workload: String,
    /// Reason.
    pub because: String,
}

/// Change made in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Applied")]
pub struct AppliedDeployment {
    /// Namespace of the Deployment.
    pub namespace: String,
    /// Name of the Deployment.
    pub name: String,
    /// `created`, `replaced`, `restored` or `removed`.
    pub action: &'static str,
    /// Whether all replicas are available.
    pub is_available: bool,
    /// Reason why replicas are unavailable.
    pub because: Option<String>,
}

/// Result of a placement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Placement {
    /// `metier.placement/1`.
    pub schema: &'static str,
    /// `optimal`: all candidates were compared; `infeasible`: no node qualifies.
    pub status: &'static str,
    /// Predicted seconds of one inference on the selected node.
    pub objective: Option<f64>,
    /// Lower bound of the objective over all choices, according to the predictor.
    pub bound: Option<f64>,
    /// Relative gap between objective and bound.
    pub gap_ratio: Option<f64>,
    /// Duration of the placement in seconds.
    pub seconds: f64,
    /// Assigned workloads.
    pub assignments: Vec<WorkloadAssignment>,
    /// Workloads without a device.
    pub unplaced: Vec<UnplacedWorkload>,
    /// All nodes: those that qualify by predicted time, then the others by name.
    pub candidates: Vec<PlacementCandidate>,
    /// Notes about data that could not be read.
    pub notes: Vec<String>,
    /// Change made in the cluster, if any.
    pub applied: Option<AppliedDeployment>,
}

/// Ranks the nodes and selects the first.
pub fn place(
    inventory: &NodeInventory,
    demand: &PlacementDemand,
    predict: &dyn Fn(&NodeFacts) -> Result<PlacementEstimate, String>,
) -> Placement {
    let began = Instant::now();
    let ranking = rank(inventory, demand, predict);
    Placement::new(inventory, demand, &ranking, began.elapsed())
}

impl Placement {
    /// Builds the answer from a ranking. Nodes known only to Prometheus are listed in the notes.
    pub fn new(
        inventory: &NodeInventory,
        demand: &PlacementDemand,
        ranking: &[RankedNode<'_, PlacementEstimate>],
        took: Duration,
    ) -> Self {
        let is_of_cluster =
            |node: &&RankedNode<_>| node.node.kubernetes.is_some() || !inventory.has_kubernetes;
        let (of_cluster, strangers): (Vec<_>, Vec<_>) = ranking.iter().partition(is_of_cluster);
        let mut candidates: Vec<PlacementCandidate> = of_cluster.into_iter().map(candidate).collect();
        let able =
            candidates.iter().take_while(|candidate| candidate.status == PlacementStanding::Possible).count();
        let (able, others) = candidates.split_at_mut(able);
        explain_ranking(able);
        let first = able.first();
        let best = first.and_then(|candidate| Some(candidate.prediction.as_ref()?.value()));
        let assignment = |candidate: &PlacementCandidate| {
            Some(WorkloadAssignment {
                workload: demand.workload.clone(),
                device: candidate.device.clone(),
                replicas: demand.replicas,
                prediction: candidate.prediction.clone()?,
                memory: candidate.memory.clone()?,
            })
        };
        let unplaced =
            || UnplacedWorkload { workload: demand.workload.clone(), because: infeasible_reason(others) };
        let mut notes = inventory.notes.clone();
        notes.extend(foreign_node_notes(&strangers));
        Self {
            schema: "metier.placement/1",
            status: if best.is_some() { "optimal" } else { "infeasible" },
            objective: best,
            bound: best,
            gap_ratio: best.map(|_| 0.0),
            seconds: took.as_secs_f64(),
            assignments: first.and_then(assignment).into_iter().collect(),
            unplaced: first.is_none().then(unplaced).into_iter().collect(),
            candidates,
            notes,
            applied: None,
        }
    }

    pub fn chosen(&self) -> Option<&PlacementCandidate> {
        self.candidates.iter().find(|candidate| candidate.status == PlacementStanding::Chosen)
    }
}

fn candidate(ranked_node: &RankedNode<'_, PlacementEstimate>) -> PlacementCandidate {
    let (node, estimate) = (ranked_node.node, ranked_node.cost.as_ref());
    let kubernetes = node.kubernetes.as_ref();
    let used = estimate.filter(|estimate| !estimate.source.is_generic);
    let because = match (&ranked_node.obstacle, ranked_node.is_memory_unknown) {
        (Some(why), _) => why.clone(),
        (None, true) => "how much memory it has free is not known".to_string(),
        (None, false) => String::new(),
    };
    PlacementCandidate {
        device: node.name.clone(),
        status: match ranked_node.obstacle {
            None => PlacementStanding::Possible,
            Some(_) => PlacementStanding::LeftOut,
        },
        because,
        prediction: estimate.map(|estimate| estimate.latency.clone()),
        memory: estimate.map(|estimate| estimate.memory.clone()),
        threads: estimate.map(|estimate| estimate.threads),
        passport: used.map(|estimate| PassportUse::without_figures(&estimate.source.passport)),
        architecture: node.architecture().unwrap_or_default().to_string(),
        free_cores: kubernetes.and_then(|node| node.free_cores),
        free_memory_bytes: node.free_memory(),
        hostname: node.hostname().map(str::to_string),
    }
}

/// Adds to each qualifying node how it compares with the others; the first is selected. The earlier
/// reason follows after that.
fn explain_ranking(able: &mut [PlacementCandidate]) {
    let of = |candidate: &PlacementCandidate| {
        candidate.prediction.as_ref().map_or((f64::INFINITY, f64::INFINITY), |prediction| {
            (prediction.value(), prediction.interval().low())
        })
    };
    let values: Vec<(f64, f64)> = able.iter().map(of).collect();
    let Some((first, rest)) = able.split_first_mut() else { return };
    let high = first.prediction.as_ref().map_or(0.0, |prediction| prediction.interval().high());
    let close = values.iter().skip(1).filter(|(_, low)| *low <= high).count();
    first.status = PlacementStanding::Chosen;
    let compared = match (rest.len(), close) {
        (0, _) => "the only node that can take it".to_string(),
        (_, 0) => "the lowest predicted time, and no other interval reaches it".to_string(),
        (_, 1) => {
            "the lowest predicted time; the interval of one other node reaches it, so that may be as fast"
                .to_string()
        }
        (_, close) => format!(
            "the lowest predicted time; the intervals of {close} other nodes reach it, so one of them may be as fast"
        ),
    };
    put_before(&mut first.because, compared);
    for (placement_candidate, (value, _)) in rest.iter_mut().zip(values.iter().skip(1)) {
        let compared = match values[0].0 {
            best if best > 0.0 && *value > best => {
                format!("{:.2} times as long as on {}", value / best, first.device)
            }
            _ => format!("the same time as on {}, which is first by name", first.device),
        };
        put_before(&mut placement_candidate.because, compared);
    }
}

fn put_before(because: &mut String, first: String) {
    *because = if because.is_empty() { first } else { format!("{first}; {because}") };
}

/// Reason why no node qualifies.
fn infeasible_reason(others: &[PlacementCandidate]) -> String {
    let why: Vec<String> = others
        .iter()
        .take(MAX_REASONS)
        .map(|candidate| format!("{}: {}", candidate.device, candidate.because))
        .collect();
    match others.len() {
        0 => "the cluster has no nodes".to_string(),
        count => format!("none of {count} nodes can take it ({})", why.join("; ")),
    }
}

fn foreign_node_notes(strangers: &[&RankedNode<'_, PlacementEstimate>]) -> Vec<String> {
    let note =
        |node: &&RankedNode<_>| format!("{}: left out, the cluster has no node of this name", node.node.name);
    let mut notes: Vec<String> = strangers.iter().take(MAX_NAMED_NODES).map(note).collect();
    if strangers.len() > MAX_NAMED_NODES {
        let more = strangers.len() - MAX_NAMED_NODES;
        notes.push(format!("{more} more are left out that the cluster does not have"));
    }
    notes
}
