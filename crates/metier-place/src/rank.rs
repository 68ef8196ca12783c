//! The one ranking: which nodes can take a workload, fastest first.
//!
//! A node cannot take it where Kubernetes refuses it, where too few cores are free, where its load
//! is not known although Prometheus answered, where nothing can be predicted, or where memory is
//! short. Memory is short where the upper end of the prediction, for all replicas, exceeds what no
//! pod has requested or what is available now; a figure that is not known excludes nothing. Equal
//! times are ordered by name, so that the same question has the same answer.

use std::collections::BTreeMap;

use metier_types::Bytes;

use crate::node::{KubernetesNode, NodeFacts, NodeInventory};

/// Requests are whole mebibytes.
const MEBIBYTE: u64 = 1 << 20;

/// What is to be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementDemand {
    pub workload: String,
    /// Cores that each replica requests; what is predicted may be for more threads.
    pub threads: u32,
    /// How many replicas, all on one node.
    pub replicas: u32,
    /// The architecture that its image is built for, in Kubernetes' words, where only one will do.
    pub architecture: Option<String>,
    /// Labels that the node must have.
    pub labels: BTreeMap<String, String>,
}

impl PlacementDemand {
    /// One replica that requests one core, on whatever node.
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

/// What the ranking reads of a prediction for a node.
pub trait NodeCost {
    /// Seconds of one inference.
    fn seconds(&self) -> f64;
    /// Upper end of the memory that one replica needs, in bytes, where it is predicted.
    fn memory_high(&self) -> Option<f64>;
}

/// A node, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedNode<'a, C> {
    pub node: &'a NodeFacts,
    /// What was predicted there. It is kept where memory is short, and there only beside an
    /// obstacle.
    pub cost: Option<C>,
    /// Why it is left out.
    pub obstacle: Option<String>,
    /// Whether memory is predicted and neither figure of the node's is known to compare it with.
    pub is_memory_unknown: bool,
}

/// All nodes: those that can take the workload by predicted time, then the others by name.
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

/// Why a node does not come into question, whatever is predicted.
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

/// What is requested so that it fits also where the prediction is as low as its interval allows.
pub fn requested_memory(high: f64) -> Bytes {
    let bytes = high.clamp(1.0, 1e18) as u64;
    Bytes(bytes.div_ceil(MEBIBYTE) * MEBIBYTE)
}
