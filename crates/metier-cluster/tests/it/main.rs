//! Integration tests of metier-cluster, one module a topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod common;
mod elsewhere;
mod listen;
mod luggage;
mod manifests;
mod pods;
