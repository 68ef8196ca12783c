//! Who decides to run: run files, datasets, companions and neighbours, the queue of sessions; how long graphs take, on which node least, cut for which devices, and putting them there.
//!
//! A run file says what is to run and how; everything that starts a run (the command line, the API, the Jenkins-shaped
//! door) makes one of it, so there is one check and one way to run.

pub mod choose;
pub mod company;
pub mod dataset;
pub mod graph;
pub mod latency;
pub mod nodes;
pub mod placing;
pub mod queue;
pub mod runfile;
pub mod splitting;
mod start;
mod surroundings;

pub use start::start;
pub use surroundings::{DATASET_VARIABLE, DATASET_WORD, Obstacle, Surroundings, Ways, unstarted};
