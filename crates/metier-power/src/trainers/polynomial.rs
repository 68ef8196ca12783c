//! Squares and products of features, then least squares.

use metier_learn::linear_algebra::DenseMatrix;
use metier_learn::regress::linear;

use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    let rows: Vec<Vec<f64>> =
        (0..task.y.len()).map(|row| linear::polynomial_features(task.x.row(row))).collect();
    Ok(LearnedFormula::Polynomial(linear::least_squares(&DenseMatrix::from_rows(&rows)?, task.y)?))
}
