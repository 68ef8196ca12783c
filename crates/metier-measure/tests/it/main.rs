//! Integration tests of metier-measure, one module a topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod board;
mod container;
mod gpu;
mod listen;
mod run;
mod seam;
mod stacks;
