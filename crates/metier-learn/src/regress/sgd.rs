//! Linear regression by stochastic gradient descent with scikit-learn's default settings for
//! squared errors: rate `0.01 / t^0.25`, an L2 penalty of 1e-4, and a stop after five epochs in a
//! row that improve by less than 0.001 per row.

use super::check_training_rows;
use super::linear::LinearRegression;
use crate::Error;
use crate::linear_algebra::{DenseMatrix, dot_product};
use crate::random::SplitMix64;

const RIDGE: f64 = 1e-4;
const LEARNING_RATE: f64 = 0.01;
const RATE_EXPONENT: f64 = 0.25;
const MAX_EPOCHS: usize = 1000;
const TOLERANCE: f64 = 1e-3;
const PATIENCE: usize = 5;

/// Trains; the seed determines the order of rows in each epoch.
pub fn fit_sgd(x: &DenseMatrix, y: &[f64], seed: u64) -> Result<LinearRegression, Error> {
    check_training_rows(x, y, 2)?;
    let mut weights = vec![0.0; x.width()];
    let mut bias = 0.0;
    let mut order: Vec<usize> = (0..y.len()).collect();
    let mut random = SplitMix64::new(seed);
    let (mut best, mut waited, mut step) = (f64::INFINITY, 0, 1.0f64);
    for _ in 0..MAX_EPOCHS {
        random.shuffle(&mut order);
        let mut loss = 0.0;
        for row in &order {
            let error = dot_product(&weights, x.row(*row)) + bias - y[*row];
            loss += 0.5 * error * error;
            let rate = LEARNING_RATE / step.powf(RATE_EXPONENT);
            let change = rate * error.clamp(-1e12, 1e12);
            for (weight, value) in weights.iter_mut().zip(x.row(*row)) {
                *weight = *weight * (1.0 - RIDGE * rate) - change * value;
            }
            bias -= change;
            step += 1.0;
        }
        if !loss.is_finite() {
            return Err(Error::Table {
                why: "features so large that the descent runs away; scale them".to_string(),
            });
        }
        waited = if loss > best - TOLERANCE * y.len() as f64 { waited + 1 } else { 0 };
        best = best.min(loss);
        if waited >= PATIENCE {
            break;
        }
    }
    Ok(LinearRegression { bias, weights })
}
