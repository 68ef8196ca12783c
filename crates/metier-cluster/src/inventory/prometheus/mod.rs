//! The nodes of a cluster as its Prometheus sees them: what each is made of and how busy it is.
//!
//! ```text
//! three queries (ask) → series joined by node (join, by the names in naming) → a snapshot, kept
//! warm (warm)
//! ```
//!
//! - Understood are the series of node_exporter, of EdgeCloud-Mon's char_agent and of `metier
//!   agent`, alone or together.
//! - Series are joined by the name of their node, never by their place in an answer. What is
//!   missing or too old is
//!   [`MissingFact`](metier_place::MissingFact) with the reason; it is never filled in.
//! - Each value has its age, by Prometheus' own clock: the time that was asked for less the time of
//!   the sample.
//! - A request costs no query: it reads the latest [`PrometheusSnapshot`]. One that is older than
//!   its bound is not used. A program that asks but once
//!   takes one itself ([`once`]).

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

/// Most nodes that are kept of one snapshot.
pub const MAX_NODES: usize = 1000;

/// How old a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleAges {
    /// What changes: load, disk, memory.
    pub load: Duration,
    /// What a device is; char_agent is asked every two minutes.
    pub device: Duration,
}

impl Default for SampleAges {
    fn default() -> Self {
        Self { load: Duration::from_secs(60), device: Duration::from_secs(300) }
    }
}

/// All nodes at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusSnapshot {
    /// When it was, by Prometheus' clock.
    pub at: UtcTimestamp,
    /// The nodes, by name.
    pub nodes: Vec<PrometheusNode>,
    /// What went wrong without being one node's fault.
    pub warnings: Vec<String>,
}
