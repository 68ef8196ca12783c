//! Least squares with coefficients that are not negative; through 0 where watts have to add up.

use metier_learn::regress::linear::{Linear, not_negative};

use super::{Learned, Task};
use crate::Error;
use crate::nonnegative;

pub fn learn(task: &Task<'_>) -> Result<Learned, Error> {
    if !task.is_additive {
        return Ok(Learned::Linear(not_negative(task.x, task.y)?));
    }
    let column = |column: usize| (0..task.y.len()).map(|row| task.x.row(row)[column]).collect();
    let columns: Vec<Vec<f64>> = (0..task.x.width()).map(column).collect();
    let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    let fit = nonnegative::fit(&columns, task.y, false);
    Ok(Learned::Linear(Linear { bias: fit.bias, weights: fit.weights }))
}
