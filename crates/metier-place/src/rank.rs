//! The ranking: the nodes that qualify for a workload, fastest first.
//!
//! A node is excluded if Kubernetes refuses pods there, too few cores are free, its load is unknown
//! although Prometheus answered, its cost cannot be predicted, or its memory is short. Memory is
//! short if the upper end of the predicted interval, for all replicas, exceeds the unrequested or
//! the available memory. An unknown figure excludes nothing. Equal times are ordered by name, so
//! that results are reproducible.

use std::collections::BTreeMap;

use metier_types::Bytes;

use crate::node::{KubernetesNode, NodeFacts, NodeInventory};

/// Memory requests are whole mebibytes.
const MEBIBYTE: u64 = 1 << 20;

/// The workload to be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementDemand {
    pub workload: String,
    /// Cores requested by each replica; the prediction may assume more threads.
    pub threads: u32,
    /// Number of replicas, all on one node.
    pub replicas: u32,
    /// Required architecture of the image in Kubernetes' terms; `None` for any.
    pub architecture: Option<String>,
    /// Labels that the node must have.
    pub labels: BTreeMap<String, String>,
}

impl PlacementDemand {
    /// A demand of one replica with one core on any node.
    pub fn single(workload: impl Into<String>) -> Self {
        Self {
            workload: workload.into(),
            threads: 1,
            replicas: 1,
            architecture: None,
            labels: BTreeMap::new(),
        }
    }
}

/// Predicted cost of a node, as the ranking uses it.
pub trait NodeCost {
    /// Seconds of one inference.
    fn seconds(&self) -> f64;
    /// Upper end of one replica's predicted memory in bytes, if known.
    fn memory_high(&self) -> Option<f64>;
}

/// A node with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedNode<'a, C> {
    pub node: &'a NodeFacts,
    /// Predicted cost. For excluded nodes it is present only if memory is short, then together with
    /// `obstacle`.
    pub cost: Option<C>,
    /// Reason for the exclusion.
    pub obstacle: Option<String>,
    /// Whether memory is predicted but the node has no figure to compare it with.
    pub is_memory_unknown: bool,
}

/// All nodes: those that qualify by predicted time, then the others by name.
pub fn rank<'a, C: NodeCost>(
    inventory: &'a NodeInventory,
    demand: &PlacementDemand,
    predict: &dyn Fn(&NodeFacts) -> Result<C, String>,
) -> Vec<RankedNode<'a, C>> {
    let judge = |node| {
        let (cost, obstacle) = match exclusion_reason(inventory, node, demand) {
            Some(why) => (None, Some(why)),
            None => match predict(node) {
                Err(why) => (None, Some(why)),
                Ok(cost) => {
                    let obstacle = short_memory(node, demand, &cost);
                    (Some(cost), obstacle)
                }
            },
        };
        let is_predicted = cost.as_ref().is_some_and(|cost| cost.memory_high().is_some());
        let is_known = node.free_memory().is_some() || node.memory_available().is_some();
        RankedNode { node, cost, obstacle, is_memory_unknown: is_predicted && !is_known }
    };
    let mut ranking: Vec<RankedNode<'a, C>> = inventory.nodes.iter().map(judge).collect();
    let time = |node: &RankedNode<'a, C>| match (&node.obstacle, &node.cost) {
        (None, Some(cost)) => Some(cost.seconds()),
        _ => None,
    };
    ranking.sort_by(|ranked_node, other| {
        let (first, second) = (time(ranked_node), time(other));
        first
            .is_none()
            .cmp(&second.is_none())
            .then_with(|| first.unwrap_or_default().total_cmp(&second.unwrap_or_default()))
            .then_with(|| ranked_node.node.name.cmp(&other.node.name))
    });
    ranking
}

/// Reason to exclude a node before any prediction.
fn exclusion_reason(inventory: &NodeInventory, node: &NodeFacts, demand: &PlacementDemand) -> Option<String> {
    let kubernetes = match &node.kubernetes {
        None if inventory.has_kubernetes => return Some("the cluster has no node of this name".to_string()),
        known => known.as_ref(),
    };
    kubernetes
        .and_then(unschedulable_reason)
        .or_else(|| mismatch(node, demand))
        .or_else(|| short_cores(kubernetes?, demand))
        .or_else(|| unknown_load(inventory, node))
}

fn unschedulable_reason(node: &KubernetesNode) -> Option<String> {
    let is_linux = node.system.is_empty() || node.system == "linux";
    node.obstacle.clone().or_else(|| (!is_linux).then(|| format!("it runs {}; want linux", node.system)))
}

fn mismatch(node: &NodeFacts, demand: &PlacementDemand) -> Option<String> {
    let own = node.architecture().unwrap_or_default();
    if let Some(text) = demand.architecture.as_ref().filter(|name_text| *name_text != own) {
        let own = if own.is_empty() { "of an unknown architecture" } else { own };
        return Some(format!("it is {own}; want {text}"));
    }
    let lacking = demand.labels.iter().find(|(key, value)| node.label(key) != Some(value));
    lacking.map(|(key, value)| format!("it does not have the label {key}={value}"))
}

fn short_cores(node: &KubernetesNode, demand: &PlacementDemand) -> Option<String> {
    let cores = f64::from(demand.threads) * f64::from(demand.replicas);
    let free = node.free_cores.filter(|free| *free < cores)?;
    let all = node.cores.unwrap_or(free);
    Some(format!("{cores} cores are wanted and {free:.2} of {all:.2} are free"))
}

fn unknown_load(inventory: &NodeInventory, node: &NodeFacts) -> Option<String> {
    if !inventory.has_prometheus || node.cpu_busy().is_some() {
        return None;
    }
    Some(match &node.prometheus {
        None => "Prometheus knows no node of this name, so its load is not known".to_string(),
        Some(known) => {
            let why = known.why_missing("cpu").unwrap_or("no series tells it");
            format!("its load is not known: {why}")
        }
    })
}

fn short_memory(node: &NodeFacts, demand: &PlacementDemand, cost: &impl NodeCost) -> Option<String> {
    let needed = requested_memory(cost.memory_high()?).get().saturating_mul(u64::from(demand.replicas));
    let needed = Bytes(needed);
    let of = |figure: Option<Bytes>, words: &str| {
        let figure = figure.filter(|figure| needed > *figure)?;
        Some(format!("it may need {needed} of memory and {figure} are {words}"))
    };
    of(node.free_memory(), "free").or_else(|| of(node.memory_available(), "available now"))
}

/// Memory request that is sufficient at the upper end of the prediction.
pub fn requested_memory(high: f64) -> Bytes {
    let bytes = high.clamp(1.0, 1e18) as u64;
    Bytes(bytes.div_ceil(MEBIBYTE) * MEBIBYTE)
}
