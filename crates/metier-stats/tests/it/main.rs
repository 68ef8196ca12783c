//! Integration tests of metier-stats, one module per topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod change;
mod common;
mod comparison;
mod drift;
mod properties;
mod schema;
mod simulation;
mod sizing;
mod spread;
mod trend;
