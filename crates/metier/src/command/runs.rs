//! `metier runs`: lists runs, newest first; and `metier runs rm`.

mod remove;
mod rows;
mod trend;

use clap::{Args, Subcommand};
use metier_store::RunFilter;
use metier_types::{BatchId, ExitCause, RecordSchema, RunList, RunRow, RunState, UtcTimestamp};

use super::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{DataFormat, word_parser};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier runs                                the latest 20
  metier runs --workload sort --since 2d     those of one workload in the last two days
  metier runs --cause timeout --all          all that ran out of time
  metier runs train                          those whose name or command has \"train\" in it
  metier runs --all -o csv > runs.csv        the whole table for a spreadsheet
  metier runs --trend --workload sort        its history, and where it became slower
  metier runs --trend --fail-on-change       for CI: exit code 5 if something got worse lately
  metier runs rm 3a5c7e9d                    forget one";

/// Default limit of listed runs.
const DEFAULT_LIMIT: u32 = 20;
/// Largest page of the store.
const MAX_PAGE_RUNS: u32 = 1000;

/// List runs
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    #[command(subcommand)]
    then: Option<RunsCommand>,
    /// Part of the workload's name or the command, ignoring case
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only runs of this workload (name or id)
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Only runs on this device (name or id)
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Only runs in this state
    #[arg(long, value_parser = word_parser(&RunState::ALL, RunState::word))]
    state: Option<RunState>,
    /// Only runs with this outcome
    #[arg(long, value_parser = word_parser(&ExitCause::ALL, ExitCause::word))]
    cause: Option<ExitCause>,
    /// Only runs with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only runs of this batch
    #[arg(long, value_name = "ID")]
    batch: Option<BatchId>,
    /// Only runs started at this moment or later: 2d, 12h, 2026-01-31
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only runs started before this moment
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Limit of runs [default: 20; with --trend 10000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: Option<u32>,
    /// No limit
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Include warm-up runs
    #[arg(long)]
    warmup: bool,
    #[command(flatten)]
    history: trend::TrendArgs,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// Delete runs, their series and files
    #[command(before_help = remove::EXAMPLES)]
    Rm(remove::RemoveRunsArgs),
}

impl RunsArgs {
    /// Prints the list, or deletes runs.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        if let Some(RunsCommand::Rm(remove)) = &self.then {
            return remove.run(context);
        }
        let filter = self.build_filter(UtcTimestamp::now())?;
        if self.history.trend {
            return self.history.run(context, filter, self.limit);
        }
        let store = match context.store() {
            // A missing default store is an empty list; a store named by the user must exist.
            Err(error) if is_store_absent(&error) && is_default_store(context) => {
                context.console.note("nothing was measured yet; `metier run -- COMMAND` measures a command");
                return self.print_list(context, Vec::new(), None, 0);
            }
            other => other?,
        };
        let number = if self.all { u32::MAX } else { self.limit.unwrap_or(DEFAULT_LIMIT) };
        let (mut rows, mut after, mut total) = (Vec::new(), None, 0);
        loop {
            let left = number - rows.len() as u32;
            let page = store.runs(&RunFilter { limit: left.min(MAX_PAGE_RUNS), after, ..filter.clone() })?;
            if rows.is_empty() {
                total = page.total;
            }
            rows.extend(page.runs);
            after = page.next;
            if after.is_none() || rows.len() as u64 >= u64::from(number) {
                break;
            }
        }
        self.print_list(context, rows, after, total)
    }

    fn build_filter(&self, now: UtcTimestamp) -> anyhow::Result<RunFilter> {
        let moment = |flag: &str, text: &Option<String>| {
            let wrong =
                |text: &String| usage_error(format!("{flag} is {text:?}; want {}", time::MOMENT_SYNTAX));
            text.as_ref().map(|text| time::parse_moment(text, now).ok_or_else(|| wrong(text))).transpose()
        };
        Ok(RunFilter {
            workload: self.workload.clone(),
            device: self.device.clone(),
            state: self.state,
            cause: self.cause,
            tag: self.tag.clone(),
            batch: self.batch,
            text: self.text.clone(),
            since: moment("--since", &self.since)?,
            until: moment("--until", &self.until)?,
            warmup: self.warmup,
            limit: 0,
            after: None,
        })
    }

    fn print_list(
        &self,
        context: &CommandContext,
        runs: Vec<RunRow>,
        next: Option<String>,
        total: u64,
    ) -> anyhow::Result<CliExitCode> {
        let list = RunList { schema: RecordSchema::new(), runs, next, total };
        let rows = &list.runs;
        let console = &context.console;
        console.print_record(
            &list,
            rows::CSV_COLUMNS.split(','),
            rows.iter().map(rows::run_cells),
            |paint| {
                if rows.is_empty() {
                    String::new()
                } else {
                    rows::runs_table(rows, UtcTimestamp::now()).render(paint)
                }
            },
        )?;
        if console.format == DataFormat::Table {
            if total > rows.len() as u64 {
                let note = format!("{} of {total} runs; --all shows the others", rows.len());
                console.note(console.paint_err.dim(&note));
            } else if rows.is_empty() && has_filters(self) {
                console.note("no run fits; fewer filters find more");
            }
        }
        Ok(CliExitCode::OK)
    }
}

fn has_filters(runs: &RunsArgs) -> bool {
    let texts = [&runs.text, &runs.workload, &runs.device, &runs.tag, &runs.since, &runs.until];
    texts.iter().any(|text| text.is_some())
        || runs.state.is_some()
        || runs.cause.is_some()
        || runs.batch.is_some()
}

fn is_store_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(metier_store::Error::Absent { .. }))
}

fn is_default_store(context: &CommandContext) -> bool {
    context.settings.get("store").is_some_and(|store| store.origin == crate::config::SettingOrigin::Default)
}
