//! The interface between the sample loop and what it measures: a target can be started, reports its
//! start, the end of its main process and the end of its last process, and can be stopped.

use std::io::Read;
use std::os::fd::RawFd;

use metier_types::MissingReason;

use crate::Error;
use crate::target_facts::TargetFacts;
use metier_linux::cgroup::{CgroupTotals, RunCgroup};
use metier_linux::process_events::ProcessRoot;

/// Resource use from `wait4`; the layout equals the launcher's `ProcessUsage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProcessUsage {
    /// CPU time in the program, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Resident high-water mark of the largest process.
    pub max_rss_kib: u64,
    /// Page faults served without IO.
    pub minor_faults: u64,
    /// Page faults that waited for IO.
    pub major_faults: u64,
    /// Blocks of 512 bytes that were read.
    pub blocks_in: u64,
    /// Blocks of 512 bytes that were written.
    pub blocks_out: u64,
    /// Context switches because a task waited.
    pub voluntary_switches: u64,
    /// Involuntary context switches, at the end of a time slice.
    pub involuntary_switches: u64,
}

/// Reports of a target, in this order; `Rung` may come in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetReport {
    /// It runs; the time is that just before its first instruction.
    Started {
        pid: u32,
        /// By the monotonic clock.
        time_ns: u64,
    },
    /// The main process ended.
    MainEnded {
        /// As `wait` gives it: the exit code times 256, or the signal.
        status: i32,
        /// By the monotonic clock.
        time_ns: u64,
    },
    /// The signal ladder sent this signal.
    Rung { signal: i32 },
    /// No process is left, except `stuck` processes that could not be killed.
    Gone {
        /// Processes that could not be killed.
        stuck: u64,
        /// By the monotonic clock.
        time_ns: u64,
        /// CPU time of the supervisor, outside this process.
        own_cpu_ns: u64,
        /// Resource use by `wait4`, if every process was waited for.
        used: Option<ProcessUsage>,
    },
    /// It could not be started.
    Failed { stage: StartStage, errno: i32 },
    /// The main process has just ended; its status follows. Read a control group that may vanish
    /// now.
    Ending,
    /// A report without content.
    Nothing,
    /// The supervisor of the run is gone.
    Lost,
}

/// The step at which a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStage {
    Fork,
    /// Entering the control group.
    Join,
    Exec,
}

/// Rungs at which the signal ladder can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRung {
    /// SIGINT, then the others.
    Interrupt,
    Terminate,
    Kill,
}

/// Facts that only the target can give, at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetOutcome {
    /// Whether the kernel killed a process of it for lack of memory.
    pub oom: bool,
    /// Why it ended this way, for people.
    pub detail: Option<String>,
    /// Number of out-of-memory kills, if the target has a better figure than the control group.
    pub oom_kills: Option<u64>,
    /// Bytes received and sent in its own network namespace, read at its end.
    pub network: Option<(u64, u64)>,
    /// Whether contact was lost before its end, for example with its node.
    pub lost: bool,
    /// Warnings for the record: code and text.
    pub warnings: Vec<(String, String)>,
}

/// Takes one file: its name as the run sees it, and its content. Returns false to stop.
pub type FileSink<'a> = dyn FnMut(&str, &mut dyn Read) -> bool + 'a;

pub(crate) trait RunningTarget {
    /// Starts it; returns the time just before its first instruction, by the monotonic clock.
    fn start(&mut self) -> Result<u64, Error>;
    /// The descriptor that becomes readable when a report is available.
    fn descriptor(&self) -> RawFd;
    /// The next report; called when the descriptor is readable.
    fn next_report(&mut self) -> TargetReport;
    /// Starts the signal ladder, or advances it.
    fn escalate(&mut self, from: SignalRung);
    /// Whether an interrupt from the terminal reaches it directly.
    fn receives_terminal_signals(&self) -> bool {
        true
    }
    /// Whether its supervisor is in its control group; the supervisor's use is then subtracted.
    fn is_supervisor_in_group(&self) -> bool {
        false
    }
    /// Facts that only the target has; called once, after the last process has ended.
    fn take_outcome(&mut self) -> TargetOutcome {
        TargetOutcome::default()
    }
    /// Emits files that match patterns, if they are not plain files of this host. `None`: they are.
    fn export_files(&mut self, _patterns: &[String], _sink: &mut FileSink<'_>) -> Option<Result<(), String>> {
        None
    }
    /// Cleans up; no further call follows.
    fn release(self: Box<Self>);
}

/// A prepared run that has not been started.
pub struct PreparedRun {
    pub(crate) body: Box<dyn RunningTarget>,
    /// Its control group, or the reason why there is none.
    pub(crate) group: Result<RunCgroup, MissingReason>,
    /// Which processes are the run.
    pub(crate) root: ProcessRoot,
    pub(crate) about: TargetFacts,
    /// Use of the control group before the run; it is subtracted.
    pub(crate) baseline: Option<CgroupTotals>,
    /// Whether the control group may vanish at any moment: its counters are then stored at each
    /// sample.
    pub(crate) is_fleeting: bool,
    /// Whether the CPU quota belongs to a group that may vanish: its throttling is then stored at
    /// each sample.
    pub(crate) has_own_limit: bool,
}
