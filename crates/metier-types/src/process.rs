//! The processes of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Schema, Versioned};
use crate::{Bytes, Extra, RunId, Seconds};

/// How the processes were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessSource {
    /// Every start and end, from the kernel's events.
    Events,
    /// Only those that were alive at some sample.
    Sampled,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Its id while it lived.
    pub pid: u32,
    /// Who started it; `None` for the root of the run or where that was not seen.
    pub parent: Option<u32>,
    /// Short name, as the kernel keeps it.
    pub name: String,
    /// Full command line, where it lived long enough to be asked.
    pub command: Option<String>,
    /// Start, from the start of the run.
    pub started_seconds: Seconds,
    /// End, from the start of the run; `None` where it was not seen.
    pub ended_seconds: Option<Seconds>,
    /// CPU time of this process alone.
    pub cpu_seconds: Option<Seconds>,
    /// Largest resident size that the kernel noted.
    pub peak_resident_bytes: Option<Bytes>,
    /// Bytes read from storage on its behalf.
    pub read_bytes: Option<Bytes>,
    /// Bytes written to storage on its behalf.
    pub written_bytes: Option<Bytes>,
    /// Exit code, where it exited.
    pub exit_code: Option<i32>,
    /// Signal, where one ended it.
    pub signal: Option<i32>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// All processes of a run, in the order in which they started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessTree {
    /// `metier.processes/1`.
    pub schema: Schema<ProcessTree>,
    /// The run.
    pub run: RunId,
    /// How they were seen.
    pub source: ProcessSource,
    /// Processes that are known to have existed.
    pub total: u64,
    /// Those of `total` that are not in the list, because the list is bounded.
    pub omitted: u64,
    /// The processes.
    pub processes: Vec<Process>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for ProcessTree {
    const SCHEMA: &'static str = "metier.processes/1";
}

impl ProcessTree {
    /// The name under which a run keeps it among its artefacts.
    pub const ARTEFACT: &'static str = "processes.json";
}
