//! Everything around a run: its run file, its dataset, its co-runners, its repetitions, and the
//! queue of sessions.
//!
//! A run file describes one run completely. The command line, the API and Jenkins each produce one,
//! so there is one check and one way to run: [`runfile::RunFile`] → [`runfile::CheckedRun`] →
//! [`measure_batch`]. It prepares a [`RunSetup`] and measures each repetition with it.

mod batch;
pub mod corunner;
pub mod dataset;
pub mod queue;
mod run_setup;
pub mod runfile;

pub use batch::{BatchEvent, BatchIdentity, BatchResult, measure_batch, measure_by_turns, run_exit_code};
pub use run_setup::{DATASET_VARIABLE, DATASET_WORD, RunSetup, SetupFailure, SetupOptions};
