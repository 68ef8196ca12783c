//! Under which conditions a graph is to run.

use metier_types::Ratio;

use super::error::Error;

/// The runtime that is built in.
pub const RTEN: &str = "rten";
/// ONNX Runtime.
pub const ONNX_RUNTIME: &str = "onnxruntime";
/// Most threads that are asked for.
const MOST_THREADS: u32 = 4096;

/// Runtime, threads, and what else the device is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// `rten` or `onnxruntime`.
    pub runtime: String,
    /// Threads that the runtime may use.
    pub threads: u32,
    /// Share of all processors' time that others use; `None` for an idle device.
    pub cpu_load: Option<Ratio>,
    /// Share of memory bandwidth that others use.
    pub memory_load: Option<Ratio>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { runtime: RTEN.to_string(), threads: 1, cpu_load: None, memory_load: None }
    }
}

impl Conditions {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), Error> {
        if ![RTEN, ONNX_RUNTIME].contains(&self.runtime.as_str()) {
            return Err(Error::Condition {
                field: "runtime",
                got: format!("{:?}", self.runtime),
                want: "rten or onnxruntime",
            });
        }
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return Err(Error::Condition {
                field: "threads",
                got: self.threads.to_string(),
                want: "1 to 4096",
            });
        }
        for (field, load) in [("cpu_load", self.cpu_load), ("memory_load", self.memory_load)] {
            if let Some(load) = load.filter(|load| !(0.0..=1.0).contains(&load.get())) {
                return Err(Error::Condition {
                    field,
                    got: load.get().to_string(),
                    want: "a share from 0 to 1",
                });
            }
        }
        Ok(())
    }
}
