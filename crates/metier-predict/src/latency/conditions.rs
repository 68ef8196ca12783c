//! Under which conditions a graph is to run.

use metier_types::{Passport, Ratio};

use super::error::LatencyError;

/// The runtime that is built in.
pub const RTEN: &str = "rten";
pub const ONNX_RUNTIME: &str = "onnxruntime";
/// As many threads as the device that is asked for has processors.
pub const ALL_PROCESSORS: u32 = u32::MAX;
/// Most threads that are asked for.
const MAX_THREADS: u32 = 4096;
/// Most load of the processors: so many threads that would run for each of them. More is a percentage that lost its sign.
pub const MAX_LOAD: f64 = 16.0;

/// Runtime, threads, and what else the device is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct InferenceConditions {
    /// `rten` or `onnxruntime`.
    pub runtime: String,
    /// Threads that the runtime may use; [`ALL_PROCESSORS`] for as many as the device has processors.
    pub threads: u32,
    /// Share of all processors' time that others use; `None` for an idle device. Above 1 others wait in a queue: 2 is as many threads again as there are processors.
    pub cpu_load: Option<Ratio>,
    /// Share of memory bandwidth that others use.
    pub memory_load: Option<Ratio>,
}

impl Default for InferenceConditions {
    fn default() -> Self {
        Self { runtime: RTEN.to_string(), threads: 1, cpu_load: None, memory_load: None }
    }
}

impl InferenceConditions {
    /// The same on a device: with so many threads as it has processors, where all were asked for.
    pub fn on(&self, passport: &Passport) -> Self {
        let cores = passport.device.cpu.threads.clamp(1, MAX_THREADS);
        Self { threads: if self.threads == ALL_PROCESSORS { cores } else { self.threads }, ..self.clone() }
    }

    /// Refuses what cannot be.
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
