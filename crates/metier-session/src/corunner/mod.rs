//! Co-runners: companions, which another run needs (`needs:`), and neighbours, which load the
//! device during it (`with:`).
//!
//! Each is a run with its own measuring process and its own record in the same store; a session
//! stays one run. They share an event log ([`log`]), so that each record lists the overlapping runs
//! and the length of each overlap.
//!
//! - Companions start first, one after the other, each after the previous one is ready. If a
//!   companion is not ready in time, the main run does not start, for that reason.
//! - Neighbours start next, and again each time they end, until the main run ends. A failed
//!   neighbour is not restarted.
//! - Co-runners stay for the whole batch: warm-up and all repetitions have the same companions.
//! - Afterwards all get INT, then TERM and KILL, neighbours first. No co-runner outlives metier.

mod child;
mod corun_observer;
pub mod log;
mod readiness_probe;

use std::cell::RefCell;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use metier_types::{CoRunner as Entry, CoRunnerKind, ExtraFields};

use child::CoRunnerProcess;
pub use child::run_name;
pub use corun_observer::{CoRunMembership, CoRunObserver};
use log::{CoRunEvent, CoRunLog, RunGroupRole};
pub use readiness_probe::{ReadinessObserver, describe_sign};

use crate::queue::MeasuringProgram;
use crate::runfile::{CheckedRun, quantity};

/// How long a co-runner without a readiness rule may take to start.
const MAX_START_TIME: Duration = Duration::from_secs(60);
/// How long a companion without a readiness rule must run before it counts as ready.
const MIN_LIFETIME: Duration = Duration::from_millis(100);
/// Interval between checks of the log.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Options to start co-runners with.
pub struct CompanionLauncher<'a> {
    /// The measuring program.
    pub launch: &'a MeasuringProgram,
    /// A private folder for files that live as long as the co-runners.
    pub folder: &'a Path,
    /// Whether the output of co-runners is hidden.
    pub is_quiet: bool,
    /// Whether runs are stored.
    pub has_store: bool,
    /// Whether a stop was requested.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// The co-runners of a run.
pub struct CoRunnerGroup {
    children: RefCell<Vec<CoRunnerProcess>>,
    membership: CoRunMembership,
}

impl CoRunnerGroup {
    /// Starts all co-runners and waits until the companions are ready. The error is the reason why
    /// the run cannot start.
    pub fn start(checked: &CheckedRun, launcher: &CompanionLauncher<'_>) -> Result<Self, String> {
        let mut folders = std::fs::DirBuilder::new();
        let made = folders.recursive(true).mode(0o700).create(launcher.folder);
        made.map_err(|error| {
            format!("cannot create the folder {} for its co-runners: {error}", launcher.folder.display())
        })?;
        let path = launcher.folder.join(format!("company-{}.log", metier_types::RunId::new()));
        let log = CoRunLog::create(path)
            .map_err(|error| format!("cannot create the log of its co-runners: {error}"))?;
        let mut company = Self {
            children: RefCell::default(),
            membership: CoRunMembership { part: RunGroupRole::Main, log },
        };
        let needs = checked.needs.iter().map(|other| (other, RunGroupRole::Companion));
        let with = checked.with.iter().map(|other| (other, RunGroupRole::Neighbour));
        for (other, part) in needs.chain(with) {
            company.add(other, part, launcher)?;
        }
        Ok(company)
    }

    fn add(
        &mut self,
        other: &CheckedRun,
        part: RunGroupRole,
        launcher: &CompanionLauncher<'_>,
    ) -> Result<(), String> {
        let what = if part == RunGroupRole::Companion { "needs" } else { "is to be measured with" };
        let log = &self.membership.log;
        let mut child = CoRunnerProcess::start(launcher, other, part, log).map_err(|error| {
            format!("{:?}, which it {what}, could not be started: {error}", run_name(other))
        })?;
        let (want, within) = match &other.ready {
            Some(ready) => (CoRunEvent::Ready, ready.within),
            None => (CoRunEvent::Start, MAX_START_TIME),
        };
        let started = Instant::now();
        let mut came: Option<Instant> = None;
        let settled = if part == RunGroupRole::Companion && other.ready.is_none() {
            MIN_LIFETIME
        } else {
            Duration::ZERO
        };
        loop {
            if came.is_none() && log.lines().iter().any(|line| line.run == child.run && line.event == want) {
                came = Some(Instant::now());
            }
            if came.is_some_and(|came| came.elapsed() >= settled) {
                break;
            }
            let name = child.name.clone();
            if (launcher.is_stopped)() {
                return Err(format!("asked to stop while {name:?} was getting ready"));
            }
            if let Some(status) = child.exit_status() {
                // The last line of its output may still be in the pipe.
                std::thread::sleep(Duration::from_millis(50));
                let text = child.last_message();
                let name_text = if text.is_empty() { status.to_string() } else { text };
                let before = match came {
                    Some(_) => " at once",
                    None if want == CoRunEvent::Ready => " before it was ready",
                    None => "",
                };
                return Err(format!("{name:?}, which it {what}, ended{before}: {name_text}"));
            }
            if came.is_none() && started.elapsed() > within {
                let within = quantity::duration_text(within);
                let sign = other
                    .ready
                    .as_ref()
                    .map_or("it did not start".to_string(), |ready| describe_sign(&ready.sign));
                return Err(format!("{name:?}, which it {what}, was not ready within {within}: {sign}"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.children.get_mut().push(child);
        Ok(())
    }

    /// The membership of the main run.
    pub fn membership(&self) -> &CoRunMembership {
        &self.membership
    }

    /// The co-runners that run now, for the record of a run that begins.
    pub fn present(&self) -> Vec<Entry> {
        let entry = |child: &CoRunnerProcess| Entry {
            run: child.run,
            name: child.name.clone(),
            role: if child.part == RunGroupRole::Companion {
                CoRunnerKind::Companion
            } else {
                CoRunnerKind::Neighbour
            },
            overlap_seconds: None,
            extra: ExtraFields::new(),
        };
        self.children.borrow().iter().map(entry).collect()
    }

    /// Names and exit statuses of the co-runners that ended before the main run.
    pub fn ended_early(&self) -> Vec<(String, ExitStatus)> {
        let mut children = self.children.borrow_mut();
        children
            .iter_mut()
            .filter_map(|child| child.exit_status().map(|status| (child.name.clone(), status)))
            .collect()
    }
}

impl Drop for CoRunnerGroup {
    /// Ends the co-runners one after the other, neighbours first.
    fn drop(&mut self) {
        let mut children = self.children.take();
        while let Some(at) = children.iter().rposition(|child| child.part == RunGroupRole::Neighbour) {
            children.swap_remove(at);
        }
        while let Some(child) = children.pop() {
            drop(child);
        }
        let _ = std::fs::remove_file(self.membership.log.path());
    }
}
