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

/// The measuring program of `tests/processes`: as it was built, or where a guest has it.
fn measure_process() -> std::process::Command {
    let built = env!("CARGO_BIN_EXE_measure-process");
    std::process::Command::new(std::env::var_os("METIER_TEST_PROCESS").unwrap_or_else(|| built.into()))
}
