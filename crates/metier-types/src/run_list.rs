//! Runs in lists: a page of rows, without the details of records.

use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::{Schema, Versioned};
use crate::{BatchId, DeviceRef, Exit, RunId, RunState, Summary, Timestamp, WorkloadRef};

/// One run in a list: what a table shows, without the details.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RunEntry")]
pub struct RunRow {
    /// Its identity.
    pub id: RunId,
    /// The repetitions that were asked for together.
    pub batch: BatchId,
    /// What ran.
    pub workload: WorkloadRef,
    /// Where.
    pub device: DeviceRef,
    /// Whether it is over.
    pub state: RunState,
    /// When it started.
    pub started: Timestamp,
    /// When its last process was gone.
    pub ended: Option<Timestamp>,
    /// How it ended; `null` while it runs.
    pub exit: Option<Exit>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The figures most people look at.
    pub summary: Summary,
    /// Which repetition of its batch.
    pub repetition: u32,
    /// How many repetitions the batch has.
    pub repetitions: u32,
    /// Whether it only warmed up.
    pub warmup: bool,
    /// How many warnings it carries.
    pub warnings: u32,
    /// Program and arguments as one line.
    pub command: String,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunList {
    /// `metier.runs/1`.
    pub schema: Schema<RunList>,
    /// The runs.
    pub runs: Vec<RunRow>,
    /// What to give as `after` for the next page; `null` on the last one.
    pub next: Option<String>,
    /// How many runs fit on all pages.
    pub total: u64,
}

impl Versioned for RunList {
    const SCHEMA: &'static str = "metier.runs/1";
}
