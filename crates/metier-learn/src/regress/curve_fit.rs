//! Curve fitting with a few parameters: Levenberg–Marquardt (Marquardt 1963) with finite
//! differences.

use crate::Error;
use crate::linear_algebra::{CholeskyFactor, DenseMatrix, dot_product};

/// Largest number of evaluations of the curve over all points.
const MAX_EVALUATIONS: usize = 30_000;

/// Parameters with the least squared error reached from a start; an error if the curve is not
/// finite there.
pub fn fit_curve(
    s: &[f64],
    y: &[f64],
    start: &[f64],
    curve: impl Fn(&[f64], f64) -> f64,
) -> Result<(Vec<f64>, f64), Error> {
    if s.len() != y.len() || s.len() < start.len() {
        let want = start.len();
        return Err(Error::TooFewItems {
            what: "points",
            got: s.len().min(y.len()),
            want,
            purpose: "fit a curve",
        });
    }
    let left =
        |weights: &[f64]| -> Vec<f64> { s.iter().zip(y).map(|(s, y)| y - curve(weights, *s)).collect() };
    let mut weights = start.to_vec();
    let mut error = left(&weights);
    let mut loss = dot_product(&error, &error);
    if !loss.is_finite() {
        return Err(Error::Table { why: format!("the curve has no value at its start {start:?}") });
    }
    let (mut damping, mut calls) = (1e-3, 1);
    while calls < MAX_EVALUATIONS {
        let slopes: Vec<Vec<f64>> = (0..weights.len())
            .map(|at| {
                let mut moved = weights.clone();
                let step = 1e-7 * weights[at].abs().max(1e-4);
                moved[at] += step;
                left(&moved).iter().zip(&error).map(|(new, old)| (old - new) / step).collect()
            })
            .collect();
        calls += weights.len();
        let size = weights.len();
        let mut normal = DenseMatrix::zeros(size, size);
        for (a, values) in slopes.iter().enumerate() {
            for (b, other) in slopes.iter().enumerate().take(a + 1) {
                *normal.at_mut(a, b) = dot_product(values, other);
            }
        }
        let right: Vec<f64> = slopes.iter().map(|slope| dot_product(slope, &error)).collect();
        let mut is_better = false;
        while damping < 1e12 {
            let mut damped = normal.clone();
            for at in 0..size {
                *damped.at_mut(at, at) += damping * normal.at(at, at).max(1e-12);
            }
            let step = CholeskyFactor::new(&damped).map(|cholesky| cholesky.solve(&right));
            let tried =
                step.map(|step| weights.iter().zip(step).map(|(old, step)| old + step).collect::<Vec<f64>>());
            if let Some(tried) = tried {
                let new = left(&tried);
                let new_loss = dot_product(&new, &new);
                calls += 1;
                // NaN is not less: if the curve is undefined, the step is too long.
                if new_loss < loss {
                    is_better = loss - new_loss > 1e-12 * loss;
                    (weights, error, loss) = (tried, new, new_loss);
                    damping = (damping / 10.0).max(1e-12);
                    break;
                }
            }
            damping *= 10.0;
        }
        if !is_better {
            break;
        }
    }
    Ok((weights, loss))
}
