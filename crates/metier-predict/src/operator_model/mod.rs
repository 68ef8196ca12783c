//! How long graphs take, learned from operators and whole graphs that were timed.
//!
//! [`operators`] has a law for each family of operators: a straight line over counts, and boosted trees for what is left. [`graph`]
//! adds them up, corrects the sum by what whole graphs took and by what else runs. [`Predictor`] is all of it with intervals from graphs that were held
//! out; its JSON is the predictor's file. [`adapt`] moves it to another device with a few measured graphs.

pub mod adapt;
pub mod graph;
pub mod linear;
pub mod operators;
mod predictor;

pub use graph::{Part, Point, Pressure};
pub use operators::{Operators, Sample};
pub use predictor::{Answer, Lessons, Predictor, SCHEMA, Unseen};

#[cfg(test)]
mod tests;
