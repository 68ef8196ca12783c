//! Predictors of a graph's cost on a device, each with an interval, and the lifecycle of all
//! predictor kinds.
//!
//! [`lifecycle`] compares, promotes, retrains, exports and imports predictors. [`latency`] predicts
//! time and memory, from measurements or from a passport alone. [`operator_model`] has the models
//! for operators and graphs. [`splitting`] splits a graph over several devices.
//! [`passport_resolver`] finds the passport of a cluster's node, and [`node_predictor`] predicts a
//! graph there.

pub mod graph_reader;
pub mod latency;
pub mod lifecycle;
pub mod node_predictor;
pub mod operator_model;
pub mod passport_resolver;
pub mod splitting;
