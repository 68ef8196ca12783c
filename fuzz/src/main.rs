//! Runs one fuzz target for a while: `metier-fuzz TARGET --seconds 20`.
//!
//! A coverage-guided fuzzer in the process of its targets. It needs neither cargo-fuzz nor a C++
//! compiler: `fuzz/run` compiles the crates of this repository with the coverage counters of LLVM,
//! and takes all other crates as the ordinary build has left them. Without the counters
//! (`cargo run -p metier-fuzz`) the inputs are mutated blindly.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool of tests: a panic is a finding"
)]

mod coverage;
mod fuzzer;
mod mutation;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

#[derive(Parser)]
struct FuzzArgs {
    /// Target; without one, all are listed
    target: Option<String>,
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Seed of the mutations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the input of a finding
    #[arg(long, default_value = "fuzz/findings")]
    findings: PathBuf,
    /// Run this input once instead
    #[arg(long)]
    input: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = FuzzArgs::parse();
    let Some(name) = arguments.target else {
        targets::TARGETS.iter().for_each(|target| println!("{}", target.name));
        return Ok(ExitCode::SUCCESS);
    };
    let target = targets::TARGETS.iter().find(|target| target.name == name);
    let target = target.ok_or_else(|| anyhow::anyhow!("no target {name}; `metier-fuzz` lists all"))?;
    if let Some(path) = arguments.input {
        (target.run)(&std::fs::read(path)?);
        return Ok(ExitCode::SUCCESS);
    }
    let time = Duration::from_secs(arguments.seconds);
    let result = fuzzer::fuzz(target, time, arguments.seed, &arguments.findings)?;
    println!("{result}");
    Ok(if result.finding.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
