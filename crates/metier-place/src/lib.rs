//! Ranks the nodes of a cluster for one workload, with a reason for each.
//!
//! [`node`] has the facts about nodes, [`rank`] filters and orders them, and [`placement`] is the
//! answer as `metier.placement/1`. The caller passes the cost prediction as a closure: this crate
//! does no I/O and predicts nothing.

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
