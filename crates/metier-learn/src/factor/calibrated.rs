//! A factor model with intervals that hold for new workloads.

use serde::{Deserialize, Serialize};

use super::{Factored, Guess, Runs, Settings, shuffled};
use crate::conformal::{Calibration, Unseen};
use crate::random::mix;
use crate::{Error, Table, validate};

/// Largest number of measured runs with a separate calibration; more runs use the last one.
pub const MOST_RUNS: usize = 5;

/// Predicted time with an interval, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub seconds: f64,
    /// Lower end; `None` if too few workloads were held out for the coverage.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// A factor model and the calibration of its predictions for new workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    pub factored: Factored,
    /// Calibrations by number of measured runs of the new workload, starting with 0.
    by_runs: Vec<Calibration>,
}

impl Calibrated {
    /// Trains on all runs. Calibrates by cross-validation with `folds` folds, which hold out whole
    /// groups of workloads.
    pub fn fit(runs: &Runs, settings: &Settings, folds: usize) -> Result<Self, Error> {
        let factored = Factored::fit(runs, settings)?;
        let mut groups = Table::new(Vec::new());
        runs.groups.iter().try_for_each(|group| groups.push(&[], 0.0, *group))?;
        let mut unseen: Vec<Vec<Unseen>> = vec![Vec::new(); MOST_RUNS + 1];
        for split in validate::folds(&groups, folds, settings.seed)? {
            let rest = Factored::fit(&runs.only_workloads(&split.train), settings)?;
            for workload in split.test {
                let own: Vec<(usize, f64)> = runs
                    .runs
                    .iter()
                    .filter(|run| run.workload == workload)
                    .map(|run| (run.platform, run.log_seconds))
                    .collect();
                let order = shuffled(own.len(), mix(settings.seed ^ workload as u64));
                for (count, unseen) in unseen.iter_mut().enumerate() {
                    let measured: Vec<(usize, f64)> = order.iter().take(count).map(|at| own[*at]).collect();
                    let guess = rest.new_workload(runs.workloads.row(workload), &measured)?;
                    for at in order.iter().skip(count) {
                        let (predicted, variance) = guess.say(rest.platforms.row(own[*at].0));
                        let (scale, group) = (variance.sqrt(), runs.groups[workload]);
                        unseen.push(Unseen { measured: own[*at].1, predicted, scale, group });
                    }
                }
            }
        }
        let by_runs = unseen.iter().map(|rows| Calibration::new(rows)).collect::<Result<_, _>>()?;
        Ok(Self { factored, by_runs })
    }

    /// Predicts the time of a new workload with a partner's effect and factors, with an interval of
    /// this coverage.
    pub fn say(&self, guess: &Guess, partner: &[f64], coverage: f64) -> Interval {
        let (mean, variance) = guess.say(partner);
        let calibration = self.by_runs.get(guess.runs().min(MOST_RUNS));
        let reach = calibration.and_then(|one| one.reach(coverage)).map(|reach| reach * variance.sqrt());
        Interval {
            seconds: mean.exp(),
            low: reach.map(|reach| (mean - reach).exp()),
            high: reach.map(|reach| (mean + reach).exp()),
        }
    }
}
