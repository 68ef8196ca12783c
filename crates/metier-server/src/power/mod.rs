//! The power of this node over time, for the page and the API: a thread that looks every few seconds, and what it has seen of late.
//!
//! A look reads the meters that the kernel shows as files, the time of every process on the processors, and asks the estimator that the doors of Kepler answer with.
//! Measured power is shared among those who work, else the estimated one; what is missing is said with its reason. Nothing of it is stored.
//!
//! Bounded: the entries of the ledger and their parts. A look that takes long (many thousand processes) makes the next one wait longer, so that the
//! thread stays below half a per cent of a core.

mod sampler;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use metier_device::sensors::MeterScope;
use metier_linux::KernelRoots;
use metier_linux::cpu_consumers::ConsumerIdentity;
use metier_power::estimate::{PowerEstimator, PredictorInUse};
use metier_power::ledger::PowerLedger;
use metier_types::{LockUnpoisoned, MissingFields};

pub use sampler::PowerSampler;

/// How often one looks, unless told otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// What the power of this node is found with.
#[derive(Clone)]
pub struct NodePowerConfig {
    /// Where the kernel's files are.
    pub roots: KernelRoots,
    /// How often one looks.
    pub interval: Duration,
    /// Who says what the node takes by its use, and of which pipelines.
    pub estimator: Arc<PowerEstimator>,
    /// The socket of the container engine that knows names of containers.
    pub engine: Option<PathBuf>,
}

impl std::fmt::Debug for NodePowerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Power").field("roots", &self.roots).field("interval", &self.interval).finish()
    }
}

/// What was seen of late.
#[derive(Debug, Default)]
pub struct PowerHistory {
    /// Power over time and in parts.
    pub ledger: PowerLedger<Arc<ConsumerIdentity>>,
    /// What the meter is of, and the names of its parts.
    pub meter: Option<(MeterScope, Vec<String>)>,
    /// The predictor of the latest look.
    pub predictor: Option<ActivePowerPredictor>,
    /// What there is no figure of, and why.
    pub missing: MissingFields,
    /// Processes of each command at the latest look.
    pub processes: HashMap<Arc<ConsumerIdentity>, u32>,
    /// What people call the containers and pods that were seen, by their identifier.
    pub names: HashMap<String, String>,
}

/// The predictor that estimates the node.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivePowerPredictor {
    pub about: PredictorInUse,
    /// Whether the latest use is within what it was learned from.
    pub in_range: bool,
    /// Cores of this machine for each of the machine that it was learned on.
    pub core_ratio: f64,
}

/// The power of this node, as requests see it.
#[derive(Debug)]
pub struct PowerMonitor {
    /// What it is found with.
    pub power: NodePowerConfig,
    seen: Mutex<PowerHistory>,
}

impl PowerMonitor {
    fn new(power: NodePowerConfig) -> Self {
        Self { power, seen: Mutex::default() }
    }

    /// What was seen of late.
    pub fn lock_history(&self) -> MutexGuard<'_, PowerHistory> {
        self.seen.lock_unpoisoned()
    }
}
