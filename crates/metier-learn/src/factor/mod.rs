//! Run time of workloads on platforms, learned from the measured pairs by matrix factorisation.
//!
//! `log time = level + workload + platform + Σ workload factor · platform factor`, fitted to the
//! measured runs ([`alternating_least_squares`]). Features of a workload (such as opcode counts)
//! and of a platform (its passport) predict their effects and factors ([`solve_rows`]), so that an
//! unmeasured one has a prediction. Each measured run then corrects it in proportion to the prior
//! covariance ([`predict_factors`]). Intervals are calibrated on held-out workloads
//! ([`calibrated_predictor`]), separately for each number of measured runs.

mod alternating_least_squares;
mod calibrated_predictor;
mod kernel_ridge;
mod posterior;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use calibrated_predictor::{CalibratedFactorPredictor, RuntimeInterval};
pub use kernel_ridge::KernelRidge;
pub use posterior::FactorPosterior;

use crate::linear_algebra::{DenseMatrix, dot_product};
use crate::{Error, random};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunObservation {
    pub workload: usize,
    pub platform: usize,
    /// Natural logarithm of the seconds.
    pub log_seconds: f64,
}

/// Measured runs, with features of workloads and platforms.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorTrainingSet {
    /// Features of the workloads, one row each.
    pub workloads: DenseMatrix,
    /// Features of the platforms, one row each.
    pub platforms: DenseMatrix,
    /// Program of each workload; workloads of one program are held out together.
    pub groups: Vec<u64>,
    pub runs: Vec<RunObservation>,
}

impl FactorTrainingSet {
    fn validate(&self) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::Table { why });
        let (workloads, platforms) = (self.workloads.rows(), self.platforms.rows());
        if self.groups.len() != workloads {
            return wrong(format!("{} groups for {workloads} workloads", self.groups.len()));
        }
        for run in &self.runs {
            if run.workload >= workloads || run.platform >= platforms || !run.log_seconds.is_finite() {
                return wrong(format!("{run:?} among {workloads} workloads and {platforms} platforms"));
            }
        }
        for (what, got) in [("workloads", workloads), ("platforms", platforms), ("runs", self.runs.len())] {
            if got < 3 {
                return Err(Error::TooFewItems {
                    what,
                    got,
                    want: 3,
                    purpose: "tell workloads from platforms",
                });
            }
        }
        Ok(())
    }

    /// Selects the runs of these workloads, which are renumbered.
    pub fn select_workloads(&self, keep: &[usize]) -> Self {
        let mut place = vec![None; self.workloads.rows()];
        keep.iter().enumerate().for_each(|(new, old)| place[*old] = Some(new));
        let moved =
            |run: &RunObservation| place[run.workload].map(|workload| RunObservation { workload, ..*run });
        Self {
            workloads: self.workloads.select_rows(keep),
            platforms: self.platforms.clone(),
            groups: keep.iter().map(|old| self.groups[*old]).collect(),
            runs: self.runs.iter().filter_map(moved).collect(),
        }
    }

    /// Selects the runs on these platforms, which are renumbered.
    pub fn select_platforms(&self, keep: &[usize]) -> Self {
        let mut place = vec![None; self.platforms.rows()];
        keep.iter().enumerate().for_each(|(new, old)| place[*old] = Some(new));
        let moved =
            |run: &RunObservation| place[run.platform].map(|platform| RunObservation { platform, ..*run });
        Self {
            workloads: self.workloads.clone(),
            platforms: self.platforms.select_rows(keep),
            groups: self.groups.clone(),
            runs: self.runs.iter().filter_map(moved).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Number of interacting factors, besides the effects.
    pub rank: usize,
    /// Ridge of the factors.
    pub ridge: f64,
    /// Number of alternating rounds.
    pub rounds: usize,
    /// Seed of the initial factors.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { rank: 16, ridge: 0.5, rounds: 40, seed: 1 }
    }
}

