//! What runs, as the loop that measures it sees it: something that can be started, that reports its start, the
//! end of its main process and the end of its last one, and that can be asked to stop.

use std::io::Read;
use std::os::fd::RawFd;

use metier_types::MissingReason;

use crate::Error;
use crate::target_facts::TargetFacts;
use metier_linux::cgroup::{CgroupTotals, RunCgroup};
use metier_linux::process_events::ProcessRoot;

/// Resource use as `wait4` tells it; the layout is that of the launcher's `ProcessUsage`.
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
    /// Context switches because its turn was over.
    pub involuntary_switches: u64,
}

/// What happens to a run, in this order; rungs may come in between.
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
    /// The ladder reached this signal.
    Rung { signal: i32 },
    /// No process of it is left, except `stuck` that could not be killed.
    Gone {
        /// Processes that could not be killed.
        stuck: u64,
        /// By the monotonic clock.
        time_ns: u64,
        /// CPU time that looking after it took beside us.
        own_cpu_ns: u64,
        /// What was used, where somebody waited for every process.
        used: Option<ProcessUsage>,
    },
    /// It could not be started.
    Failed { stage: StartStage, errno: i32 },
    /// The main process has just ended; its status follows. A group that may vanish is to be read now.
    Ending,
    /// Nothing that anybody needs to know.
    Nothing,
    /// Whoever looked after it is gone.
    Lost,
}

/// Where a start can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStage {
    Fork,
    /// Entering the control group.
    Join,
    Exec,
}

/// Rungs at which the signal ladder can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRung {
    /// SIGINT, then the others.
    Interrupt,
    Terminate,
    Kill,
}

/// What only the one who ran it knows at the end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetOutcome {
    /// Whether the kernel killed something of it for want of memory.
    pub oom: bool,
    /// Why it ended so, in words for people.
    pub detail: Option<String>,
    /// How often, where somebody knows better than the run's group.
    pub oom_kills: Option<u64>,
    /// Bytes received and sent in its own network namespace, read at its end.
    pub network: Option<(u64, u64)>,
    /// Whether it was lost sight of before its end, for example with its node.
    pub lost: bool,
    /// Warnings for the record: code and text.
    pub warnings: Vec<(String, String)>,
}

/// Takes one file: its name as the run sees it, and its content. False: no more.
pub type FileSink<'a> = dyn FnMut(&str, &mut dyn Read) -> bool + 'a;

pub(crate) trait RunningTarget {
    /// Lets it start; gives the moment just before its first instruction by the monotonic clock.
    fn start(&mut self) -> Result<u64, Error>;
    /// The descriptor that becomes readable when a report is there.
    fn descriptor(&self) -> RawFd;
    /// The next report; called when the descriptor is readable.
    fn next_report(&mut self) -> TargetReport;
    /// Starts the signal ladder, or moves up it.
    fn escalate(&mut self, from: SignalRung);
    /// Whether an interrupt from our terminal reaches it without us.
    fn receives_terminal_signals(&self) -> bool {
        true
    }
    /// Whether the one who looks after it is in its control group, so that what that one spent is not the run's.
    fn is_supervisor_in_group(&self) -> bool {
        false
    }
    /// What only it knows; asked once, when the last process is gone.
    fn take_outcome(&mut self) -> TargetOutcome {
        TargetOutcome::default()
    }
    /// Hands over files that match patterns, where they are not simply files of this host. `None`: they are.
    fn export_files(&mut self, _patterns: &[String], _sink: &mut FileSink<'_>) -> Option<Result<(), String>> {
        None
    }
    /// Cleans up; nobody will ask anything any more.
    fn release(self: Box<Self>);
}

/// A run that waits to be let go.
pub struct PreparedRun {
    pub(crate) body: Box<dyn RunningTarget>,
    /// Its control group, or why it has none.
    pub(crate) group: Result<RunCgroup, MissingReason>,
    /// Which processes are the run.
    pub(crate) root: ProcessRoot,
    pub(crate) about: TargetFacts,
    /// What the group had used already, which is not the run's.
    pub(crate) baseline: Option<CgroupTotals>,
    /// Whether the group may vanish at any moment, so that its counters are to be kept at each sample.
    pub(crate) is_fleeting: bool,
    /// Whether its CPU limit is accounted in a group that vanishes, so that this is kept at each sample.
    pub(crate) has_own_limit: bool,
}
