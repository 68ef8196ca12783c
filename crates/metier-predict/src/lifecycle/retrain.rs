//! Retrains when new runs have arrived, and keeps the better predictor: one loop for every kind.
//!
//! Runs are taken as they come, and learned from when a [`RetrainTask`] finds enough of them. Both
//! wait until nothing is measured on the device, which they would disturb; runs whose measuring
//! program was killed are marked first. While no run arrives, a turn costs two counts.

use std::fmt::Display;
use std::time::{Duration, Instant};

use metier_linux::stop_request::StopRequest;
use metier_store::{RecordStore, RunFilter};
use metier_types::{Device, RunId, RunState};

use super::{LifecycleError, training_lock};

/// How often runs are looked for.
const RETRAIN_INTERVAL: Duration = Duration::from_secs(60);
/// How long a stop request waits at most.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What one kind of predictors learns from new runs.
pub trait RetrainTask {
    /// The kind, as [`training_lock`] knows it.
    const KIND: &'static str;
    type Fitted;
    type Error: From<LifecycleError> + Display;

    /// Takes what arrived. Returns how many runs have been looked at, now and before.
    fn take(&mut self, store: &RecordStore, device: &Device) -> Result<u64, Self::Error>;

    /// Learns where enough is new.
    fn learn(
        &mut self,
        store: &RecordStore,
        device: &Device,
        is_measuring: MeasuringCheck<'_>,
    ) -> Result<RetrainOutcome<Self::Fitted>, Self::Error>;
}

/// Whether something is measured on the device at this moment; asked before each fit.
pub type MeasuringCheck<'a> = &'a dyn Fn() -> Result<bool, LifecycleError>;

/// What a task learned.
#[derive(Debug)]
pub struct RetrainOutcome<F> {
    pub fitted: Vec<F>,
    /// Whether it left something for the next turn, because something was being measured.
    pub is_interrupted: bool,
}

/// Marks the runs of a device as interrupted whose measuring program is gone, and names them. The
/// run engine does it (`metier_measure::leftovers`), on which no predictor depends.
pub type RunSweeper<'a> = &'a dyn Fn(&RecordStore, &Device) -> Result<Vec<RunId>, String>;

/// How many runs have ended, on whatever device, and the newest of them.
type ArrivedRuns = (u64, Option<RunId>);

/// A task with what it has seen.
#[derive(Debug)]
pub struct PredictorRetrainer<T> {
    task: T,
    /// What had arrived when all of it had been looked at.
    seen: Option<ArrivedRuns>,
    /// Runs that had been looked at when nothing was left to learn.
    settled: Option<u64>,
}

impl<T: RetrainTask> PredictorRetrainer<T> {
    pub const fn new(task: T) -> Self {
        Self { task, seen: None, settled: None }
    }

    /// Takes new runs, and learns where enough is new.
    pub fn turn(
        &mut self,
        store: &RecordStore,
        device: &Device,
        sweep: RunSweeper<'_>,
    ) -> Result<Vec<T::Fitted>, T::Error> {
        sweep_runs(store, device, sweep)?;
        // Before anything is taken: what arrives meanwhile is for the next turn.
        let arrived = arrived(store)?;
        if self.seen == Some(arrived) {
            return Ok(Vec::new());
        }
        let is_measuring = || -> Result<bool, LifecycleError> {
            Ok(has_running(store, device)? || training_lock::is_held_by_any(store, device, T::KIND)?)
        };
        if is_measuring()? {
            tracing::debug!("new runs wait: something is being measured");
            return Ok(Vec::new());
        }
        let looked = self.task.take(store, device)?;
        let mut fitted = Vec::new();
        if self.settled != Some(looked) {
            let learned = self.task.learn(store, device, &is_measuring)?;
            fitted = learned.fitted;
            if learned.is_interrupted {
                return Ok(fitted);
            }
        }
        (self.seen, self.settled) = (Some(arrived), Some(looked));
        Ok(fitted)
    }

    /// Takes turns until it is asked to stop, at the lowest priority. Call it from a thread of its
    /// own.
    pub fn run(mut self, store: &RecordStore, device: &Device, sweep: RunSweeper<'_>, stop: &StopRequest) {
        // SAFETY: the call changes the priority of the calling thread and nothing else.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) } != 0 {
            tracing::debug!("learning has the priority of everything else");
        }
        while !stop.is_requested() {
            if let Err(error) = self.turn(store, device, sweep) {
                tracing::warn!(%error, "nothing was learned from new runs; trying again");
            }
            let begin = Instant::now();
            while begin.elapsed() < RETRAIN_INTERVAL && !stop.is_requested() {
                std::thread::sleep(STOP_POLL_INTERVAL);
            }
        }
    }
}

fn arrived(store: &RecordStore) -> Result<ArrivedRuns, LifecycleError> {
    let filter = RunFilter { state: Some(RunState::Finished), limit: 1, ..RunFilter::default() };
    let found = store.runs(&filter)?;
    Ok((found.total, found.runs.first().map(|run| run.id)))
}

fn has_running(store: &RecordStore, device: &Device) -> Result<bool, LifecycleError> {
    let filter = RunFilter {
        device: Some(device.id.to_string()),
        state: Some(RunState::Running),
        limit: 1,
        ..RunFilter::default()
    };
    Ok(store.runs(&filter)?.total > 0)
}

/// Marks runs whose measuring program was killed: else nothing would ever be learned beside them.
fn sweep_runs(store: &RecordStore, device: &Device, sweep: RunSweeper<'_>) -> Result<(), LifecycleError> {
    if !has_running(store, device)? {
        return Ok(());
    }
    match sweep(store, device) {
        Ok(runs) if runs.is_empty() => {}
        Ok(runs) => {
            tracing::info!(runs = runs.len(), "marked runs as interrupted whose measuring program is gone");
        }
        Err(error) => tracing::warn!(%error, "runs of programs that are gone could not be marked"),
    }
    Ok(())
}
