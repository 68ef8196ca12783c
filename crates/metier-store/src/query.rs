//! Asking for many runs: what to look for, and a page of what was found.

use metier_types::{BatchId, Cause, DeviceRef, Exit, RunId, RunState, Summary, Timestamp, WorkloadRef};
use serde::Serialize;

/// Which runs to list. The default is all that did not only warm up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunFilter {
    /// Id or name of the workload, whole.
    pub workload: Option<String>,
    /// Id or name of the device, whole.
    pub device: Option<String>,
    /// Whether they are over.
    pub state: Option<RunState>,
    /// Why they ended.
    pub cause: Option<Cause>,
    /// A tag that they have.
    pub tag: Option<String>,
    /// The batch they belong to.
    pub batch: Option<BatchId>,
    /// A part of the workload's name or the command, in any case.
    pub text: Option<String>,
    /// Started at this moment or later.
    pub since: Option<Timestamp>,
    /// Started before this moment.
    pub until: Option<Timestamp>,
    /// Whether warm-up runs are listed too.
    pub warmup: bool,
    /// How many to return; 0 stands for 100, at most 1000.
    pub limit: u32,
    /// Where the page before ended: its `next`.
    pub after: Option<String>,
}

/// One run in a list: what a table shows, without the details.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// How it ended.
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
    /// Program and arguments as one line, quoted as a shell would need it, at most 4096 characters.
    pub command: String,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunRow>,
    /// What to pass as [`RunFilter::after`] for the next page; `None` on the last one.
    pub next: Option<String>,
    /// How many runs fit the filter on all pages.
    pub total: u64,
}
