//! `metier runs rm`: deletes runs after a confirmation.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use metier_store::RecordStore;
use metier_types::RunId;

use super::super::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::time;

/// Examples.
pub const EXAMPLES: &str = "Examples:
  metier runs rm 3a5c7e9d          asks first, on a terminal
  metier runs rm --yes last";

/// Delete runs, their series and files
#[derive(Debug, Args)]
pub struct RemoveRunsArgs {
    /// Runs, named as for `metier show`
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Delete without confirmation
    #[arg(short, long)]
    yes: bool,
}

impl RemoveRunsArgs {
    /// Finds all runs, asks for confirmation, deletes them.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let store = context.writable_store()?;
        let mut runs: Vec<RunId> = Vec::new();
        for text in &self.ids {
            let id = store.find_run(text)?;
            if !runs.contains(&id) {
                runs.push(id);
            }
        }
        if !self.yes && !confirm_removal(&store, &runs)? {
            context.console.note("nothing was removed");
            return Ok(CliExitCode::FAILED);
        }
        for id in &runs {
            store.delete_run(*id)?;
        }
        let many = if runs.len() == 1 { "run" } else { "runs" };
        context.console.note(format!("removed {} {many}", runs.len()));
        Ok(CliExitCode::OK)
    }
}

/// Lists the runs and asks for confirmation.
fn confirm_removal(store: &RecordStore, runs: &[RunId]) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(usage_error("not removing without being asked to: stdin is no terminal; add --yes"));
    }
    let mut err = std::io::stderr().lock();
    for id in runs {
        if let Some(run) = store.run(*id)? {
            let name = &run.workload.name;
            writeln!(err, "  {}  {}  {name}", id.short(), time::local_time(run.started))?;
        }
    }
    write!(err, "Remove {} run(s) for good? [y/N] ", runs.len())?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
