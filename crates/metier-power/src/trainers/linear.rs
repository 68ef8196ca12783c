//! Least squares with non-negative coefficients; without a constant if watts must add up.

use metier_learn::regress::linear::{LinearRegression, non_negative_least_squares};

use super::{LearnedFormula, TrainerTask};
use crate::Error;
use crate::nonnegative;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    if !task.is_additive {
        return Ok(LearnedFormula::Linear(non_negative_least_squares(task.x, task.y)?));
    }
    let column = |column: usize| (0..task.y.len()).map(|row| task.x.row(row)[column]).collect();
    let columns: Vec<Vec<f64>> = (0..task.x.width()).map(column).collect();
    let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    let fit = nonnegative::fit(&columns, task.y, false);
    Ok(LearnedFormula::Linear(LinearRegression { bias: fit.bias, weights: fit.weights }))
}
