//! Trains predictors on tables, and evaluates them.
//!
//! - [`table`] holds training data.
//! - [`boost`] trains boosted trees for several losses, with optional monotone constraints.
//! - [`xgboost`] reads XGBoost's files and reproduces its predictions bit by bit.
//! - [`conformal`] adds intervals to any predictor that hold for new workloads and devices, not
//!   only for new rows.
//! - [`validate`] splits data by groups; [`score`] computes errors.
//! - [`factor`] learns run times of workloads on platforms from some measured pairs.
//! - [`regress`] holds other systems' regressors.
//!
//! Everything is deterministic: the same table, settings and seed give the same predictor on every
//! machine. A predictor file is data, never code. This crate does no input or output.

pub mod algebra;
pub mod boost;
pub mod conformal;
mod error;
pub mod factor;
mod pack;
pub mod regress;
pub mod score;
pub mod table;
mod tree;
pub mod validate;
pub mod xgboost;

pub use error::Error;
pub use metier_types::random;
pub use table::Table;
