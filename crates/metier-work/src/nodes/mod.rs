//! The nodes of a cluster as its Prometheus sees them: what each is made of and how busy it is.
//!
//! ```text
//! three queries (ask) → series joined by node (join, by the names in naming) → a snapshot, kept warm (warm)
//! ```
//!
//! - Understood are the series of node_exporter, of EdgeCloud-Mon's char_agent and of `metier agent`, alone or together.
//! - Series are joined by the name of their node, never by their place in an answer. What is missing or too old is
//!   [`Missing`] with the reason; it is never filled in.
//! - Each value has its age, by Prometheus' own clock: the time that was asked for less the time of the sample.
//! - A request costs no query: it reads the latest [`Snapshot`]. One that is older than its bound is not used. A program that asks but once
//!   takes one itself ([`once`]).

mod ask;
mod join;
mod naming;
#[cfg(test)]
mod tests;
mod warm;

use std::time::Duration;

use metier_types::{Bytes, Ratio, Seconds, Timestamp};

pub use ask::{ask, once};
pub use warm::{Latest, Pace, Silence, Warm};

/// Most nodes that are kept of one snapshot.
pub const MOST_NODES: usize = 1000;

/// How old a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// What changes: load, disk, memory.
    pub load: Duration,
    /// What a device is; char_agent is asked every two minutes.
    pub device: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { load: Duration::from_secs(60), device: Duration::from_secs(300) }
    }
}

/// A value, and how long before the snapshot it was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aged<T> {
    pub value: T,
    /// How old it was.
    pub age: Seconds,
}

/// What is not known of a node, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// `device`, `cpu`, `disk`, `memory`.
    pub what: &'static str,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What the cluster calls it.
    pub name: String,
    /// What sort of machine it says it is: `Computer` or `VM`.
    pub class: Option<String>,
    /// The identifier that it shows; not always its own (char_agent shows the same on each).
    pub uuid: Option<String>,
    /// The model of the device.
    pub model: Option<String>,
    pub brand: Option<String>,
    /// The instruction set, as the node says it.
    pub architecture: Option<String>,
    pub cores: Option<u32>,
    pub memory: Option<Bytes>,
    /// Share of all cores' time that is used.
    pub cpu_busy: Option<Aged<Ratio>>,
    /// Share of the root file system that is used.
    pub disk_used: Option<Aged<Ratio>>,
    /// Memory that a new program could have.
    pub memory_available: Option<Aged<Bytes>>,
    /// What is not known of it.
    pub missing: Vec<Missing>,
}

impl Node {
    /// Why something is not known, if it is not.
    pub fn why_missing(&self, what: &str) -> Option<&str> {
        self.missing.iter().find(|missing| missing.what == what).map(|missing| missing.why.as_str())
    }
}

/// All nodes at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// When it was, by Prometheus' clock.
    pub at: Timestamp,
    /// The nodes, by name.
    pub nodes: Vec<Node>,
    /// What went wrong without being one node's fault.
    pub warnings: Vec<String>,
}

impl Snapshot {
    /// The node of this name, else that of this host name.
    pub fn node(&self, name: &str, hostname: Option<&str>) -> Option<&Node> {
        let find = |wanted: &str| self.nodes.iter().find(|node| node.name.eq_ignore_ascii_case(wanted));
        find(name).or_else(|| hostname.and_then(find))
    }
}
