//! `metier export`: writes runs with all their data as an archive for `metier import`.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use metier_store::archive::{ExportedRun, export};
use metier_store::{RecordStore, RunFilter};
use metier_types::RunState;

use super::{CommandContext, find_run};
use crate::config::SettingOrigin;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{DataFormat, OutputFile};

const EXAMPLES: &str = "Examples:
  metier export last > run.jsonl                     one run
  metier export --all --to runs.jsonl                everything
  metier export sort 3a5c7e9d | ssh lab metier import -
  metier runs --all -o csv > runs.csv                only the table, for a spreadsheet";

/// Write runs as an archive
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "The archive is JSON Lines: records, series, process trees and files of runs, with their devices and workloads.")]
pub struct ExportArgs {
    /// Runs, named as for `metier show`
    #[arg(value_name = "RUN", required_unless_present = "all")]
    ids: Vec<String>,
    /// All runs, including warm-up
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

impl ExportArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let typed = context
            .settings
            .get("output")
            .is_some_and(|setting| matches!(setting.origin, SettingOrigin::Flag(_)));
        if typed && context.console.format != DataFormat::Json {
            return Err(usage_error(
                "an archive is always JSON Lines; leave -o away, or take `metier runs -o csv` for a table",
            ));
        }
        let store = context.store()?;
        let (runs, under_way) = self.select_runs(&store)?;
        if under_way > 0 {
            context
                .console
                .warn(format!("{under_way} run(s) under way are left out; export them when they are over"));
        }
        if runs.is_empty() && !self.all {
            anyhow::bail!("nothing to export: the run is under way; try again when it is over");
        }
        let steps = context.console.step_progress(runs.len() as u64, "runs", "exported");
        match &self.to {
            None => context.console.write_data(|out| Ok(export(&store, &runs, out, || steps.advance())?))?,
            Some(path) => {
                let mut file = BufWriter::with_capacity(1 << 20, OutputFile::open("--to", path)?);
                export(&store, &runs, &mut file, || steps.advance())?;
                file.flush().with_context(|| format!("cannot write {}", path.display()))?;
                file.into_inner().map_err(|error| error.into_error())?.commit()?;
            }
        }
        steps.finish();
        Ok(CliExitCode::OK)
    }

    /// The named runs, and how many of them have not ended.
    fn select_runs(&self, store: &RecordStore) -> anyhow::Result<(BTreeSet<ExportedRun>, u64)> {
        let (mut runs, mut under_way) = (BTreeSet::new(), 0);
        for text in &self.ids {
            let run = find_run(store, text)?;
            match run.state {
                RunState::Running => under_way += 1,
                _ => {
                    runs.insert(ExportedRun {
                        run: run.id,
                        workload: run.workload.id,
                        device: run.device.id,
                    });
                }
            }
        }
        let mut filter = RunFilter { warmup: true, limit: 1000, ..RunFilter::default() };
        let mut pages = self.all.then(|| store.runs(&filter)).transpose()?;
        while let Some(page) = pages.take() {
            for row in page.runs {
                match row.state {
                    RunState::Running => under_way += 1,
                    _ => {
                        runs.insert(ExportedRun {
                            run: row.id,
                            workload: row.workload.id,
                            device: row.device.id,
                        });
                    }
                }
            }
            if page.next.is_some() {
                filter.after = page.next;
                pages = Some(store.runs(&filter)?);
            }
        }
        Ok((runs, under_way))
    }
}
