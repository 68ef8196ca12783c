//! Trains predictors on tables, and evaluates them.
//!
//! - [`training_table`] holds training data.
//! - [`boost`] trains boosted trees for several losses, with optional monotone constraints.
//! - [`xgboost`] reads XGBoost's files and reproduces its predictions bit by bit.
//! - [`conformal`] adds intervals to any predictor that hold for new workloads and devices, not
//!   only for new rows.
//! - [`cross_validation`] splits data by groups; [`score`] computes errors.
//! - [`factor`] learns run times of workloads on platforms from some measured pairs.
//! - [`regress`] holds other systems' regressors.
//!
//! Everything is deterministic: the same table, settings and seed give the same predictor on every
//! machine. A predictor file is data, never code. This crate does no input or output.

pub mod boost;
pub mod conformal;
pub mod cross_validation;
mod error;
pub mod factor;
pub mod linear_algebra;
mod packed_numbers;
pub mod regress;
pub mod score;
pub mod training_table;
mod tree_walk;
pub mod xgboost;

pub use error::Error;
pub use metier_types::random;
pub use training_table::TrainingTable;
