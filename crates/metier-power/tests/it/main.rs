//! Integration tests of metier-power, one module a topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod download;
mod extract;
mod golden;
mod kinds;
mod online;
mod selection;
mod stored;
mod unreadable;
