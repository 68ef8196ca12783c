//! Integration tests of metier-store, one module per topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod check;
mod common;
mod engines;
mod killed;
mod postgres_faults;
mod postgres_tls;
mod sqlite_faults;