impl Settings {
    /// Chooses rank and ridge by the error on a tenth of the runs, held out by hash.
    pub fn tune(runs: &FactorTrainingSet, seed: u64) -> Result<Self, Error> {
        let is_held = |run: &RunObservation| {
            let pair = random::mix_bits(((run.workload as u64) << 32) | run.platform as u64);
            crate::cross_validation::is_held_out(pair, 0.1, seed)
        };
        let (held, train): (Vec<RunObservation>, Vec<RunObservation>) =
            runs.runs.iter().copied().partition(is_held);
        let rest = FactorTrainingSet { runs: train, ..runs.clone() };
        rest.validate()?;
        let mut best: Option<(f64, Self)> = None;
        for rank in [4, 8, 16] {
            for ridge in [0.1, 0.3, 1.0, 3.0] {
                let settings = Self { rank, ridge, seed, ..Self::default() };
                let solved = alternating_least_squares::solve_als(&rest, &settings)?;
                let missed = |run: &RunObservation| {
                    let value = combine_factors(
                        solved.level,
                        solved.workloads.row(run.workload),
                        solved.platforms.row(run.platform),
                    );
                    (value - run.log_seconds).abs()
                };
                let loss: f64 = held.iter().map(missed).sum();
                if best.as_ref().is_none_or(|best| loss < best.0) {
                    best = Some((loss, settings));
                }
            }
        }
        Ok(best.map_or_else(Self::default, |best| best.1))
    }
}

/// A fitted factor model. Each workload and platform has an effect, then its factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorPredictor {
    /// Mean of all logarithms.
    pub level: f64,
    /// Residual variance.
    pub noise: f64,
    /// Effect and factors of each workload.
    pub workloads: DenseMatrix,
    /// Effect and factors of each platform.
    pub platforms: DenseMatrix,
    /// Predicts effect and factors from a workload's features.
    pub of_workload: KernelRidge,
    /// Predicts effect and factors from a platform's features.
    pub of_platform: KernelRidge,
}

impl FactorPredictor {
    pub fn fit(runs: &FactorTrainingSet, settings: &Settings) -> Result<Self, Error> {
        runs.validate()?;
        if !(settings.ridge > 0.0 && settings.ridge.is_finite()) {
            let got = settings.ridge.to_string();
            return Err(Error::Setting { field: "ridge", got, want: "above 0" });
        }
        if settings.rank > 64 {
            let got = settings.rank.to_string();
            return Err(Error::Setting { field: "rank", got, want: "at most 64" });
        }
        let alternating_least_squares::AlsSolution { level, noise, workloads, platforms } =
            alternating_least_squares::solve_als(runs, settings)?;
        let of_workload = KernelRidge::fit(&runs.workloads, &workloads)?;
        let of_platform = KernelRidge::fit(&runs.platforms, &platforms)?;
        Ok(Self { level, noise, workloads, platforms, of_workload, of_platform })
    }

    /// Predicts the logarithm of the seconds for a workload and a platform of the training set.
    pub fn predict_log_seconds(&self, workload: usize, platform: usize) -> f64 {
        combine_factors(self.level, self.workloads.row(workload), self.platforms.row(platform))
    }

    /// Estimates a new workload from its features, corrected by its runs on known platforms.
    pub fn estimate_workload(
        &self,
        features: &[f64],
        measured: &[(usize, f64)],
    ) -> Result<FactorPosterior, Error> {
        let seen = measured.iter().map(|(platform, log)| (self.platforms.row(*platform), *log));
        FactorPosterior::new(
            self.of_workload.predict_factors(features)?,
            &self.of_workload.spread,
            self.level,
            self.noise,
            seen,
        )
    }

    /// Estimates a new platform from its passport, corrected by known workloads' runs on it.
    pub fn estimate_platform(
        &self,
        features: &[f64],
        measured: &[(usize, f64)],
    ) -> Result<FactorPosterior, Error> {
        let seen = measured.iter().map(|(workload, log)| (self.workloads.row(*workload), *log));
        FactorPosterior::new(
            self.of_platform.predict_factors(features)?,
            &self.of_platform.spread,
            self.level,
            self.noise,
            seen,
        )
    }
}

/// Evaluates the model for one workload and one platform.
fn combine_factors(level: f64, workload: &[f64], platform: &[f64]) -> f64 {
    level + workload[0] + platform[0] + dot_product(&workload[1..], &platform[1..])
}

/// A random order that depends on the seed only.
fn shuffle_indices(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    random::SplitMix64::new(seed).shuffle(&mut order);
    order
}
