//! The power of this node over time, for the page and the API: a sampling thread and its recent
//! history.
//!
//! A sample reads the kernel's energy meters and the processor time of every process. It also
//! evaluates the estimator of the Kepler-compatible services. Measured power is divided among the
//! running processes; without a meter, estimated power is. A missing figure carries its reason.
//! Nothing is stored.
//!
//! Bounded: the entries of the ledger and their parts. A slow sample (many thousand processes)
//! delays the next one, so that the thread stays below half a per cent of a core.

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

/// Default sampling interval.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// Configuration of the power monitor.
#[derive(Clone)]
pub struct NodePowerConfig {
    /// Location of the kernel's files.
    pub roots: KernelRoots,
    /// Sampling interval.
    pub interval: Duration,
    /// Estimates the node's power from its use.
    pub estimator: Arc<PowerEstimator>,
    /// Socket of the container engine, for names of containers.
    pub engine: Option<PathBuf>,
}

impl std::fmt::Debug for NodePowerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Power").field("roots", &self.roots).field("interval", &self.interval).finish()
    }
}

/// Recent samples.
#[derive(Debug, Default)]
pub struct PowerHistory {
    /// Power over time and by consumer.
    pub ledger: PowerLedger<Arc<ConsumerIdentity>>,
    /// What the meter covers, and the names of its parts.
    pub meter: Option<(MeterScope, Vec<String>)>,
    /// The predictor of the latest sample.
    pub predictor: Option<ActivePowerPredictor>,
    /// Figures that are missing, each with its reason.
    pub missing: MissingFields,
    /// Number of processes of each command at the latest sample.
    pub processes: HashMap<Arc<ConsumerIdentity>, u32>,
    /// Names of the containers and pods in the history, by identifier.
    pub names: HashMap<String, String>,
}

/// The predictor of the node's power.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivePowerPredictor {
    pub about: PredictorInUse,
    /// Whether the latest use lies within its training range.
    pub in_range: bool,
    /// Cores of this machine divided by cores of the training machine.
    pub core_ratio: f64,
}

/// The power of this node, as requests see it.
#[derive(Debug)]
pub struct PowerMonitor {
    /// Its configuration.
    pub power: NodePowerConfig,
    seen: Mutex<PowerHistory>,
}

impl PowerMonitor {
    fn new(power: NodePowerConfig) -> Self {
        Self { power, seen: Mutex::default() }
    }

    /// Locks the recent samples.
    pub fn lock_history(&self) -> MutexGuard<'_, PowerHistory> {
        self.seen.lock_unpoisoned()
    }
}
