//! Integration tests of metier-onnx, one module a topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod common;
mod example;
mod hostile;
mod operators;
mod real;
mod shapes;
mod split;
