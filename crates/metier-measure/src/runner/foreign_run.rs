//! A run that another component started and supervises: a pod's container, whose control group a
//! kubelet created.
//!
//! The supervisor holds a [`ForeignReporter`] and reports events;
//! [`crate::MeasureSession::measure_foreign`] receives them, reads the group, and writes the record
//! as for any other run. The group is not changed or removed here.
//!
//! ```no_run
//! use metier_measure::runner::foreign_run::{ForeignEvent, ForeignRun};
//! use metier_measure::{MeasureSession, NoRecorder, RunSpec};
//! # fn example(session: &mut MeasureSession, spec: &RunSpec) -> Result<(), metier_measure::Error> {
//! let (mut pod, reporter) = ForeignRun::new()?;
//! // The container's main process on this host: its start and its groups are read from /proc.
//! pod.attach_process(4711);
//! // Called at the time limit or on an interrupt: delete the pod, or signal its processes.
//! pod.on_stop_request(Box::new(|rung| println!("stop requested from {rung:?}")));
//! std::thread::spawn(move || {
//!     // … wait for the container's end, as reported by the cluster, then:
//!     reporter.send_event(ForeignEvent::MainEnded { status: 0 << 8, time_ns: None });
//!     reporter.send_event(ForeignEvent::Gone(Default::default()));
//! });
//! let finished = session.measure_foreign(spec, pod.into_prepared_run(), &mut NoRecorder, &mut [])?;
//! println!("{:?}", finished.run.summary.cpu_seconds);
//! # Ok(()) }
//! ```
//!
//! For a run on another machine, leave out `attach_process`, and write the cluster's figures into
//! the record in [`crate::RunObserver::on_finish`]. If the run never starts, do not begin to
//! measure: [`crate::MeasureSession::record_unstarted`] stores a record with the reason.
//!
//! A group that vanishes with its container (the kubelet removes it within about a second) is read
//! at every sample and once more on `MainEnded`, so report that at once. The record has the last
//! values, as `sampled`. Prefer the group of the whole pod ([`ForeignRun::set_group`]), which
//! exists slightly longer.

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

/// Events that the supervisor of a run reports.
#[derive(Debug, Clone)]
pub enum ForeignEvent {
    /// The main process ended.
    MainEnded {
        /// As `wait` gives it: the exit code times 256, or the signal.
        status: i32,
        /// Time by the monotonic clock ([`metier_linux::wakeup::monotonic_ns`]); by default now.
        time_ns: Option<u64>,
    },
    /// The signal ladder sent this signal.
    Rung(i32),
    /// No process is left. The last event.
    Gone(TargetOutcome),
}

/// Reports the events of a run to its session. Dropping it without [`ForeignEvent::Gone`] means
/// that contact was lost.
pub struct ForeignReporter {
    sender: Sender<(ForeignEvent, u64)>,
    bell: Arc<OwnedFd>,
}

impl ForeignReporter {
    pub fn send_event(&self, event: ForeignEvent) {
        // A session that no longer receives needs no events.
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

/// Emits the files that a run produced. The error states what is missing.
pub type FileExporter = Box<dyn FnMut(&mut FileSink<'_>) -> Result<(), String>>;

/// A run that another component supervises.
pub struct ForeignRun {
    receiver: Receiver<(ForeignEvent, u64)>,
    bell: Arc<OwnedFd>,
    climb: Option<Box<dyn FnMut(SignalRung) + Send>>,
    files: Option<FileExporter>,
    outcome: TargetOutcome,
    folders: Option<GroupFolders>,
    pids: Vec<u32>,
    started_ns: Option<u64>,
    /// Facts for the record: image, pod, limits.
    pub about: TargetFacts,
    /// Use of the group before the run; it is subtracted.
    pub baseline: Option<CgroupTotals>,
}

impl ForeignRun {
    /// An empty run, with the reporter for its supervisor.
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

    /// Attaches the main process on this host: its end is watched, its start is the start of the
    /// run, and its control groups are read unless [`ForeignRun::set_group`] names others. False if
    /// the process does not exist.
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

    /// Sets the start by the monotonic clock, if it is known better than from its process.
    pub fn set_start(&mut self, monotonic_ns: u64) {
        self.started_ns = Some(monotonic_ns);
    }

    /// Sets the function that ends the run; it gets the rung at which the ladder starts.
    pub fn on_stop_request(&mut self, climb: Box<dyn FnMut(SignalRung) + Send>) {
        self.climb = Some(climb);
    }

    /// Sets the function that exports the run's files. Without one there are none, and the record
    /// says so.
    pub fn on_export_files(&mut self, files: FileExporter) {
        self.files = Some(files);
    }

    /// Converts it for [`crate::MeasureSession::measure_foreign`].
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
        // Never files of this host, which may have a file with the same name.
        Some(match &mut self.files {
            Some(files) => files(sink),
            None => Err("its files are not accessible from here, so none was kept".into()),
        })
    }

    fn release(self: Box<Self>) {}
}
