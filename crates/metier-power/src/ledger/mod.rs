//! The power of a node over time and in parts: what was measured, what was estimated, what idles and who takes the rest.
//!
//! The measured power is shared where there is any, else the estimated. Every entry adds up: idle + parts + others + unseen is the node's power within rounding
//! ([`crate::share`]). Who works is told by time on processors, the one thing that is known of every process.
//!
//! Bounded: so many entries, so many parts of an entry; the oldest go.

mod idle;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;
use std::hash::Hash;

use crate::share::share;
pub use idle::IdleMethod;
pub use view::{EstimateComparison, LedgerConsumer, LedgerView};

/// Entries that are kept.
pub const MAX_ENTRIES: usize = 720;
/// Parts of an entry that are kept by name.
pub const MAX_NAMED_PARTS: usize = 16;

/// What is known of a node over a short time.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeObservation<K> {
    /// The end of it, in milliseconds since 1970.
    pub at: i64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Processors that were busy, on average.
    pub busy_cores: Option<f64>,
    /// Watts that the meter said.
    pub measured: Option<f64>,
    /// What a predictor said.
    pub estimated: Option<EstimatedPower>,
    /// Who used the processors, and for how many seconds.
    pub used: Vec<(K, f64)>,
    /// Seconds for which nobody was found.
    pub unseen: f64,
}

/// What a predictor said of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimatedPower {
    pub watts: f64,
    /// Ends of the interval.
    pub interval: Option<(f64, f64)>,
    /// Watts of it that idle.
    pub idle: f64,
}

/// The node's power over a short time, in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry<K> {
    /// The end of it, in milliseconds since 1970.
    pub at: i64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Processors that were busy, on average.
    pub busy_cores: Option<f64>,
    /// Watts that the meter said.
    pub measured: Option<f64>,
    /// What a predictor said.
    pub estimated: Option<EstimatedPower>,
    /// The parts of `measured`, else of `estimated`; `None` where there is neither.
    pub parts: Option<PowerBreakdown<K>>,
}

/// The parts of a node's power, in watts.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerBreakdown<K> {
    /// What it would take if nobody worked.
    pub idle: f64,
    /// Those that take most.
    pub named: Box<[(K, f64)]>,
    pub others: f64,
    /// Work for which nobody was found.
    pub unseen: f64,
}

impl<K> LedgerEntry<K> {
    /// The power that is shared.
    pub fn node(&self) -> Option<f64> {
        self.measured.or(self.estimated.map(|estimated| estimated.watts))
    }
}

/// The power of a node over time.
#[derive(Debug)]
pub struct PowerLedger<K> {
    entries: VecDeque<LedgerEntry<K>>,
    most: usize,
    how: IdleMethod,
}

impl<K> Default for PowerLedger<K> {
    fn default() -> Self {
        Self::new(MAX_ENTRIES)
    }
}

impl<K> PowerLedger<K> {
    /// Of at most so many entries.
    pub fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), most: most.max(1), how: IdleMethod::Predicted }
    }

    /// The entries, the oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &LedgerEntry<K>> + ExactSizeIterator {
        self.entries.iter()
    }

    /// How the idle power of the latest entry was found.
    pub fn how(&self) -> IdleMethod {
        self.how
    }
}

impl<K: Clone + Eq + Hash> PowerLedger<K> {
    /// Enters what was looked at.
    pub fn enter(&mut self, looked: NodeObservation<K>) {
        let usable = |watts: &f64| watts.is_finite() && *watts >= 0.0;
        let NodeObservation { at, seconds, busy_cores, measured, estimated, used, unseen } = looked;
        let measured = measured.filter(usable);
        let estimated = estimated.filter(|estimated| usable(&estimated.watts));
        let mut entry = LedgerEntry { at, seconds, busy_cores, measured, estimated, parts: None };
        if let Some(node) = entry.node() {
            let (idle, how) = self.idle(&entry, node);
            self.how = how;
            entry.parts = Some(break_down(node, idle, used, unseen));
        }
        if self.entries.len() >= self.most {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// What the node idles with: found from the meter where there is one, else what the predictor says.
    fn idle(&self, latest: &LedgerEntry<K>, node: f64) -> (f64, IdleMethod) {
        let predicted = latest.estimated.map_or(0.0, |estimated| estimated.idle);
        if latest.measured.is_none() {
            return (predicted.min(node), IdleMethod::Predicted);
        }
        let points = self.entries.iter().chain([latest]);
        let points: Vec<(f64, f64)> =
            points.filter_map(|entry| Some((entry.busy_cores?, entry.measured?))).collect();
        match idle::estimate_idle(&points) {
            Some((watts, how)) => (watts.min(node), how),
            None => (predicted.min(node), IdleMethod::Predicted),
        }
    }
}

/// Shares a node's power by time on processors.
fn break_down<K>(node: f64, idle: f64, mut used: Vec<(K, f64)>, unseen: f64) -> PowerBreakdown<K> {
    let times: Vec<f64> = used.iter().map(|(_, seconds)| *seconds).chain([unseen]).collect();
    let shares = share(node, idle, &times);
    let mut watts = shares.parts;
    let unseen = watts.pop().unwrap_or(0.0);
    for (one, watts) in used.iter_mut().zip(watts) {
        one.1 = watts;
    }
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    let others = used.iter().skip(MAX_NAMED_PARTS).map(|(_, watts)| watts).sum();
    used.truncate(MAX_NAMED_PARTS);
    used.retain(|(_, watts)| *watts > 0.0);
    PowerBreakdown { idle: shares.idle, named: used.into_boxed_slice(), others, unseen }
}
