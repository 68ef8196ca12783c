//! Models of graph times, trained on timed operators and whole graphs.
//!
//! [`operators`] has a model for each operator family: a linear model over counts, and boosted
//! trees for the residual. [`graph_reader`] sums them up, corrects the sum by whole-graph
//! measurements, and applies the slowdown by co-runners. [`GraphTimePredictor`] combines these with
//! intervals from held-out graphs; its JSON is the predictor's file. [`device_adaptation`] adapts
//! it to another device with a few measured graphs.

pub mod device_adaptation;
pub mod graph;
pub mod linear;
pub mod operators;
mod predictor;

pub use graph::{GraphOperator, ResourcePressure, TimedGraph};
pub use operators::{OperatorPredictor, OperatorSample};
pub use predictor::{GraphTimeEstimate, GraphTimePredictor, GraphTrainingSet, HeldOutGraph, SCHEMA};

#[cfg(test)]
mod tests;
