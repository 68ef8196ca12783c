//! The processes of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{Bytes, ExtraFields, RunId, Seconds};

/// How the processes were observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessSource {
    /// Every start and end, from kernel events.
    Events,
    /// Only processes that were alive at some sample.
    Sampled,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessRecord {
    /// Process id.
    pub pid: u32,
    /// Parent process; `null` for the root of the run or if unknown.
    pub parent: Option<u32>,
    /// Short name, as the kernel stores it.
    pub name: String,
    /// Full command line, if the process lived long enough to read it.
    pub command: Option<String>,
    /// Start, relative to the start of the run.
    pub started_seconds: Seconds,
    /// End, relative to the start of the run; `null` if it was not observed.
    pub ended_seconds: Option<Seconds>,
    /// CPU time of this process alone.
    pub cpu_seconds: Option<Seconds>,
    /// Resident high-water mark recorded by the kernel.
    pub peak_resident_bytes: Option<Bytes>,
    /// Bytes read from storage on its behalf.
    pub read_bytes: Option<Bytes>,
    /// Bytes written to storage on its behalf.
    pub written_bytes: Option<Bytes>,
    /// Exit code, if it exited.
    pub exit_code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// All processes of a run, in the order of their starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessTree {
    /// `metier.processes/1`.
    pub schema: RecordSchema<ProcessTree>,
    /// The run.
    pub run: RunId,
    /// How they were observed.
    pub source: ProcessSource,
    /// Number of processes known to have existed.
    pub total: u64,
    /// Processes of `total` that the bounded list omits.
    pub omitted: u64,
    /// The processes.
    pub processes: Vec<ProcessRecord>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for ProcessTree {
    const SCHEMA: &'static str = "metier.processes/1";
}

impl ProcessTree {
    /// Name of its artefact in the run.
    pub const ARTEFACT_NAME: &'static str = "processes.json";
}
