//! Retrains latency and memory predictors on newly measured runs of graphs
//! ([`crate::lifecycle::retrain`]).
//!
//! The outcome is logged and stored in the predictor's record (`because`).

use std::collections::BTreeSet;

use metier_store::RecordStore;
use metier_types::{Device, Passport, PredictorStanding, RunId};

use super::conditions::{ONNX_RUNTIME, RTEN};
use super::fit::{self, LatencyFit};
use super::learned_predictor::KIND;
use super::run_trials::{self, RunIntakeResult};
use super::{LatencyError, memory};
use crate::lifecycle::retrain::{MeasuringCheck, RetrainOutcome, RetrainTask};
use crate::lifecycle::standing;

/// Number of new points that triggers retraining; one point of a new graph suffices as well.
const MIN_NEW_POINTS: usize = 5;

/// New training data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewPoints {
    /// No points beyond those of the last predictor.
    None,
    /// Too few points.
    TooFew { points: usize },
    Enough {
        points: usize,
        /// Number of graphs that are new to the last predictor.
        graphs: usize,
    },
}

/// Points measured since the last training of a runtime's predictor.
pub fn new_points(store: &RecordStore, device: &Device, runtime: &str) -> Result<NewPoints, LatencyError> {
    let last = fit::newest(store, &device.id, runtime)?;
    let known = fit::usable_trials(store, &device.id, runtime)?;
    let learned: BTreeSet<RunId> = last.iter().flat_map(|predictor| predictor.runs.iter().copied()).collect();
    let seen: BTreeSet<&str> = last.iter().flat_map(fit::graphs_of).collect();
    let fresh: Vec<_> =
        known.iter().filter(|record| record.run.is_some_and(|run| !learned.contains(&run))).collect();
    let graphs: BTreeSet<&str> =
        fresh.iter().map(|record| record.name.as_str()).filter(|name| !seen.contains(*name)).collect();
    Ok(match (fresh.len(), graphs.len()) {
        (0, _) => NewPoints::None,
        (points, 0) if points < MIN_NEW_POINTS => NewPoints::TooFew { points },
        (points, graphs) => NewPoints::Enough { points, graphs },
    })
}

/// Latency and memory of every runtime.
pub struct LatencyRetraining<'a> {
    /// Returns the device's current passport at training time.
    pub passport: &'a dyn Fn() -> Option<Passport>,
}

impl RetrainTask for LatencyRetraining<'_> {
    const KIND: &'static str = KIND;
    type Fitted = LatencyFit;
    type Error = LatencyError;

    fn take(&mut self, store: &RecordStore, device: &Device) -> Result<u64, LatencyError> {
        let RunIntakeResult { points, known, left_out } = run_trials::import_runs(store, &device.id, false)?;
        // Imported runs of other devices update the transfers to them.
        for other in store.devices()?.iter().filter(|other| other.id != device.id) {
            let taken = run_trials::import_runs(store, &other.id, false)?;
            if taken.points > 0 {
                tracing::info!(points = taken.points, device = %other.name, "imported runs of graphs");
            }
        }
        if points > 0 {
            tracing::info!(points, "runs of graphs were taken to learn from");
        }
        for (why, runs) in &left_out {
            tracing::debug!(runs, why, "runs of graphs were left out");
        }
        Ok(known + points + left_out.values().sum::<u64>())
    }

    fn learn(
        &mut self,
        store: &RecordStore,
        device: &Device,
        is_measuring: MeasuringCheck<'_>,
    ) -> Result<RetrainOutcome<LatencyFit>, LatencyError> {
        let mut fitted = Vec::new();
        for runtime in [RTEN, ONNX_RUNTIME] {
            // The memory fit is cheap enough for every round.
            if let Some(record) = memory::fit(store, device, runtime)? {
                let because = standing::reason(&record).unwrap_or_default();
                tracing::info!(runtime, predictor = %record.id, because, "learned how much memory graphs need");
            }
            let NewPoints::Enough { points, graphs } = new_points(store, device, runtime)? else { continue };
            if is_measuring()? {
                tracing::debug!(runtime, "learning waits: something is being measured");
                return Ok(RetrainOutcome { fitted, is_interrupted: true });
            }
            match fit::fit(store, device, (self.passport)(), runtime) {
                Ok(fit) => {
                    let because = standing::reason(&fit.record).unwrap_or_default();
                    let is_used = fit.record.standing == PredictorStanding::InUse;
                    let predictor = fit.record.id;
                    tracing::info!(runtime, points, graphs, %predictor, is_used, because, "learned again");
                    fitted.push(fit);
                }
                // Runs without operator times cannot train a first predictor; they only correct an
                // existing one.
                Err(LatencyError::Learn(error @ metier_learn::Error::TooFewItems { .. })) => {
                    tracing::info!(runtime, %error, "nothing was learned from new runs");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(RetrainOutcome { fitted, is_interrupted: false })
    }
}

#[cfg(test)]
mod tests;
