//! Co-runners: runs that another run needs (`needs:`), and runs that are put beside it (`with:`).
//!
//! Each is a run too, measured by a process of its own with a record of its own in the same store; a session stays one run. They
//! talk through a file of lines ([`log`]), so that each record tells whom the run met and for how long.
//!
//! - Companions are started one after the other, before everything else, and each has to be ready before the next. A
//!   companion that does not come up, or not in time, is the reason why the run never started.
//! - Neighbours are started next, and again each time they end, until the main run ends; one that fails is not started again.
//! - Co-runners stay for the whole batch: warm-up and all repetitions meet the same companions.
//! - Afterwards all are asked to end (INT, then the ladder), neighbours first. None outlives us.

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

/// How long a run may take to start at all.
const MAX_START_TIME: Duration = Duration::from_secs(60);
/// How long one that is needed, and says nothing of when it is ready, must have lived.
const MIN_LIFETIME: Duration = Duration::from_millis(100);
/// How often it is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How co-runners are started.
pub struct CompanionLauncher<'a> {
    /// How the measuring program is started.
    pub launch: &'a MeasuringProgram,
    /// A private folder for files that live as long as the co-runners.
    pub folder: &'a Path,
    /// Whether its output is not shown.
    pub is_quiet: bool,
    /// Whether runs are kept.
    pub has_store: bool,
    /// Whether somebody wants us to stop.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Runs that keep another one company.
pub struct CoRunnerGroup {
    children: RefCell<Vec<CoRunnerProcess>>,
    membership: CoRunMembership,
}

impl CoRunnerGroup {
    /// Starts all, and waits until those that are needed are ready. An error is why the run cannot start.
    pub fn start(checked: &CheckedRun, launcher: &CompanionLauncher<'_>) -> Result<Self, String> {
        let mut folders = std::fs::DirBuilder::new();
        let made = folders.recursive(true).mode(0o700).create(launcher.folder);
        made.map_err(|error| format!("its company has no folder {}: {error}", launcher.folder.display()))?;
        let path = launcher.folder.join(format!("company-{}.log", metier_types::RunId::new()));
        let log = CoRunLog::create(path).map_err(|error| format!("its company cannot talk: {error}"))?;
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
                // What it said last may still be on its way.
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

    /// What the main run needs to be one of them.
    pub fn membership(&self) -> &CoRunMembership {
        &self.membership
    }

    /// Who is there now, for a record that begins.
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

    /// Those who are gone although they are still wanted: their names, and how they ended.
    pub fn ended_early(&self) -> Vec<(String, ExitStatus)> {
        let mut children = self.children.borrow_mut();
        children
            .iter_mut()
            .filter_map(|child| child.exit_status().map(|status| (child.name.clone(), status)))
            .collect()
    }
}

impl Drop for CoRunnerGroup {
    /// Asks all to end at once, neighbours first, and waits for each.
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
