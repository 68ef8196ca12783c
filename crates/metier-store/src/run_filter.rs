//! Filters for lists of runs, and the row that a list shows for a record.

use std::fmt;
use std::str::FromStr;

use metier_types::{
    BatchId, DeviceRef, ExitCause, RunExit, RunId, RunRow, RunState, RunSummary, UtcTimestamp, WorkloadRef,
    is_counted_run,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Error;

/// Filter of a list of runs. The default selects all runs except warm-up runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunFilter {
    /// Id or full name of the workload.
    pub workload: Option<String>,
    /// Id or full name of the device.
    pub device: Option<String>,
    /// State of the run.
    pub state: Option<RunState>,
    pub cause: Option<ExitCause>,
    /// A tag of the run.
    pub tag: Option<String>,
    /// The batch of the run.
    pub batch: Option<BatchId>,
    /// Part of the id, workload name or command; case is ignored.
    pub text: Option<String>,
    /// Earliest start (inclusive).
    pub since: Option<UtcTimestamp>,
    /// Latest start (exclusive).
    pub until: Option<UtcTimestamp>,
    /// Whether warm-up runs are included.
    pub warmup: bool,
    /// Page size; 0 means 100, at most 1000.
    pub limit: u32,
    /// Cursor of the next page: [`RunList::next`](metier_types::RunList::next).
    pub after: Option<String>,
}

/// The list row of a stored record.
pub(crate) fn parse_run_row(json: &str) -> Result<RunRow, serde_json::Error> {
    let record: ListedRun = serde_json::from_str(json)?;
    Ok(RunRow {
        counted: is_counted_run(record.state, record.exit.as_ref(), record.context.warmup),
        id: record.id,
        batch: record.batch,
        workload: record.workload,
        device: record.device,
        state: record.state,
        started: record.started,
        ended: record.ended,
        exit: record.exit,
        tags: record.tags,
        summary: record.summary,
        repetition: record.context.repetition,
        repetitions: record.context.repetitions,
        warmup: record.context.warmup,
        warnings: record.warnings.len() as u32,
        command: command_line(&record.context.command),
    })
}

#[derive(Deserialize)]
struct ListedRun {
    id: RunId,
    batch: BatchId,
    workload: WorkloadRef,
    device: DeviceRef,
    state: RunState,
    started: UtcTimestamp,
    ended: Option<UtcTimestamp>,
    exit: Option<RunExit>,
    context: ListedRunContext,
    #[serde(default)]
    tags: Vec<String>,
    summary: RunSummary,
    #[serde(default)]
    warnings: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct ListedRunContext {
    command: Vec<String>,
    repetition: u32,
    repetitions: u32,
    #[serde(default)]
    warmup: bool,
}

/// Quotes a command as one shell line, cut at 4096 characters.
pub(crate) fn command_line(command: &[String]) -> String {
    const LONGEST: usize = 4096;
    let mut line = String::new();
    let mut length = 0;
    for word in command {
        let is_plain =
            !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "%+,-./:=@_^".contains(c));
        let quoted = if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) };
        if length > 0 {
            line.push(' ');
        }
        for c in quoted.chars() {
            if length + 2 > LONGEST {
                line.push('…');
                return line;
            }
            line.push(if c == '\0' { ' ' } else { c });
            length += 1;
        }
        length += 1;
    }
    line
}

/// The text that a text filter searches.
pub(crate) fn search_text(name: &str, command: &str) -> String {
    let name = name.chars().take(600);
    name.chain(['\n']).chain(command.chars()).filter(|c| *c != '\0').collect::<String>().to_lowercase()
}

/// Position after the last run of a page. As text: start time in hexadecimal, a dot, the id.
pub(crate) struct RunPageCursor {
    pub started: i64,
    pub id: String,
}

impl fmt::Display for RunPageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.started as u64, self.id)
    }
}

impl FromStr for RunPageCursor {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('.').and_then(|(started, id)| {
            let started = u64::from_str_radix(started, 16).ok()? as i64;
            let is_id = id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit());
            is_id.then(|| Self { started, id: id.to_string() })
        });
        parts.ok_or_else(|| Error::Refused {
            what: "after",
            got: format!("{:?}", text.chars().take(80).collect::<String>()),
            want: "the `next` of the page before".to_string(),
        })
    }
}
