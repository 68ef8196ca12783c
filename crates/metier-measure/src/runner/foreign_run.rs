//! A run that somebody else started and looks after: a pod's container, whose control group a kubelet made.
//!
//! The one who looks after it keeps a [`Voice`] and says what happens; [`crate::MeasureSession::measure_foreign`] listens, reads
//! the group, and writes the record as for any other run. Nothing of the group is changed or removed here.
//!
//! ```no_run
//! use metier_measure::runner::foreign::{Foreign, Said};
//! use metier_measure::{NoRecorder, Session, Spec};
//! # fn example(session: &mut Session, spec: &Spec) -> Result<(), metier_measure::Error> {
//! let (mut pod, voice) = Foreign::new()?;
//! // The container's main process on this host: its start and its groups are read from /proc.
//! pod.found(4711);
//! // Asked when the time limit is reached or the user interrupts: delete the pod, or signal its processes.
//! pod.on_climb(Box::new(|rung| println!("asked to stop, from {rung:?}")));
//! std::thread::spawn(move || {
//!     // … wait for the container's end, as the cluster tells it, then:
//!     voice.say(Said::MainEnded { status: 0 << 8, time_ns: None });
//!     voice.say(Said::Gone(Default::default()));
//! });
//! let finished = session.measure(spec, pod.prepared(), &mut NoRecorder, &mut [])?;
//! println!("{:?}", finished.run.summary.cpu_seconds);
//! # Ok(()) }
//! ```
//!
//! Where the run is on another machine nothing is found here: leave out `found`, and fill the record's figures from
//! what the cluster says in an [`crate::observer::RunObserver::finish`]. Where it never starts, do not begin to measure:
//! [`crate::MeasureSession::unstarted`] keeps a record that says why.
//!
//! A group that vanishes with its container (the kubelet removes it within a second or so) is read at every sample
//! and once more when `MainEnded` is said, so say it at once; what was read last is what the record has, as `sampled`.
//! Prefer the group of the whole pod ([`ForeignRun::set_group`]), which stays a little longer.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use metier_types::{AccountingMethod, MissingReason};

use crate::Error;
use crate::running_target::{FileSink, PreparedRun, RunningTarget, SignalRung, TargetOutcome, TargetReport};
use crate::target_facts::TargetFacts;
use metier_linux::cgroup::{CgroupMembership, CgroupTotals, GroupFolders, RunCgroup};
use metier_linux::process_events::ProcessRoot;
use metier_linux::{KernelRoots, wakeup};

/// What the one who looks after the run has to say.
#[derive(Debug, Clone)]
pub enum ForeignEvent {
    /// The main process ended.
    MainEnded {
        /// As `wait` gives it: the exit code times 256, or the signal.
        status: i32,
        /// When, by the monotonic clock ([`metier_linux::next_wake::monotonic_ns`]); else now.
        time_ns: Option<u64>,
    },
    /// The ladder reached this signal.
    Rung(i32),
    /// Nothing of it is left. The last word.
    Gone(TargetOutcome),
}

/// Speaks for a run that somebody else looks after. Dropping it without [`Said::Gone`] means that it was lost sight of.
pub struct ForeignReporter {
    sender: Sender<(ForeignEvent, u64)>,
    bell: Arc<OwnedFd>,
}

impl ForeignReporter {
    pub fn send_event(&self, event: ForeignEvent) {
        // A session that has stopped listening needs nothing any more.
        let _ = self.sender.send((event, wakeup::monotonic_ns()));
        wakeup::signal_event(&self.bell);
    }
}

impl Drop for ForeignReporter {
    fn drop(&mut self) {
        let lost = TargetOutcome { lost: true, ..TargetOutcome::default() };
        self.send_event(ForeignEvent::Gone(lost));
    }
}

