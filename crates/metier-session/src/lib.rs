//! Everything around a run: its run file, its dataset, its companions and neighbours, and the queue of sessions.
//!
//! A run file says what is to run and how. The command line, the API and Jenkins each produce one, so there is one
//! check and one way to run.

pub mod company;
pub mod dataset;
pub mod queue;
pub mod runfile;
mod start;
mod surroundings;

pub use start::start;
pub use surroundings::{DATASET_VARIABLE, DATASET_WORD, Obstacle, Surroundings, Ways, unstarted};
