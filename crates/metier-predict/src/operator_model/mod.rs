//! How long graphs take, learned from operators and whole graphs that were timed.
//!
//! [`operators`] has a law for each family of operators: a straight line over counts, and boosted trees for what is left. [`graph_reader`]
//! adds them up, corrects the sum by what whole graphs took and by what else runs. [`GraphTimePredictor`] is all of it with intervals from graphs that were held
//! out; its JSON is the predictor's file. [`device_adaptation`] moves it to another device with a few measured graphs.

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
