//! All facts of one run, from which `record.rs` writes the record.

use std::time::Duration;

use metier_types::{HostReading, MissingReason, RunId, UtcTimestamp, ValueQuality};

use crate::process_walker::ProcessWalker;
use crate::running_target::{ProcessUsage, TargetOutcome};
use crate::target_facts::TargetFacts;
use metier_linux::cgroup::{CgroupTotals, RunCgroup};
use metier_linux::host::HostCounters;
use metier_linux::process_events::ProcessWatch;

/// All facts of one run, from which the record is written.
pub(crate) struct CollectedRunFacts {
    pub id: RunId,
    pub group: Result<RunCgroup, MissingReason>,
    pub watch: Result<ProcessWatch, MissingReason>,
    pub walker: ProcessWalker,
    pub about: TargetFacts,
    pub outcome: TargetOutcome,
    pub totals: CgroupTotals,
    /// Quality of the totals.
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
    /// Resource use by `wait4`, if every process was waited for.
    pub used: Option<ProcessUsage>,
}

/// Facts of the sample loop.
#[derive(Default)]
pub(crate) struct SampleLog {
    pub samples: u64,
    pub late: u64,
    pub peaks: MemoryPeaks,
    /// Largest mean number of busy cores.
    pub peak_cores: Option<f64>,
    pub rungs: Vec<i32>,
    pub stopped: StopReason,
    pub left_behind: u32,
}

/// The host's state at the start or the end of a run.
pub(crate) struct HostMoment {
    pub host: (HostReading, HostCounters),
    pub throttling: Option<QuotaCounters>,
}

/// Counters of the CPU quota of the surrounding control group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaCounters {
    pub periods: u64,
    pub throttled_periods: u64,
    pub throttled_us: u64,
}

/// Why metier ended the run, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StopReason {
    #[default]
    NotStopped,
    Timeout,
    /// This signal was received.
    Signal(i32),
    /// The main process had ended, others had not.
    Lingering,
}

/// Largest sampled value of each kind of memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryPeaks {
    pub anonymous: Option<u64>,
    pub file: Option<u64>,
    pub kernel: Option<u64>,
}
