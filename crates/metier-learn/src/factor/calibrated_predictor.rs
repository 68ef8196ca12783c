//! A factor model with intervals that hold for new workloads.

use serde::{Deserialize, Serialize};

use super::{FactorPosterior, FactorPredictor, FactorTrainingSet, Settings, shuffle_indices};
use crate::conformal::{CalibrationRow, ConformalCalibration};
use crate::random::mix_bits;
use crate::{Error, TrainingTable, cross_validation};

/// Largest number of measured runs with a separate calibration; more runs use the last one.
pub const MAX_CALIBRATED_RUNS: usize = 5;

/// Predicted time with an interval, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuntimeInterval {
    pub seconds: f64,
    /// Lower end; `None` if too few workloads were held out for the coverage.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// A factor model and the calibration of its predictions for new workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibratedFactorPredictor {
    pub factored: FactorPredictor,
    /// Calibrations by number of measured runs of the new workload, starting with 0.
    by_runs: Vec<ConformalCalibration>,
}

impl CalibratedFactorPredictor {
    /// Trains on all runs. Calibrates by cross-validation with `folds` folds, which hold out whole
    /// groups of workloads.
    pub fn fit(runs: &FactorTrainingSet, settings: &Settings, folds: usize) -> Result<Self, Error> {
        let factored = FactorPredictor::fit(runs, settings)?;
        let mut groups = TrainingTable::new(Vec::new());
        runs.groups.iter().try_for_each(|group| groups.push_row(&[], 0.0, *group))?;
        let mut unseen: Vec<Vec<CalibrationRow>> = vec![Vec::new(); MAX_CALIBRATED_RUNS + 1];
        for split in cross_validation::group_folds(&groups, folds, settings.seed)? {
            let rest = FactorPredictor::fit(&runs.select_workloads(&split.train), settings)?;
            for workload in split.test {
                let own: Vec<(usize, f64)> = runs
                    .runs
                    .iter()
                    .filter(|run| run.workload == workload)
                    .map(|run| (run.platform, run.log_seconds))
                    .collect();
                let order = shuffle_indices(own.len(), mix_bits(settings.seed ^ workload as u64));
                for (count, unseen) in unseen.iter_mut().enumerate() {
                    let measured: Vec<(usize, f64)> = order.iter().take(count).map(|at| own[*at]).collect();
                    let guess = rest.estimate_workload(runs.workloads.row(workload), &measured)?;
                    for at in order.iter().skip(count) {
                        let (predicted, variance) = guess.predict_log_seconds(rest.platforms.row(own[*at].0));
                        let (scale, group) = (variance.sqrt(), runs.groups[workload]);
                        unseen.push(CalibrationRow { measured: own[*at].1, predicted, scale, group });
                    }
                }
            }
        }
        let by_runs = unseen.iter().map(|rows| ConformalCalibration::new(rows)).collect::<Result<_, _>>()?;
        Ok(Self { factored, by_runs })
    }

    /// Predicts the time of a new workload with a partner's effect and factors, with an interval of
    /// this coverage.
    pub fn predict_interval(
        &self,
        guess: &FactorPosterior,
        partner: &[f64],
        coverage: f64,
    ) -> RuntimeInterval {
        let (mean, variance) = guess.predict_log_seconds(partner);
        let calibration = self.by_runs.get(guess.runs().min(MAX_CALIBRATED_RUNS));
        let reach = calibration
            .and_then(|calibration| calibration.interval_factor(coverage))
            .map(|reach| reach * variance.sqrt());
        RuntimeInterval {
            seconds: mean.exp(),
            low: reach.map(|reach| (mean - reach).exp()),
            high: reach.map(|reach| (mean + reach).exp()),
        }
    }
}
