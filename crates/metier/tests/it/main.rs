//! Integration tests of metier, one module a topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod agent;
mod alternate;
mod archive;
mod bench;
mod board;
mod common;
mod company;
mod crate_table;
mod examples_ci;
mod figures;
mod harsh;
mod help;
mod inspect;
mod kill;
mod latency;
mod listen;
mod look;
mod module_cycles;
mod names;
#[path = "../../../metier-onnx/tests/it/common/mod.rs"]
mod onnx;
mod open_files;
mod passport;
mod place;
mod plain_http;
mod pods;
mod postgres;
mod power;
mod power_doors;
mod power_query;
mod predictors;
#[path = "../../../metier-store/tests/it/common/private_postgres.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod private_postgres;
mod report;
mod run;
mod runfile;
mod schema;
mod scratch;
mod session;
mod settings;
mod signal;
mod source_file;
mod split;
mod spool;
mod store;
mod trend;
mod up;
