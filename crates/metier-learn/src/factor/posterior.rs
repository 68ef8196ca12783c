//! Posterior of a workload or platform that is not in the training set: a prior from its features,
//! updated by its few runs.
//!
//! The prediction from features and its covariance form a normal prior. Each run is an observation
//! through the partner's factors. The result is the exact posterior mean and covariance, so a run
//! on a similar platform is the most informative.

use crate::Error;
use crate::linear_algebra::{DenseMatrix, dot_product};

/// Effect and factors of a new workload or platform, with their covariance.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorPosterior {
    numbers: Vec<f64>,
    spread: DenseMatrix,
    level: f64,
    noise: f64,
    runs: usize,
}

impl FactorPosterior {
    pub(super) fn new<'a>(
        prior: Vec<f64>,
        spread: &DenseMatrix,
        level: f64,
        noise: f64,
        seen: impl Iterator<Item = (&'a [f64], f64)>,
    ) -> Result<Self, Error> {
        let mut guess = Self { numbers: prior, spread: spread.clone(), level, noise, runs: 0 };
        seen.for_each(|(partner, log)| guess.add_run(partner, log));
        Ok(guess)
    }

    /// Updates with one measured run with a partner of this effect and factors (a Kalman step).
    pub fn add_run(&mut self, partner: &[f64], log: f64) {
        let design = design_row(partner);
        let (current, variance) = self.predict_log_seconds(partner);
        let reach: Vec<f64> =
            (0..design.len()).map(|row| dot_product(self.spread.row(row), &design)).collect();
        for (number, reach) in self.numbers.iter_mut().zip(&reach) {
            *number += reach * (log - current) / variance;
        }
        for (row, value) in reach.iter().enumerate() {
            for (column, other) in reach.iter().enumerate() {
                *self.spread.at_mut(row, column) -= value * other / variance;
            }
        }
        self.runs += 1;
    }

    /// Mean and variance of the logarithm of the seconds with a partner of this effect and factors.
    pub fn predict_log_seconds(&self, partner: &[f64]) -> (f64, f64) {
        let design = design_row(partner);
        let mean = self.level + partner[0] + dot_product(&design, &self.numbers);
        let spread: f64 =
            (0..design.len()).map(|row| design[row] * dot_product(self.spread.row(row), &design)).sum();
        (mean, self.noise + spread.max(0.0))
    }

    /// Number of runs used for updates.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The effect, then the factors.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }
}

fn design_row(partner: &[f64]) -> Vec<f64> {
    std::iter::once(1.0).chain(partner[1..].iter().copied()).collect()
}
