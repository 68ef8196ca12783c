//! The list of runs, and one of them.

use metier_store::RunFilter;
use metier_types::{Cause, RunId, RunState};

use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::storage;

/// What narrows the list.
pub const FILTERS: &[Parameter] = &[
    Parameter::query("text", Form::Text(200), "A part of the workload's name or the command, in any case."),
    Parameter::query("workload", Form::Workload, "Id or name of the workload, whole."),
    Parameter::query("device", Form::Device, "Id or name of the device, whole."),
    Parameter::query("state", Form::OneOf(&RunState::WORDS), "Whether they are over."),
    Parameter::query("cause", Form::OneOf(&Cause::WORDS), "Why they ended."),
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
    Reply::json(&page)
}

pub fn one(app: &App, call: &Call) -> Result<Reply, Problem> {
    let id: RunId = call.arguments.needed("id")?;
    Reply::json(&super::run(&app.storage.store()?, id)?)
}
