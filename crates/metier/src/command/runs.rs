//! `metier runs`: what was measured, newest first; and `metier runs rm`.

mod remove;
mod rows;
mod trend;

use clap::{Args, Subcommand};
use metier_store::RunFilter;
use metier_types::{BatchId, Cause, RunList, RunRow, RunState, Schema, Timestamp};

use super::Room;
use crate::exit::{Code, usage};
use crate::output::{Format, parse_word};
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

/// Runs that are listed unless another number is asked for.
const LIMIT: u32 = 20;
/// Most runs on a page of the store.
const PAGE: u32 = 1000;

/// List what was measured
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Runs {
    #[command(subcommand)]
    then: Option<Then>,
    /// A part of the workload's name or the command, in any case
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only of this workload (name or id)
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Only on this device (name or id)
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = parse_word(&RunState::ALL, RunState::word))]
    state: Option<RunState>,
    /// Only those that ended so
    #[arg(long, value_parser = parse_word(&Cause::ALL, Cause::word))]
    cause: Option<Cause>,
    /// Only with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only of this batch
    #[arg(long, value_name = "ID")]
    batch: Option<BatchId>,
    /// Started at this moment or later: 2d, 12h, 2026-01-31
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Started before this moment
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// How many at most [default: 20; with --trend 10000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: Option<u32>,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Warm-up runs too
    #[arg(long)]
    warmup: bool,
    #[command(flatten)]
    history: trend::TrendFlags,
}

#[derive(Debug, Subcommand)]
enum Then {
    /// Forget runs, their series and files
    #[command(before_help = remove::EXAMPLES)]
    Rm(remove::Remove),
}

impl Runs {
    /// Prints the list, or forgets runs.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        if let Some(Then::Rm(remove)) = &self.then {
            return remove.run(room);
        }
        let filter = self.filter(Timestamp::now())?;
        if self.history.trend {
            return self.history.run(room, filter, self.limit);
        }
        let store = match room.store() {
            // Nothing measured yet is an empty list, not a failure; a store that was named is expected to be there.
            Err(error) if is_absent(&error) && is_default(room) => {
                room.console.note("nothing was measured yet; `metier run -- COMMAND` measures a command");
                return self.print(room, Vec::new(), None, 0);
            }
            other => other?,
        };
        let wanted = if self.all { u32::MAX } else { self.limit.unwrap_or(LIMIT) };
        let (mut rows, mut after, mut total) = (Vec::new(), None, 0);
        loop {
            let left = wanted - rows.len() as u32;
            let page = store.runs(&RunFilter { limit: left.min(PAGE), after, ..filter.clone() })?;
            if rows.is_empty() {
                total = page.total;
            }
            rows.extend(page.runs);
            after = page.next;
            if after.is_none() || rows.len() as u64 >= u64::from(wanted) {
                break;
            }
        }
        self.print(room, rows, after, total)
    }

    fn filter(&self, now: Timestamp) -> anyhow::Result<RunFilter> {
        let moment = |flag: &str, text: &Option<String>| {
            let wrong = |text: &String| usage(format!("{flag} is {text:?}; want {}", time::MOMENT));
            text.as_ref().map(|text| time::moment(text, now).ok_or_else(|| wrong(text))).transpose()
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

    fn print(
        &self,
        room: &Room,
        runs: Vec<RunRow>,
        next: Option<String>,
        total: u64,
    ) -> anyhow::Result<Code> {
        let list = RunList { schema: Schema::new(), runs, next, total };
        let rows = &list.runs;
        let console = &room.console;
        console.show(&list, rows::COLUMNS.split(','), rows.iter().map(rows::cells), |paint| {
            if rows.is_empty() { String::new() } else { rows::table(rows, Timestamp::now()).render(paint) }
        })?;
        if console.format == Format::Table {
            if total > rows.len() as u64 {
                let note = format!("{} of {total} runs; --all shows the others", rows.len());
                console.note(console.paint_err.dim(&note));
            } else if rows.is_empty() && is_narrowed(self) {
                console.note("no run fits; fewer filters find more");
            }
        }
        Ok(Code::OK)
    }
}

fn is_narrowed(runs: &Runs) -> bool {
    let texts = [&runs.text, &runs.workload, &runs.device, &runs.tag, &runs.since, &runs.until];
    texts.iter().any(|text| text.is_some())
        || runs.state.is_some()
        || runs.cause.is_some()
        || runs.batch.is_some()
}

fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(metier_store::Error::Absent { .. }))
}

fn is_default(room: &Room) -> bool {
    room.settings.get("store").is_some_and(|store| store.origin == crate::config::Origin::Default)
}
