//! Predictors of what a graph costs on a device, each with an interval, and the life of predictors
//! of every kind.
//!
//! [`lifecycle`] compares, promotes, retrains and carries predictors of every kind. [`latency`]
//! predicts time and memory, from what was measured or from a passport alone. [`operator_model`] is
//! the mathematics of it: times of operators and graphs learned from tables. [`splitting`] cuts a
//! graph for several devices. [`passport_resolver`] finds the passport of a cluster's node, and
//! [`node_predictor`] predicts a graph there.

pub mod graph_reader;
pub mod latency;
pub mod lifecycle;
pub mod node_predictor;
pub mod operator_model;
pub mod passport_resolver;
pub mod splitting;