/// Hands over the files that a run left. The error says what is missing.
pub type FileExporter = Box<dyn FnMut(&mut FileSink<'_>) -> Result<(), String>>;

/// A run that somebody else looks after.
pub struct ForeignRun {
    receiver: Receiver<(ForeignEvent, u64)>,
    bell: Arc<OwnedFd>,
    climb: Option<Box<dyn FnMut(SignalRung) + Send>>,
    files: Option<FileExporter>,
    outcome: TargetOutcome,
    folders: Option<GroupFolders>,
    pids: Vec<u32>,
    started_ns: Option<u64>,
    /// What the record is to say of it: image, pod, limits.
    pub about: TargetFacts,
    /// What the group had used already and is not the run's own.
    pub baseline: Option<CgroupTotals>,
}

impl ForeignRun {
    /// A run of which nothing is known yet, and the voice of the one who looks after it.
    pub fn new() -> Result<(Self, ForeignReporter), Error> {
        let fail = |reason| Error::System { doing: "making an event descriptor", reason };
        let bell = Arc::new(wakeup::create_event().map_err(fail)?);
        let (sender, receiver) = channel();
        let about = TargetFacts { method: Some(AccountingMethod::Container), ..TargetFacts::default() };
        let foreign = Self {
            receiver,
            bell: bell.clone(),
            climb: None,
            files: None,
            outcome: TargetOutcome::default(),
            folders: None,
            pids: Vec::new(),
            started_ns: None,
            about,
            baseline: None,
        };
        Ok((foreign, ForeignReporter { sender, bell }))
    }

    /// Its main process on this host: it is followed, its start is the start of the run, and its control groups are
    /// what is read, unless [`ForeignRun::set_group`] says otherwise. False where there is no such process.
    pub fn attach_process(&mut self, pid: u32) -> bool {
        let roots = KernelRoots::default();
        let Some(started) = crate::process_walker::process_start_ns(&roots.proc, pid) else { return false };
        self.pids.push(pid);
        self.started_ns = self.started_ns.or(Some(started));
        if self.folders.is_none() {
            let place = CgroupMembership::read(&roots.proc, &pid.to_string());
            self.folders = Some(GroupFolders { v2: place.v2, v1: place.v1 });
        }
        true
    }

    pub fn set_group(&mut self, folders: GroupFolders) {
        self.folders = Some(folders);
    }

    /// When it started by the monotonic clock, where that is known better than from its process.
    pub fn set_start(&mut self, monotonic_ns: u64) {
        self.started_ns = Some(monotonic_ns);
    }

    /// Who is asked to end it, and from which rung of the ladder on.
    pub fn on_stop_request(&mut self, climb: Box<dyn FnMut(SignalRung) + Send>) {
        self.climb = Some(climb);
    }

    /// Who hands over the files that it left. Without anybody there are none, and the record says so.
    pub fn on_export_files(&mut self, files: FileExporter) {
        self.files = Some(files);
    }

    /// As [`crate::MeasureSession::measure_foreign`] takes it.
    pub fn into_prepared_run(mut self) -> PreparedRun {
        let group = self.folders.take().map(RunCgroup::from_existing).ok_or_else(|| {
            MissingReason::without_fix(
                "it ran on another machine, whose control groups cannot be read from here",
            )
        });
        PreparedRun {
            group,
            root: ProcessRoot::Processes(std::mem::take(&mut self.pids)),
            about: std::mem::take(&mut self.about),
            baseline: self.baseline.take(),
            is_fleeting: true,
            has_own_limit: true,
            body: Box::new(self),
        }
    }
}

impl RunningTarget for ForeignRun {
    fn start(&mut self) -> Result<u64, Error> {
        Ok(self.started_ns.unwrap_or_else(wakeup::monotonic_ns))
    }

    fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    fn next_report(&mut self) -> TargetReport {
        let report = match self.receiver.try_recv() {
            Ok((ForeignEvent::MainEnded { status, time_ns }, said_ns)) => {
                TargetReport::MainEnded { status, time_ns: time_ns.unwrap_or(said_ns) }
            }
            Ok((ForeignEvent::Rung(signal), _)) => TargetReport::Rung { signal },
            Ok((ForeignEvent::Gone(outcome), time_ns)) => {
                self.outcome = outcome;
                TargetReport::Gone { stuck: 0, time_ns, own_cpu_ns: 0, used: None }
            }
            Err(_) => TargetReport::Lost,
        };
        wakeup::consume_event(&self.bell);
        report
    }

    fn escalate(&mut self, from: SignalRung) {
        if let Some(climb) = &mut self.climb {
            climb(from);
        }
    }

    fn receives_terminal_signals(&self) -> bool {
        false
    }

    fn take_outcome(&mut self) -> TargetOutcome {
        std::mem::take(&mut self.outcome)
    }

    fn export_files(&mut self, _: &[String], sink: &mut FileSink<'_>) -> Option<Result<(), String>> {
        // Never those of this host, where a file of the same name may lie.
        Some(match &mut self.files {
            Some(files) => files(sink),
            None => Err("its files cannot be seen from here, so none was kept".into()),
        })
    }

    fn release(self: Box<Self>) {}
}
