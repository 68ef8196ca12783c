//! Lists of runs: pages of rows, without the details of records.

use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{BatchId, DeviceRef, RunExit, RunId, RunState, RunSummary, UtcTimestamp, WorkloadRef};

/// One row of a list of runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RunEntry")]
pub struct RunRow {
    /// Id of the run.
    pub id: RunId,
    /// Batch of the run: the repetitions of one command.
    pub batch: BatchId,
    /// The workload.
    pub workload: WorkloadRef,
    /// The device.
    pub device: DeviceRef,
    /// State of the run.
    pub state: RunState,
    /// Start time.
    pub started: UtcTimestamp,
    /// End of its last process.
    pub ended: Option<UtcTimestamp>,
    /// How it ended; `null` while it runs.
    pub exit: Option<RunExit>,
    /// Tags.
    pub tags: Vec<String>,
    /// The main figures.
    pub summary: RunSummary,
    /// Number of this repetition in its batch.
    pub repetition: u32,
    /// Number of repetitions in the batch.
    pub repetitions: u32,
    /// Whether it was a warm-up run.
    pub warmup: bool,
    /// Whether statistics of its batch include it: measured to its end, succeeded, no warm-up.
    pub counted: bool,
    /// Number of warnings.
    pub warnings: u32,
    /// Program and arguments as one shell line.
    pub command: String,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunList {
    /// `metier.runs/1`.
    pub schema: RecordSchema<RunList>,
    /// The runs.
    pub runs: Vec<RunRow>,
    /// Value of `after` for the next page; `null` on the last page.
    pub next: Option<String>,
    /// Number of matching runs on all pages.
    pub total: u64,
}

impl VersionedRecord for RunList {
    const SCHEMA: &'static str = "metier.runs/1";
}
