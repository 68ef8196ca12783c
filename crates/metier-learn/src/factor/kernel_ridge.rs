//! Kernel ridge regression from the features of a workload or platform to its effect and factors,
//! tuned by leave-one-out error.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::linear_algebra::{CholeskyFactor, DenseMatrix, dot_product};

/// Candidate kernel widths relative to the median distance, and candidate ridges; the best pair is
/// chosen for each output.
const KERNEL_WIDTHS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
const RIDGES: [f64; 7] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];
/// Share of the linear kernel, so that the model extrapolates.
const LINEAR_KERNEL_SHARE: f64 = 0.3;

/// Predicts effect and factors of workloads or of platforms from their features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelRidge {
    /// Mean and standard deviation of each feature.
    scales: Vec<(f64, f64)>,
    /// Scaled features of the training rows.
    known: DenseMatrix,
    /// For each output: mean, kernel width, weight of each training row.
    numbers: Vec<(f64, f64, Vec<f64>)>,
    /// Covariance of the leave-one-out errors.
    pub spread: DenseMatrix,
}

fn kernel(a: &[f64], b: &[f64], reach: f64) -> f64 {
    let distance: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / a.len().max(1) as f64;
    LINEAR_KERNEL_SHARE * dot_product(a, b) / a.len().max(1) as f64
        + (1.0 - LINEAR_KERNEL_SHARE) * (-distance / (2.0 * reach * reach)).exp()
}

impl KernelRidge {
    pub(super) fn fit(features: &DenseMatrix, numbers: &DenseMatrix) -> Result<Self, Error> {
        let rows = features.rows();
        let mut scales = Vec::with_capacity(features.width());
        for column in 0..features.width() {
            let mean = (0..rows).map(|row| features.at(row, column)).sum::<f64>() / rows as f64;
            let square =
                (0..rows).map(|row| (features.at(row, column) - mean).powi(2)).sum::<f64>() / rows as f64;
            // Ignore a feature that is constant in training, even if it varies later.
            scales.push((mean, if square > 1e-18 { square.sqrt() } else { f64::MAX }));
        }
        let mut known = DenseMatrix::new(features.width());
        for row in 0..rows {
            known.push_row(&scale_row(features.row(row), &scales))?;
        }
        let unit = typical_distance(&known);
        let mut best: Vec<Option<KernelRidgeFit>> = vec![None; numbers.width()];
        for reach in KERNEL_WIDTHS.map(|reach| reach * unit) {
            let mut plain = DenseMatrix::zeros(rows, rows);
            for row in 0..rows {
                for column in 0..=row {
                    *plain.at_mut(row, column) = kernel(known.row(row), known.row(column), reach);
                }
            }
            for ridge in RIDGES {
                let mut matrix = plain.clone();
                (0..rows).for_each(|at| *matrix.at_mut(at, at) += ridge);
                let Some(cholesky) = CholeskyFactor::new(&matrix) else { continue };
                let inverse = cholesky.inverse();
                for (number, best) in best.iter_mut().enumerate() {
                    let mean = (0..rows).map(|row| numbers.at(row, number)).sum::<f64>() / rows as f64;
                    let target: Vec<f64> = (0..rows).map(|row| numbers.at(row, number) - mean).collect();
                    let weights: Vec<f64> =
                        (0..rows).map(|row| dot_product(inverse.row(row), &target)).collect();
                    // Leave-one-out residuals without refitting (Wahba 1990).
                    let missed: Vec<f64> = weights
                        .iter()
                        .enumerate()
                        .map(|(row, weight)| weight / inverse.at(row, row))
                        .collect();
                    let loss = dot_product(&missed, &missed);
                    if best.as_ref().is_none_or(|best| loss < best.loss) {
                        *best = Some(KernelRidgeFit { loss, mean, reach, weights, missed });
                    }
                }
            }
        }
        let fits: Option<Vec<KernelRidgeFit>> = best.into_iter().collect();
        let Some(fits) = fits else {
            return Err(Error::Table { why: "features that cannot be told apart".to_string() });
        };
        let mut spread = DenseMatrix::zeros(fits.len(), fits.len());
        for row in 0..rows {
            let missed: Vec<f64> = fits.iter().map(|fit| fit.missed[row]).collect();
            spread.add_outer_product(&missed, 1.0 / rows as f64);
        }
        for row in 0..fits.len() {
            *spread.at_mut(row, row) += 1e-9;
            for column in 0..row {
                *spread.at_mut(column, row) = spread.at(row, column);
            }
        }
        let numbers = fits.into_iter().map(|fit| (fit.mean, fit.reach, fit.weights)).collect();
        Ok(Self { scales, known, numbers, spread })
    }

    /// Predicts effect and factors of a new workload or platform.
    pub(super) fn predict_factors(&self, features: &[f64]) -> Result<Vec<f64>, Error> {
        if features.len() != self.scales.len() || features.iter().any(|value| !value.is_finite()) {
            let why = format!("{} features; want {} finite ones", features.len(), self.scales.len());
            return Err(Error::Table { why });
        }
        let own = scale_row(features, &self.scales);
        let value = |(mean, reach, weights): &(f64, f64, Vec<f64>)| {
            let near = |row: usize| kernel(&own, self.known.row(row), *reach);
            mean + weights.iter().enumerate().map(|(row, weight)| weight * near(row)).sum::<f64>()
        };
        Ok(self.numbers.iter().map(value).collect())
    }
}

#[derive(Clone)]
struct KernelRidgeFit {
    loss: f64,
    mean: f64,
    reach: f64,
    weights: Vec<f64>,
    missed: Vec<f64>,
}

fn scale_row(row: &[f64], scales: &[(f64, f64)]) -> Vec<f64> {
    row.iter().zip(scales).map(|(value, (mean, spread))| (value - mean) / spread).collect()
}

/// Median distance of all pairs, the unit of kernel widths.
fn typical_distance(known: &DenseMatrix) -> f64 {
    let mut all = Vec::new();
    for row in 0..known.rows() {
        for other in 0..row {
            let square: f64 =
                known.row(row).iter().zip(known.row(other)).map(|(a, b)| (a - b) * (a - b)).sum();
            all.push((square / known.width().max(1) as f64).sqrt());
        }
    }
    all.sort_by(f64::total_cmp);
    crate::score::quantile(&all, 0.5).filter(|middle| *middle > 1e-9).unwrap_or(1.0)
}
