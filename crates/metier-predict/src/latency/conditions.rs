//! Conditions under which a graph runs.
//!
//! The rule of threads, wherever none are given: a graph that runs alone on a device (`bench`,
//! `train`, `predict`, the page) has [`ALL_PROCESSORS`]; a replica that is placed (`place`,
//! deployments of the SOPRANO interface) has [`REPLICA_THREADS`], in its prediction as in its
//! request. So what is predicted is what is measured or requested.

use metier_types::{Passport, Ratio};

use super::error::LatencyError;

/// The built-in runtime.
pub const RTEN: &str = "rten";
pub const ONNX_RUNTIME: &str = "onnxruntime";
/// As many threads as the target device has processors.
pub const ALL_PROCESSORS: u32 = u32::MAX;
/// Threads of a placed replica, and its requested cores.
pub const REPLICA_THREADS: u32 = 1;
/// Largest number of threads.
const MAX_THREADS: u32 = 4096;
/// Largest processor load: runnable threads per processor. Larger values are probably percentages.
pub const MAX_LOAD: f64 = 16.0;

/// Runtime, threads, and load of co-runners.
#[derive(Debug, Clone, PartialEq)]
pub struct InferenceConditions {
    /// `rten` or `onnxruntime`.
    pub runtime: String,
    /// Threads of the runtime; [`ALL_PROCESSORS`] for as many as the device has processors.
    pub threads: u32,
    /// Processor load of co-runners; `None` for an idle device. Above 1 threads queue: 2 means
    /// twice as many runnable threads as processors.
    pub cpu_load: Option<Ratio>,
    /// Share of memory bandwidth used by co-runners.
    pub memory_load: Option<Ratio>,
}

impl Default for InferenceConditions {
    fn default() -> Self {
        Self { runtime: RTEN.to_string(), threads: 1, cpu_load: None, memory_load: None }
    }
}

impl InferenceConditions {
    /// Resolves [`ALL_PROCESSORS`] to the device's number of processors.
    pub fn on(&self, passport: &Passport) -> Self {
        let cores = passport.device.cpu.threads.clamp(1, MAX_THREADS);
        Self { threads: if self.threads == ALL_PROCESSORS { cores } else { self.threads }, ..self.clone() }
    }

    /// Rejects impossible conditions.
    pub fn check(&self) -> Result<(), LatencyError> {
        if ![RTEN, ONNX_RUNTIME].contains(&self.runtime.as_str()) {
            return Err(LatencyError::Condition {
                field: "runtime",
                got: format!("{:?}", self.runtime),
                want: "rten or onnxruntime",
            });
        }
        if self.threads != ALL_PROCESSORS && !(1..=MAX_THREADS).contains(&self.threads) {
            return Err(LatencyError::Condition {
                field: "threads",
                got: self.threads.to_string(),
                want: "1 to 4096",
            });
        }
        for (field, load, most, want) in [
            (
                "cpu_load",
                self.cpu_load,
                MAX_LOAD,
                "a share from 0 to 1, or up to 16 where others wait in a queue",
            ),
            ("memory_load", self.memory_load, 1.0, "a share from 0 to 1"),
        ] {
            if let Some(load) = load.filter(|load| !(0.0..=most).contains(&load.get())) {
                return Err(LatencyError::Condition { field, got: load.get().to_string(), want });
            }
        }
        Ok(())
    }
}
