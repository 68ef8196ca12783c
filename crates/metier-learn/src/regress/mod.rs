//! Textbook regressors, one file each, with the settings of other systems' trainers, so that their
//! predictors can be trained here.
//!
//! All take a [`Matrix`] of features, one row per target. Predictors round-trip through [`serde`]'s
//! JSON without loss.

pub mod curve;
pub mod exact;
pub mod forest;
pub mod knn;
pub mod linear;
pub mod sgd;
pub mod svr;

use crate::Error;
use crate::algebra::Matrix;

/// Largest number of training rows, because the time of some regressors is quadratic in rows.
pub const ROWS: usize = 20_000;

fn check(x: &Matrix, y: &[f64], want: usize) -> Result<(), Error> {
    if x.rows() != y.len() {
        let why = format!("{} rows of features for {} targets", x.rows(), y.len());
        return Err(Error::Table { why });
    }
    if y.len() < want {
        return Err(Error::TooLittle { what: "rows", got: y.len(), want, purpose: "learn from" });
    }
    if let Some(row) = y.iter().position(|value| !value.is_finite()) {
        return Err(Error::Table { why: format!("the target of row {row} is {}", y[row]) });
    }
    Ok(())
}

fn too_many(rows: usize) -> Result<(), Error> {
    if rows > ROWS {
        let why = format!("{rows} rows; want at most {ROWS} for this regressor");
        return Err(Error::Table { why });
    }
    Ok(())
}
