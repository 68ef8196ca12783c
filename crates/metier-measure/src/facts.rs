//! Everything that was found out about one run, before `record.rs` puts it into words.

use std::time::Duration;

use metier_types::{HostReading, Missing, Quality, RunId, Timestamp};

use crate::running_target::{Outcome, Usage};
use crate::target_facts::TargetFacts;
use crate::tree::Walker;
use metier_linux::cgroup::{Group, Totals};
use metier_linux::events::Watch;
use metier_linux::host::HostCounters;

/// Everything that was found out about one run, before it is put into words.
pub(crate) struct Facts {
    pub id: RunId,
    pub group: Result<Group, Missing>,
    pub watch: Result<Watch, Missing>,
    pub walker: Walker,
    pub about: TargetFacts,
    pub outcome: Outcome,
    pub totals: Totals,
    /// How far the totals can be trusted.
    pub totals_quality: Quality,
    pub used: Option<Usage>,
    pub started: Timestamp,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub gone_ns: u64,
    pub status: i32,
    pub stuck: u64,
    pub left_behind: u32,
    pub rungs: Vec<i32>,
    pub stopped: Stopped,
    pub samples: u64,
    pub late: u64,
    pub peaks: Peaks,
    pub host_before: (HostReading, HostCounters),
    pub host_after: (HostReading, HostCounters),
    pub around_before: Option<(u64, u64)>,
    pub around_after: Option<(u64, u64)>,
    pub own_cpu: Duration,
    pub launcher_cpu: Option<Duration>,
    pub startup: Duration,
}

/// Why we ended the run, if we did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    No,
    Timeout,
    /// Asked to by this signal.
    Signal(i32),
    /// The main process was over, the rest was not.
    Lingering,
}

/// Largest parts of memory that samples saw.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peaks {
    pub anonymous: Option<u64>,
    pub file: Option<u64>,
    pub kernel: Option<u64>,
}
