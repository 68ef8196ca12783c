//! Integration tests of metier-server, one module a topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod access;
mod api;
mod artefacts;
mod asking;
mod common;
mod compare;
mod describe;

mod fetched;
mod figures;
mod graphs;
mod kepler;
#[path = "../../../metier-cluster/tests/common/lab_node.rs"]
mod lab_node;
mod limits;
mod log;
mod online_trainer;
mod placing;
mod power;
mod readers;
mod sessions;
mod signals;
mod soprano;
mod store_gone;
mod tls;
mod trainer;
mod trend;
