//! The list of runs, and single runs.

use metier_store::RunFilter;
use metier_types::{ExitCause, RunId, RunState};

use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

/// Filters of the list.
pub const RUN_FILTERS: &[RouteParameter] = &[
    RouteParameter::query(
        "text",
        ParameterForm::Text(200),
        "A part of the workload's name or the command, in any case.",
    ),
    RouteParameter::query("workload", ParameterForm::Workload, "Id or name of the workload, whole."),
    RouteParameter::query("device", ParameterForm::Device, "Id or name of the device, whole."),
    RouteParameter::query("state", ParameterForm::OneOf(&RunState::WORDS), "Whether they are over."),
    RouteParameter::query("cause", ParameterForm::OneOf(&ExitCause::WORDS), "Why they ended."),
    RouteParameter::query("tag", ParameterForm::Text(200), "A tag that they have."),
    RouteParameter::query("batch", ParameterForm::Batch, "The batch that they belong to."),
    RouteParameter::query("since", ParameterForm::Time, "Started at this moment or later."),
    RouteParameter::query("until", ParameterForm::Time, "Started before this moment."),
    RouteParameter::query(
        "warmup",
        ParameterForm::Flag { otherwise: false },
        "Whether warm-up runs are listed too.",
    ),
    RouteParameter::query(
        "limit",
        ParameterForm::Whole { least: 1, most: 1000, otherwise: Some(50) },
        "How many to give at most.",
    ),
    RouteParameter::query("after", ParameterForm::Text(200), "Where the page before ended: its `next`."),
];

/// Runs that match the filters.
pub fn list_runs(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let arguments = &call.arguments;
    let text = |name: &str| arguments.text(name).map(str::to_string);
    let filter = RunFilter {
        workload: text("workload"),
        device: text("device"),
        state: arguments.enum_value::<RunState>("state")?,
        cause: arguments.enum_value::<ExitCause>("cause")?,
        tag: text("tag"),
        batch: arguments.parsed("batch")?,
        text: text("text"),
        since: arguments.parsed("since")?,
        until: arguments.parsed("until")?,
        warmup: arguments.flag("warmup"),
        limit: arguments.integer("limit").and_then(|limit| u32::try_from(limit).ok()).unwrap_or_default(),
        after: text("after"),
    };
    let page = app.storage.store()?.runs(&filter).map_err(storage::store_problem)?;
    HandlerResponse::json(&page)
}

pub fn get_run(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let id: RunId = call.arguments.required("id")?;
    HandlerResponse::json(&super::load_run(&app.storage.store()?, id)?)
}
