//! The answer: `metier.placement/1`, every node with its prediction or the reason why there is
//! none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metier_types::{Bytes, Passport, PassportUse, Prediction};
use schemars::JsonSchema;
use serde::Serialize;

use crate::node::{NodeFacts, NodeInventory};
use crate::rank::{NodeCost, PlacementDemand, RankedNode, rank};

/// Most reasons that are joined where nothing can be placed.
const MAX_REASONS: usize = 5;
/// Most nodes that only Prometheus knows, that are named.
const MAX_NAMED_NODES: usize = 8;

/// The passport by which a node is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedPassport {
    pub passport: Arc<Passport>,
    /// Whether nothing is known of the node but its cores and instruction set.
    pub is_generic: bool,
}

/// What a node would do with a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementEstimate {
    /// Seconds of one inference.
    pub latency: Prediction,
    pub memory: Prediction,
    /// Threads that both are for.
    pub threads: u32,
    /// Where this comes from.
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

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementStanding {
    /// It was chosen.
    Chosen,
    /// It could take it, and others are faster.
    Possible,
    /// It cannot, or it is not known what it would do.
    LeftOut,
}

/// A node that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlacementCandidate {
    /// Its name.
    pub device: String,
    /// What became of it.
    pub status: PlacementStanding,
    /// Why.
    pub because: String,
    /// Seconds of one inference there.
    pub prediction: Option<Prediction>,
    /// Bytes of memory there.
    pub memory: Option<Prediction>,
    /// Threads that both are for.
    pub threads: Option<u32>,
    /// The passport that this comes from.
    pub passport: Option<PassportUse>,
    /// Its architecture.
    pub architecture: String,
    /// Cores that nobody has asked for.
    pub free_cores: Option<f64>,
    /// Memory that nobody has asked for.
    pub free_memory_bytes: Option<Bytes>,
    /// The name by which pods are sent there.
    #[serde(skip)]
    pub hostname: Option<String>,
}

/// A workload on a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkloadAssignment {
    /// Which workload.
    pub workload: String,
    /// Which device.
    pub device: String,
    /// How many of it.
    pub replicas: u32,
    /// Seconds of one inference there.
    pub prediction: Prediction,
    /// Bytes of memory there.
    pub memory: Prediction,
}

/// A workload that has no device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Unplaced")]
pub struct UnplacedWorkload {
    /// Which workload.
    pub workload: String,
    /// Why.
    pub because: String,
}

/// What was written to the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Applied")]
pub struct AppliedDeployment {
    /// The namespace.
    pub namespace: String,
    /// The Deployment's name.
    pub name: String,
    /// `created`, `replaced`, `restored` or `removed`.
    pub action: &'static str,
    /// Whether all of it is available.
    pub is_available: bool,
    /// Why it is not.
    pub because: Option<String>,
}

/// Where it goes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Placement {
    /// `metier.placement/1`.
    pub schema: &'static str,
    /// `optimal`: all candidates were compared; `infeasible`: none can take it.
    pub status: &'static str,
    /// The predicted time of the chosen one, in seconds.
    pub objective: Option<f64>,
    /// No choice is better than this, as far as the predictor knows.
    pub bound: Option<f64>,
    /// How far the objective may be from the best.
    pub gap_ratio: Option<f64>,
    /// How long choosing took.
    pub seconds: f64,
    /// What goes where.
    pub assignments: Vec<WorkloadAssignment>,
    /// What goes nowhere.
    pub unplaced: Vec<UnplacedWorkload>,
    /// Every node: those that can take it by time, then the others by name.
    pub candidates: Vec<PlacementCandidate>,
    /// What could not be looked at.
    pub notes: Vec<String>,
    /// What was written, where something was.
    pub applied: Option<AppliedDeployment>,
}

/// Ranks the nodes and chooses the first.
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
    /// The answer that a ranking gives. Nodes that only Prometheus knows are named in the notes.
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

/// Says of each that can take it how it compares; the first is chosen. What was said of it before
/// stays behind that.
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
        (_, 1) => "the lowest predicted time; the interval of one other reaches it, which may be as fast"
            .to_string(),
        (_, close) => format!(
            "the lowest predicted time; the intervals of {close} others reach it, so one of them may be as fast"
        ),
    };
    put_before(&mut first.because, compared);
    for (placement_candidate, (value, _)) in rest.iter_mut().zip(values.iter().skip(1)) {
        let compared = match values[0].0 {
            best if best > 0.0 && *value > best => {
                format!("{:.2} times as long as on {}", value / best, first.device)
            }
            _ => format!("the same time as on {}, which comes first by name", first.device),
        };
        put_before(&mut placement_candidate.because, compared);
    }
}

fn put_before(because: &mut String, first: String) {
    *because = if because.is_empty() { first } else { format!("{first}; {because}") };
}

/// Why none of the nodes can take it.
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
