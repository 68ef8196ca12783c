//! Posterior of a workload or platform that is not in the training set: a prior from its features,
//! updated by its few runs.
//!
//! The prediction from features and its covariance form a normal prior. Each run is an observation
//! through the partner's factors. The result is the exact posterior mean and covariance, so a run
//! on a similar platform is the most informative.

use crate::Error;
use crate::algebra::{Matrix, dot};

/// Effect and factors of a new workload or platform, with their covariance.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    numbers: Vec<f64>,
    spread: Matrix,
    level: f64,
    noise: f64,
    runs: usize,
}

impl Guess {
    pub(super) fn new<'a>(
        prior: Vec<f64>,
        spread: &Matrix,
        level: f64,
        noise: f64,
        seen: impl Iterator<Item = (&'a [f64], f64)>,
    ) -> Result<Self, Error> {
        let mut guess = Self { numbers: prior, spread: spread.clone(), level, noise, runs: 0 };
        seen.for_each(|(partner, log)| guess.learn(partner, log));
        Ok(guess)
    }

    /// Updates with one measured run with a partner of this effect and factors (a Kalman step).
    pub fn learn(&mut self, partner: &[f64], log: f64) {
        let design = design(partner);
        let (said, variance) = self.say(partner);
        let reach: Vec<f64> = (0..design.len()).map(|row| dot(self.spread.row(row), &design)).collect();
        for (number, reach) in self.numbers.iter_mut().zip(&reach) {
            *number += reach * (log - said) / variance;
        }
        for (row, one) in reach.iter().enumerate() {
            for (column, other) in reach.iter().enumerate() {
                *self.spread.at_mut(row, column) -= one * other / variance;
            }
        }
        self.runs += 1;
    }

    /// Mean and variance of the logarithm of the seconds with a partner of this effect and factors.
    pub fn say(&self, partner: &[f64]) -> (f64, f64) {
        let design = design(partner);
        let mean = self.level + partner[0] + dot(&design, &self.numbers);
        let spread: f64 = (0..design.len()).map(|row| design[row] * dot(self.spread.row(row), &design)).sum();
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

fn design(partner: &[f64]) -> Vec<f64> {
    std::iter::once(1.0).chain(partner[1..].iter().copied()).collect()
}
