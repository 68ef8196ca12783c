//! Ranks the nodes of a cluster for one workload, and explains each.
//!
//! [`node`] holds what is known of nodes, [`rank`] decides which of them can take a workload and
//! orders them, and [`placement`] is the answer as `metier.placement/1`. What a node would do with
//! the workload is a closure's business: this crate does no input or output and predicts nothing.

pub mod node;
pub mod placement;
pub mod rank;

pub use node::{AgedValue, KubernetesNode, MissingFact, NodeFacts, NodeInventory, PrometheusNode};
pub use placement::{
    AppliedDeployment, Placement, PlacementCandidate, PlacementEstimate, PlacementStanding, ResolvedPassport,
    place,
};
pub use rank::{NodeCost, PlacementDemand, RankedNode, rank, requested_memory};

#[cfg(test)]
mod tests;
