//! A run that somebody else started and looks after: a pod's container, whose control group a kubelet made.
//!
//! The one who looks after it keeps a [`Voice`] and says what happens; [`crate::Session::measure`] listens, reads
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
//! what the cluster says in an [`crate::observer::Observer::finish`]. Where it never starts, do not begin to measure:
//! [`crate::Session::unstarted`] keeps a record that says why.
//!
//! A group that vanishes with its container (the kubelet removes it within a second or so) is read at every sample
//! and once more when `MainEnded` is said, so say it at once; what was read last is what the record has, as `sampled`.
//! Prefer the group of the whole pod ([`Foreign::group`]), which stays a little longer.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use metier_types::{Method, Missing};

use crate::Error;
use crate::running_target::{Outcome, PreparedRun, Report, Rung, RunningTarget, Sink};
use crate::target_facts::TargetFacts;
use metier_linux::cgroup::{Group, GroupFolders, Place, Totals};
use metier_linux::events::ProcessRoot;
use metier_linux::{Roots, wake};

/// What the one who looks after the run has to say.
#[derive(Debug, Clone)]
pub enum Said {
    /// The main process ended.
    MainEnded {
        /// As `wait` gives it: the exit code times 256, or the signal.
        status: i32,
        /// When, by the monotonic clock ([`metier_linux::wake::monotonic_ns`]); else now.
        time_ns: Option<u64>,
    },
    /// The ladder reached this signal.
    Rung(i32),
    /// Nothing of it is left. The last word.
    Gone(Outcome),
}

/// Speaks for a run that somebody else looks after. Dropping it without [`Said::Gone`] means that it was lost sight of.
pub struct Voice {
    sender: Sender<(Said, u64)>,
    bell: Arc<OwnedFd>,
}

impl Voice {
    pub fn say(&self, said: Said) {
        // A session that has stopped listening needs nothing any more.
        let _ = self.sender.send((said, wake::monotonic_ns()));
        wake::ring(&self.bell);
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        let lost = Outcome { lost: true, ..Outcome::default() };
        self.say(Said::Gone(lost));
    }
}

/// Hands over the files that a run left. The error says what is missing.
pub type HandOver = Box<dyn FnMut(&mut Sink<'_>) -> Result<(), String>>;

/// A run that somebody else looks after.
pub struct Foreign {
    receiver: Receiver<(Said, u64)>,
    bell: Arc<OwnedFd>,
    climb: Option<Box<dyn FnMut(Rung) + Send>>,
    files: Option<HandOver>,
    outcome: Outcome,
    folders: Option<GroupFolders>,
    pids: Vec<u32>,
    started_ns: Option<u64>,
    /// What the record is to say of it: image, pod, limits.
    pub about: TargetFacts,
    /// What the group had used already and is not the run's own.
    pub baseline: Option<Totals>,
}

impl Foreign {
    /// A run of which nothing is known yet, and the voice of the one who looks after it.
    pub fn new() -> Result<(Self, Voice), Error> {
        let fail = |reason| Error::System { doing: "making an event descriptor", reason };
        let bell = Arc::new(wake::bell().map_err(fail)?);
        let (sender, receiver) = channel();
        let about = TargetFacts { method: Some(Method::Container), ..TargetFacts::default() };
        let foreign = Self {
            receiver,
            bell: bell.clone(),
            climb: None,
            files: None,
            outcome: Outcome::default(),
            folders: None,
            pids: Vec::new(),
            started_ns: None,
            about,
            baseline: None,
        };
        Ok((foreign, Voice { sender, bell }))
    }

    /// Its main process on this host: it is followed, its start is the start of the run, and its control groups are
    /// what is read, unless [`Foreign::group`] says otherwise. False where there is no such process.
    pub fn found(&mut self, pid: u32) -> bool {
        let roots = Roots::default();
        let Some(started) = crate::tree::started_ns(&roots.proc, pid) else { return false };
        self.pids.push(pid);
        self.started_ns = self.started_ns.or(Some(started));
        if self.folders.is_none() {
            let place = Place::of(&roots.proc, &pid.to_string());
            self.folders = Some(GroupFolders { v2: place.v2, v1: place.v1 });
        }
        true
    }

    pub fn group(&mut self, folders: GroupFolders) {
        self.folders = Some(folders);
    }

    /// When it started by the monotonic clock, where that is known better than from its process.
    pub fn started_at(&mut self, monotonic_ns: u64) {
        self.started_ns = Some(monotonic_ns);
    }

    /// Who is asked to end it, and from which rung of the ladder on.
    pub fn on_climb(&mut self, climb: Box<dyn FnMut(Rung) + Send>) {
        self.climb = Some(climb);
    }

    /// Who hands over the files that it left. Without anybody there are none, and the record says so.
    pub fn on_files(&mut self, files: HandOver) {
        self.files = Some(files);
    }

    /// As [`crate::Session::measure`] takes it.
    pub fn prepared(mut self) -> PreparedRun {
        let group = self.folders.take().map(Group::of).ok_or_else(|| {
            Missing::because("it ran on another machine, whose control groups cannot be read from here")
        });
        PreparedRun {
            group,
            root: ProcessRoot::These(std::mem::take(&mut self.pids)),
            about: std::mem::take(&mut self.about),
            baseline: self.baseline.take(),
            is_fleeting: true,
            has_own_limit: true,
            body: Box::new(self),
        }
    }
}

impl RunningTarget for Foreign {
    fn start(&mut self) -> Result<u64, Error> {
        Ok(self.started_ns.unwrap_or_else(wake::monotonic_ns))
    }

    fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    fn report(&mut self) -> Report {
        let report = match self.receiver.try_recv() {
            Ok((Said::MainEnded { status, time_ns }, said_ns)) => {
                Report::MainEnded { status, time_ns: time_ns.unwrap_or(said_ns) }
            }
            Ok((Said::Rung(signal), _)) => Report::Rung { signal },
            Ok((Said::Gone(outcome), time_ns)) => {
                self.outcome = outcome;
                Report::Gone { stuck: 0, time_ns, own_cpu_ns: 0, used: None }
            }
            Err(_) => Report::Lost,
        };
        wake::answer(&self.bell);
        report
    }

    fn climb(&mut self, from: Rung) {
        if let Some(climb) = &mut self.climb {
            climb(from);
        }
    }

    fn hears_terminal(&self) -> bool {
        false
    }

    fn outcome(&mut self) -> Outcome {
        std::mem::take(&mut self.outcome)
    }

    fn files(&mut self, _: &[String], sink: &mut Sink<'_>) -> Option<Result<(), String>> {
        // Never those of this host, where a file of the same name may lie.
        Some(match &mut self.files {
            Some(files) => files(sink),
            None => Err("its files cannot be seen from here, so none was kept".into()),
        })
    }

    fn release(self: Box<Self>) {}
}
