//! `metier runs rm`: forgets runs, after asking.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use metier_store::Store;
use metier_types::RunId;

use super::super::Room;
use crate::exit::{Code, usage};
use crate::time;

/// How it is used.
pub const EXAMPLES: &str = "Examples:
  metier runs rm 3a5c7e9d          asks first, on a terminal
  metier runs rm --yes last";

/// Forget runs, their series and files
#[derive(Debug, Args)]
pub struct Remove {
    /// Which, as `metier show` takes them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Remove {
    /// Finds all, asks, removes.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let store = room.writable_store()?;
        let mut runs: Vec<RunId> = Vec::new();
        for text in &self.ids {
            let id = store.find_run(text)?;
            if !runs.contains(&id) {
                runs.push(id);
            }
        }
        if !self.yes && !confirmed(&store, &runs)? {
            room.console.note("nothing was removed");
            return Ok(Code::FAILED);
        }
        for id in &runs {
            store.delete_run(*id)?;
        }
        let many = if runs.len() == 1 { "run" } else { "runs" };
        room.console.note(format!("removed {} {many}", runs.len()));
        Ok(Code::OK)
    }
}

/// Shows what would go, and asks.
fn confirmed(store: &Store, runs: &[RunId]) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(usage("not removing without being asked to: stdin is no terminal; add --yes"));
    }
    let mut err = std::io::stderr().lock();
    for id in runs {
        if let Some(run) = store.run(*id)? {
            let name = &run.workload.name;
            writeln!(err, "  {}  {}  {name}", id.short(), time::local(run.started))?;
        }
    }
    write!(err, "Remove {} run(s) for good? [y/N] ", runs.len())?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
