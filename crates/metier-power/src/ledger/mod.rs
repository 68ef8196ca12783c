//! A node's power over time and by consumer: measured, estimated, idle, and per-consumer parts.
//!
//! The measured power is divided if there is a meter, else the estimated power. Every entry adds
//! up: idle + parts + others + unseen equals the node's power within rounding ([`crate::share`]).
//! Parts are proportional to processor time, the only quantity known for every process.
//!
//! Entries and named parts are bounded; the oldest entries are dropped.

mod idle;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;
use std::hash::Hash;

use crate::share::share;
pub use idle::IdleMethod;
pub use view::{EstimateComparison, LedgerConsumer, LedgerView};

/// Largest number of entries.
pub const MAX_ENTRIES: usize = 720;
/// Largest number of named parts in an entry.
pub const MAX_NAMED_PARTS: usize = 16;

/// Observation of a node over a short interval.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeObservation<K> {
    /// End of the interval, in milliseconds since 1970.
    pub at: i64,
    /// Length in seconds.
    pub seconds: f64,
    /// Mean number of busy processors.
    pub busy_cores: Option<f64>,
    /// Measured watts.
    pub measured: Option<f64>,
    /// Estimated power.
    pub estimated: Option<EstimatedPower>,
    /// Processor seconds of each consumer.
    pub used: Vec<(K, f64)>,
    /// Processor seconds without a known consumer.
    pub unseen: f64,
}

/// Estimated power of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimatedPower {
    pub watts: f64,
    /// Ends of the interval.
    pub interval: Option<(f64, f64)>,
    /// Idle part in watts.
    pub idle: f64,
}

/// A node's power over a short interval, in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry<K> {
    /// End of the interval, in milliseconds since 1970.
    pub at: i64,
    /// Length in seconds.
    pub seconds: f64,
    /// Mean number of busy processors.
    pub busy_cores: Option<f64>,
    /// Measured watts.
    pub measured: Option<f64>,
    /// Estimated power.
    pub estimated: Option<EstimatedPower>,
    /// Parts of `measured`, else of `estimated`; `None` if both are missing.
    pub parts: Option<PowerBreakdown<K>>,
}

/// The parts of a node's power, in watts.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerBreakdown<K> {
    /// Idle power.
    pub idle: f64,
    /// The largest consumers.
    pub named: Box<[(K, f64)]>,
    pub others: f64,
    /// Power of work without a known consumer.
    pub unseen: f64,
}

impl<K> LedgerEntry<K> {
    /// The power that is divided.
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
    /// A ledger with at most this many entries.
    pub fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), most: most.max(1), how: IdleMethod::Predicted }
    }

    /// The entries, the oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &LedgerEntry<K>> + ExactSizeIterator {
        self.entries.iter()
    }

    /// Method by which the latest entry's idle power was estimated.
    pub fn how(&self) -> IdleMethod {
        self.how
    }
}

impl<K: Clone + Eq + Hash> PowerLedger<K> {
    /// Adds an observation.
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

    /// Idle power of the node: estimated from the meter if there is one, else the predictor's
    /// value.
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

/// Divides a node's power in proportion to processor time.
fn break_down<K>(node: f64, idle: f64, mut used: Vec<(K, f64)>, unseen: f64) -> PowerBreakdown<K> {
    let times: Vec<f64> = used.iter().map(|(_, seconds)| *seconds).chain([unseen]).collect();
    let shares = share(node, idle, &times);
    let mut watts = shares.parts;
    let unseen = watts.pop().unwrap_or(0.0);
    for (part, watts) in used.iter_mut().zip(watts) {
        part.1 = watts;
    }
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    let others = used.iter().skip(MAX_NAMED_PARTS).map(|(_, watts)| watts).sum();
    used.truncate(MAX_NAMED_PARTS);
    used.retain(|(_, watts)| *watts > 0.0);
    PowerBreakdown { idle: shares.idle, named: used.into_boxed_slice(), others, unseen }
}
