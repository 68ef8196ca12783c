//! `metier show`: prints a run, with marks for inexact values and reasons for missing ones.

mod artefact;
mod sections;
mod timeline;

use anyhow::Context as _;
use clap::Args;
use metier_store::RecordStore;
use metier_types::{ProcessTree, Run, Series};
use serde_json::json;

use super::{CommandContext, find_run, read_run_file};
use crate::exit::CliExitCode;
use crate::output::{DataFormat, figures, serialised_word};

const EXAMPLES: &str = "Examples:
  metier show last                      the latest run
  metier show last~2                    the one two before it
  metier show sort                      the latest run of workload \"sort\"
  metier show 3a5c7e9d --processes      its processes, as a tree
  metier show last --missing            what could not be measured, why, and the fix
  metier show last --series -o csv      its time line
  metier show last --artefact trace.nvvp --save FILE
                                        a file that a probe left, as it is
  metier show last -o json              the record (metier.run/1)";

/// Show everything about a run
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct ShowArgs {
    /// A run: id, first or last digits of one, last, last~N, or a workload's name
    #[arg(value_name = "RUN")]
    id: String,
    /// Show its processes
    #[arg(short, long, conflicts_with_all = ["series", "missing"])]
    processes: bool,
    /// Show its time line, or one series of it
    #[arg(short, long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "missing")]
    series: Option<String>,
    /// Show only what could not be measured
    #[arg(short, long)]
    missing: bool,
    /// Print a file of the run unchanged
    #[arg(long, value_name = "NAME", conflicts_with_all = ["series", "missing", "processes"])]
    artefact: Option<String>,
    /// Write that file to this path instead of stdout
    #[arg(long, value_name = "FILE", requires = "artefact")]
    save: Option<std::path::PathBuf>,
}

impl ShowArgs {
    /// Prints the run, or the requested part.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let store = context.store()?;
        let run = find_run(&store, &self.id)?;
        if let Some(name) = &self.series {
            self.print_series(context, &store, &run, name)?;
        } else if self.processes {
            self.print_processes(context, &store, &run)?;
        } else if let Some(name) = &self.artefact {
            artefact::write_artefact(context, &store, &run, name, self.save.as_deref())?;
        } else if self.missing {
            self.print_missing(context, &run)?;
        } else {
            self.print_run(context, &store, &run)?;
        }
        Ok(CliExitCode::OK)
    }

    fn print_run(&self, context: &CommandContext, store: &RecordStore, run: &Run) -> anyhow::Result<()> {
        let console = &context.console;
        if console.format == DataFormat::Table {
            let lines = store.series(run.id, Some("use"))?;
            let tree = load_process_tree(store, run)?;
            return console.print(&sections::run_text(run, &lines, tree.as_ref(), console.paint));
        }
        let rows = figures::record_leaves(run)?.into_iter().map(|(field, value)| {
            let quality = run.quality.get(&field).map(serialised_word).unwrap_or_default();
            vec![field, value, quality]
        });
        console.print_record(run, ["field", "value", "quality"], rows, |_| String::new())
    }

    fn print_missing(&self, context: &CommandContext, run: &Run) -> anyhow::Result<()> {
        let record = json!({ "schema": "metier.missing/1", "run": run.id, "missing": run.missing });
        let rows = run.missing.iter().map(|(field, missing)| {
            vec![field.clone(), missing.reason.clone(), missing.fix.clone().unwrap_or_default()]
        });
        context.console.print_record(&record, ["field", "reason", "fix"], rows, |paint| {
            if run.missing.is_empty() {
                "nothing is missing\n".to_string()
            } else {
                sections::missing_text(run, paint)
            }
        })
    }

    fn print_processes(
        &self,
        context: &CommandContext,
        store: &RecordStore,
        run: &Run,
    ) -> anyhow::Result<()> {
        let Some(tree) = load_process_tree(store, run)? else {
            let why = run.missing.iter().find(|(field, _)| field.starts_with("processes"));
            let why = why.map_or_else(|| "none was recorded".to_string(), |(_, why)| why.to_string());
            anyhow::bail!("run {} has no process tree: {why}", run.id.short());
        };
        let rows = tree.processes.iter().map(sections::process_cells);
        let text = |paint| sections::process_tree_text(&tree, paint);
        context.console.print_record(&tree, sections::PROCESS_COLUMNS.split(','), rows, text)
    }

    fn print_series(
        &self,
        context: &CommandContext,
        store: &RecordStore,
        run: &Run,
        name: &str,
    ) -> anyhow::Result<()> {
        let mut series = store.series(run.id, Some(name).filter(|name| !name.is_empty()))?;
        if series.is_empty() {
            let known: Vec<String> =
                store.series(run.id, None)?.into_iter().map(|series| series.name).collect();
            match (name, known.as_slice()) {
                ("", _) | (_, []) => anyhow::bail!("run {} has no time line", run.id.short()),
                (name, known) => {
                    anyhow::bail!(
                        "run {} has no series {name:?}; want one of {}",
                        run.id.short(),
                        known.join(", ")
                    )
                }
            }
        }
        series.iter_mut().for_each(Series::mask_infinities);
        let record = json!({ "schema": "metier.series-list/1", "series": series });
        let text = |paint| timeline::series_table(run, &series, paint);
        context.console.print_record(
            &record,
            timeline::csv_header(&series),
            timeline::csv_rows(&series),
            text,
        )
    }
}

/// The process tree of a run, which is stored as a file of the run.
pub fn load_process_tree(store: &RecordStore, run: &Run) -> anyhow::Result<Option<ProcessTree>> {
    let content = read_run_file(store, run, ProcessTree::ARTEFACT_NAME, "the process tree")?;
    let cannot = || format!("the process tree of run {} cannot be read", run.id.short());
    content.map(|content| serde_json::from_slice(&content).with_context(cannot)).transpose()
}
