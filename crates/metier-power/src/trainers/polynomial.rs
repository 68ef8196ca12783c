//! Squares and products of features, then least squares.

use metier_learn::algebra::Matrix;
use metier_learn::regress::linear;

use super::{Learned, Task};
use crate::Error;

pub fn learn(task: &Task<'_>) -> Result<Learned, Error> {
    let rows: Vec<Vec<f64>> = (0..task.y.len()).map(|row| linear::polynomial(task.x.row(row))).collect();
    Ok(Learned::Polynomial(linear::least_squares(&Matrix::from_rows(&rows)?, task.y)?))
}
