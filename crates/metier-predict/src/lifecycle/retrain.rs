//! Retrains after new runs and keeps the better predictor: one loop for all kinds.
//!
//! Each round imports new runs; a [`RetrainTask`] trains once there are enough. Both wait while a
//! measurement runs on the device, which they would disturb. Before that, runs of killed processes
//! are marked as interrupted. Without new runs a round costs two count queries.

use std::fmt::Display;
use std::time::{Duration, Instant};

use metier_linux::stop_request::StopRequest;
use metier_store::{RecordStore, RunFilter};
use metier_types::{Device, RunId, RunState};

use super::{LifecycleError, training_lock};

/// Time between rounds.
const RETRAIN_INTERVAL: Duration = Duration::from_secs(60);
/// Longest delay of a stop request.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Retraining of one kind of predictors.
pub trait RetrainTask {
    /// Name of the kind for [`training_lock`].
    const KIND: &'static str;
    type Fitted;
    type Error: From<LifecycleError> + Display;

    /// Imports new runs. Returns the number of runs considered so far.
    fn take(&mut self, store: &RecordStore, device: &Device) -> Result<u64, Self::Error>;

    /// Trains if there is enough new data.
    fn learn(
        &mut self,
        store: &RecordStore,
        device: &Device,
        is_measuring: MeasuringCheck<'_>,
    ) -> Result<RetrainOutcome<Self::Fitted>, Self::Error>;
}

/// Whether a measurement runs on the device now; called before each fit.
pub type MeasuringCheck<'a> = &'a dyn Fn() -> Result<bool, LifecycleError>;

/// Result of a task.
#[derive(Debug)]
pub struct RetrainOutcome<F> {
    pub fitted: Vec<F>,
    /// Whether work is left for the next round because a measurement started.
    pub is_interrupted: bool,
}

/// Marks runs of killed processes as interrupted and returns them. The run engine implements it
/// (`metier_measure::leftovers`); predictors do not depend on that crate.
pub type RunSweeper<'a> = &'a dyn Fn(&RecordStore, &Device) -> Result<Vec<RunId>, String>;

/// Number of finished runs on all devices, and the newest.
type ArrivedRuns = (u64, Option<RunId>);

/// A task with its progress.
#[derive(Debug)]
pub struct PredictorRetrainer<T> {
    task: T,
    /// Finished runs when all had been considered.
    seen: Option<ArrivedRuns>,
    /// Number of considered runs when no training was left.
    settled: Option<u64>,
}

impl<T: RetrainTask> PredictorRetrainer<T> {
    pub const fn new(task: T) -> Self {
        Self { task, seen: None, settled: None }
    }

    /// One round: imports new runs and trains if there are enough.
    pub fn turn(
        &mut self,
        store: &RecordStore,
        device: &Device,
        sweep: RunSweeper<'_>,
    ) -> Result<Vec<T::Fitted>, T::Error> {
        sweep_runs(store, device, sweep)?;
        // Read before the import: later arrivals belong to the next round.
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

    /// Runs rounds until stopped, at the lowest priority. Must run on its own thread.
    pub fn run(mut self, store: &RecordStore, device: &Device, sweep: RunSweeper<'_>, stop: &StopRequest) {
        // SAFETY: the call only changes the priority of the calling thread.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) } != 0 {
            tracing::debug!("learning has the priority of everything else");
        }
        while !stop.is_requested() {
            if let Err(error) = self.turn(store, device, sweep) {
                tracing::warn!(%error, "training on new runs failed; trying again");
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

/// Marks runs of killed processes; otherwise they would block training forever.
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
