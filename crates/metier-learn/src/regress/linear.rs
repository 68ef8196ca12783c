//! Linear regression: ordinary least squares, and with non-negative weights.

use super::check_training_rows;
use crate::Error;
use crate::linear_algebra::{DenseMatrix, dot_product};

/// `bias + Σ weight · feature`.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LinearRegression {
    /// Intercept.
    pub bias: f64,
    /// Weight of each feature.
    pub weights: Vec<f64>,
}

impl LinearRegression {
    /// Predicts the target of a row.
    pub fn predict(&self, row: &[f64]) -> f64 {
        dot_product(&self.weights, row) + self.bias
    }
}

/// Columns and target with their means subtracted.
fn centre_columns(x: &DenseMatrix, y: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>, Vec<f64>, f64) {
    let rows = y.len() as f64;
    let mean_y = y.iter().sum::<f64>() / rows;
    let mut means = Vec::with_capacity(x.width());
    let mut columns = Vec::with_capacity(x.width());
    for column in 0..x.width() {
        let values: Vec<f64> = (0..y.len()).map(|row| x.at(row, column)).collect();
        let mean = values.iter().sum::<f64>() / rows;
        columns.push(values.into_iter().map(|value| value - mean).collect());
        means.push(mean);
    }
    (columns, y.iter().map(|value| value - mean_y).collect(), means, mean_y)
}

/// Ordinary least squares with intercept, by Householder reflections. A linearly dependent column
/// gets weight 0.
pub fn least_squares(x: &DenseMatrix, y: &[f64]) -> Result<LinearRegression, Error> {
    check_training_rows(x, y, 2)?;
    let (mut columns, mut target, means, mean) = centre_columns(x, y);
    let rows = target.len();
    let sizes: Vec<f64> = columns.iter().map(|column| dot_product(column, column).sqrt()).collect();
    // Indices of the independent columns.
    let mut taken = Vec::new();
    for (at, whole) in sizes.iter().enumerate() {
        let level = taken.len();
        if level >= rows {
            break;
        }
        let size = dot_product(&columns[at][level..], &columns[at][level..]).sqrt();
        if size <= 1e-10 * whole || *whole <= 1e-300 {
            continue;
        }
        let first = columns[at][level];
        let length = if first > 0.0 { -size } else { size };
        let mut mirror = columns[at][level..].to_vec();
        mirror[0] -= length;
        let square = dot_product(&mirror, &mirror);
        let reflect = |column: &mut [f64]| {
            let factor = 2.0 * dot_product(&mirror, column) / square;
            column.iter_mut().zip(&mirror).for_each(|(value, part)| *value -= factor * part);
        };
        if square > 0.0 {
            columns[at..].iter_mut().for_each(|column| reflect(&mut column[level..]));
            reflect(&mut target[level..]);
        }
        taken.push(at);
    }
    let mut weights = vec![0.0; columns.len()];
    for level in (0..taken.len()).rev() {
        let later: f64 = taken[level + 1..].iter().map(|at| columns[*at][level] * weights[*at]).sum();
        weights[taken[level]] = (target[level] - later) / columns[taken[level]][level];
    }
    let bias = mean - dot_product(&weights, &means);
    Ok(LinearRegression { bias, weights })
}

/// Non-negative least squares with intercept, by coordinate descent until convergence.
pub fn non_negative_least_squares(x: &DenseMatrix, y: &[f64]) -> Result<LinearRegression, Error> {
    check_training_rows(x, y, 2)?;
    let (columns, mut left, means, mean) = centre_columns(x, y);
    let squares: Vec<f64> = columns.iter().map(|column| dot_product(column, column)).collect();
    let mut weights = vec![0.0; columns.len()];
    for _ in 0..10_000 {
        let (mut moved, mut size) = (0f64, 0f64);
        for (at, column) in columns.iter().enumerate() {
            if squares[at] <= 1e-300 {
                continue;
            }
            let current = (weights[at] + dot_product(column, &left) / squares[at]).max(0.0);
            let step = current - weights[at];
            if step != 0.0 {
                left.iter_mut().zip(column).for_each(|(left, value)| *left -= step * value);
                weights[at] = current;
            }
            moved = moved.max(step.abs() * squares[at].sqrt());
            size = size.max(current * squares[at].sqrt());
        }
        if moved <= 1e-11 * size {
            break;
        }
    }
    let bias = mean - dot_product(&weights, &means);
    Ok(LinearRegression { bias, weights })
}

/// 1, each feature, and each product of two, in the order of scikit-learn.
pub fn polynomial_features(row: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(1 + row.len() + row.len() * (row.len() + 1) / 2);
    out.push(1.0);
    out.extend_from_slice(row);
    for (at, value) in row.iter().enumerate() {
        out.extend(row[at..].iter().map(|other| value * other));
    }
    out
}
