//! Predictors of what a graph costs on a device, each with an interval, and the life of predictors
//! of every kind.
//!
//! [`lifecycle`] compares, promotes, retrains and carries predictors of every kind. [`latency`]
//! predicts time and memory, from what was measured or from a passport alone. [`operator_model`] is
//! the mathematics of it: times of operators and graphs learned from tables. [`splitting`] cuts a
//! graph for several devices.

pub mod graph;
pub mod latency;
pub mod lifecycle;
pub mod operator_model;
pub mod splitting;
