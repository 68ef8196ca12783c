//! The nodes of a cluster from its Prometheus: hardware and load.
//!
//! ```text
//! three queries (queries) → series joined by node (join, node_naming) → snapshot (snapshot_cache)
//! ```
//!
//! - Supported series are those of node_exporter, of EdgeCloud-Mon's char_agent and of `metier
//!   agent`, alone or together.
//! - Series are joined by the name of their node, never by their position in a response. A missing
//!   or outdated value becomes a [`MissingFact`](metier_place::MissingFact) with the reason; it is
//!   never estimated.
//! - Each value has its age by Prometheus' clock: the evaluation time minus the sample time.
//! - A request sends no query: it reads the latest [`PrometheusSnapshot`]. A snapshot older than
//!   its limit is not used. A program with a single request takes its own snapshot ([`once`]).

mod join;
mod node_naming;
mod queries;
mod snapshot_cache;
#[cfg(test)]
mod tests;

use std::time::Duration;

use metier_place::PrometheusNode;
use metier_types::UtcTimestamp;

pub use queries::{take_snapshot, take_snapshot_blocking};
pub use snapshot_cache::{LatestNodes, NodesUnknown, SnapshotCache, SnapshotPace};

/// Most nodes of one snapshot.
pub const MAX_NODES: usize = 1000;

/// Largest ages of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleAgeLimits {
    /// Changing values: load, disk, memory.
    pub load: Duration,
    /// Device properties; char_agent is scraped every two minutes.
    pub device: Duration,
}

impl Default for SampleAgeLimits {
    fn default() -> Self {
        Self { load: Duration::from_secs(60), device: Duration::from_secs(300) }
    }
}

/// State of all nodes at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusSnapshot {
    /// Time of the snapshot, by Prometheus' clock.
    pub at: UtcTimestamp,
    /// The nodes, by name.
    pub nodes: Vec<PrometheusNode>,
    /// Problems that do not belong to one node.
    pub warnings: Vec<String>,
}
