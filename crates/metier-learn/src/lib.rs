//! Learns predictors from tables, and says how good they are.
//!
//! [`table`] is what is learned from; [`boost`] makes boosted trees with any loss, monotone where asked; [`xgboost`]
//! reads XGBoost's files and gives its numbers to the last bit; [`conformal`] puts intervals around any predictor that
//! hold on new workloads and devices, not only on new rows; [`validate`] parts data so that a score is honest, and
//! [`score`] computes it; [`factor`] learns how long workloads take on platforms from runs of some on some; [`regress`] holds other systems' regressors.
//!
//! Everything is deterministic: the same table, settings and seed give the same predictor on every machine. A predictor file
//! is data, never code. This crate does no input or output.

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
