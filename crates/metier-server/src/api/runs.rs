//! The list of runs, and one of them.

use metier_store::{RunFilter, RunRow};
use metier_types::schema::{Schema, Versioned};
use metier_types::{BatchId, Cause, DeviceRef, Exit, RunId, RunState, Summary, Timestamp, WorkloadRef};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::storage;

const STATES: &[&str] = &["running", "finished", "interrupted"];
const CAUSES: &[&str] = &["exited", "signalled", "timeout", "oom", "interrupted", "lost", "unstarted"];

/// What narrows the list.
pub const FILTERS: &[Parameter] = &[
    Parameter::query("text", Form::Text(200), "A part of the workload's name or the command, in any case."),
    Parameter::query("workload", Form::Workload, "Id or name of the workload, whole."),
    Parameter::query("device", Form::Device, "Id or name of the device, whole."),
    Parameter::query("state", Form::OneOf(STATES), "Whether they are over."),
    Parameter::query("cause", Form::OneOf(CAUSES), "Why they ended."),
    Parameter::query("tag", Form::Text(200), "A tag that they have."),
    Parameter::query("batch", Form::Batch, "The batch that they belong to."),
    Parameter::query("since", Form::Time, "Started at this moment or later."),
    Parameter::query("until", Form::Time, "Started before this moment."),
    Parameter::query("warmup", Form::Flag { otherwise: false }, "Whether warm-up runs are listed too."),
    Parameter::query(
        "limit",
        Form::Whole { least: 1, most: 1000, otherwise: Some(50) },
        "How many to give at most.",
    ),
    Parameter::query("after", Form::Text(200), "Where the page before ended: its `next`."),
];

/// One run in a list: what a table shows, without the details.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunEntry {
    /// Its identity.
    pub id: RunId,
    /// The repetitions that were asked for together.
    pub batch: BatchId,
    /// What ran.
    pub workload: WorkloadRef,
    /// Where.
    pub device: DeviceRef,
    /// Whether it is over.
    pub state: RunState,
    /// When it started.
    pub started: Timestamp,
    /// When its last process was gone.
    pub ended: Option<Timestamp>,
    /// How it ended; `null` while it runs.
    pub exit: Option<Exit>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The figures most people look at.
    pub summary: Summary,
    /// Which repetition of its batch.
    pub repetition: u32,
    /// How many repetitions the batch has.
    pub repetitions: u32,
    /// Whether it only warmed up.
    pub warmup: bool,
    /// How many warnings it carries.
    pub warnings: u32,
    /// Program and arguments as one line.
    pub command: String,
}

impl From<RunRow> for RunEntry {
    fn from(row: RunRow) -> Self {
        // Taken apart field by field, so that a field the store adds is not forgotten here.
        let RunRow {
            id,
            batch,
            workload,
            device,
            state,
            started,
            ended,
            exit,
            tags,
            summary,
            repetition,
            repetitions,
            warmup,
            warnings,
            command,
        } = row;
        Self {
            id,
            batch,
            workload,
            device,
            state,
            started,
            ended,
            exit,
            tags,
            summary,
            repetition,
            repetitions,
            warmup,
            warnings,
            command,
        }
    }
}

/// A page of runs, newest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunList {
    /// `metier.runs/1`.
    pub schema: Schema<RunList>,
    /// The runs.
    pub runs: Vec<RunEntry>,
    /// What to give as `after` for the next page; `null` on the last one.
    pub next: Option<String>,
    /// How many runs fit on all pages.
    pub total: u64,
}

impl Versioned for RunList {
    const SCHEMA: &'static str = "metier.runs/1";
}

/// Runs that fit the filters.
pub fn list(app: &App, call: &Call) -> Result<Reply, Problem> {
    let arguments = &call.arguments;
    let text = |name: &str| arguments.text(name).map(str::to_string);
    let filter = RunFilter {
        workload: text("workload"),
        device: text("device"),
        state: arguments.word::<RunState>("state")?,
        cause: arguments.word::<Cause>("cause")?,
        tag: text("tag"),
        batch: arguments.parsed("batch")?,
        text: text("text"),
        since: arguments.parsed("since")?,
        until: arguments.parsed("until")?,
        warmup: arguments.flag("warmup"),
        limit: arguments.whole("limit").and_then(|limit| u32::try_from(limit).ok()).unwrap_or_default(),
        after: text("after"),
    };
    let page = app.storage.store()?.runs(&filter).map_err(storage::problem)?;
    Reply::json(&RunList {
        schema: Schema::new(),
        runs: page.runs.into_iter().map(RunEntry::from).collect(),
        next: page.next,
        total: page.total,
    })
}

pub fn one(app: &App, call: &Call) -> Result<Reply, Problem> {
    let id: RunId = call.arguments.needed("id")?;
    Reply::json(&super::run(&app.storage.store()?, id)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_states_and_causes_are_those_of_the_records() {
        for word in STATES {
            serde_json::from_value::<RunState>((*word).into()).unwrap();
        }
        for word in CAUSES {
            serde_json::from_value::<Cause>((*word).into()).unwrap();
        }
        let words = |schema: schemars::Schema| schema.to_value()["oneOf"].as_array().unwrap().len();
        assert_eq!(words(schemars::schema_for!(RunState)), STATES.len());
        assert_eq!(words(schemars::schema_for!(Cause)), CAUSES.len());
    }
}
