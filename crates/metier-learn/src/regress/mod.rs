//! Textbook regressors, one file each, with the settings of other systems' trainers, so that their
//! predictors can be trained here.
//!
//! All take a [`DenseMatrix`] of features, one row per target. Predictors round-trip through
//! [`serde`]'s JSON without loss.

pub mod curve_fit;
pub mod exact_boosting;
pub mod linear;
pub mod nearest_neighbours;
pub mod quantile_forest;
pub mod sgd;
pub mod svr;

use crate::Error;
use crate::linear_algebra::DenseMatrix;

/// Largest number of training rows, because the time of some regressors is quadratic in rows.
pub const MAX_TRAINING_ROWS: usize = 20_000;

fn check_training_rows(x: &DenseMatrix, y: &[f64], want: usize) -> Result<(), Error> {
    if x.rows() != y.len() {
        let why = format!("{} rows of features for {} targets", x.rows(), y.len());
        return Err(Error::Table { why });
    }
    if y.len() < want {
        return Err(Error::TooFewItems { what: "rows", got: y.len(), want, purpose: "learn from" });
    }
    if let Some(row) = y.iter().position(|value| !value.is_finite()) {
        return Err(Error::Table { why: format!("the target of row {row} is {}", y[row]) });
    }
    Ok(())
}

fn check_row_count(rows: usize) -> Result<(), Error> {
    if rows > MAX_TRAINING_ROWS {
        let why = format!("{rows} rows; want at most {MAX_TRAINING_ROWS} for this regressor");
        return Err(Error::Table { why });
    }
    Ok(())
}
