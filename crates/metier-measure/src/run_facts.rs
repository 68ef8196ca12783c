//! Everything that was found out about one run, before `record.rs` puts it into words.

use std::time::Duration;

use metier_types::{HostReading, MissingReason, RunId, UtcTimestamp, ValueQuality};

use crate::process_walker::ProcessWalker;
use crate::running_target::{ProcessUsage, TargetOutcome};
use crate::target_facts::TargetFacts;
use metier_linux::cgroup::{CgroupTotals, RunCgroup};
use metier_linux::host::HostCounters;
use metier_linux::process_events::ProcessWatch;

/// Everything that was found out about one run, before it is put into words.
pub(crate) struct RunFacts {
    pub id: RunId,
    pub group: Result<RunCgroup, MissingReason>,
    pub watch: Result<ProcessWatch, MissingReason>,
    pub walker: ProcessWalker,
    pub about: TargetFacts,
    pub outcome: TargetOutcome,
    pub totals: CgroupTotals,
    /// How far the totals can be trusted.
    pub totals_quality: ValueQuality,
    pub started: UtcTimestamp,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub status: i32,
    pub end: RunEnd,
    pub log: SampleLog,
    pub before: HostMoment,
    pub after: HostMoment,
    pub own_cpu: Duration,
    pub startup: Duration,
}

/// The end of the last process.
pub(crate) struct RunEnd {
    pub gone_ns: u64,
    /// Processes that could not be killed.
    pub stuck: u64,
    /// CPU time of the launcher.
    pub launcher_cpu: Duration,
    /// What was used, where somebody waited for every process.
    pub used: Option<ProcessUsage>,
}

/// What the loop around a run noted.
#[derive(Default)]
pub(crate) struct SampleLog {
    pub samples: u64,
    pub late: u64,
    pub peaks: MemoryPeaks,
    pub rungs: Vec<i32>,
    pub stopped: StopReason,
    pub left_behind: u32,
}

/// The host at one end of a run.
pub(crate) struct HostMoment {
    pub host: (HostReading, HostCounters),
    /// Of the group around the run: periods and microseconds that a CPU limit held it back.
    pub throttling: Option<(u64, u64)>,
}

/// Why we ended the run, if we did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StopReason {
    #[default]
    NotStopped,
    Timeout,
    /// Asked to by this signal.
    Signal(i32),
    /// The main process was over, the rest was not.
    Lingering,
}

/// Largest parts of memory that samples saw.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryPeaks {
    pub anonymous: Option<u64>,
    pub file: Option<u64>,
    pub kernel: Option<u64>,
}
