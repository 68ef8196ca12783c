//! Integration tests of metier-infer, one module a topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod adapted;
#[path = "../../../metier-onnx/tests/it/common/mod.rs"]
mod common;
mod joined;
mod real;
mod small;
