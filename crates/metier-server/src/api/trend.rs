//! Histories of workloads on devices, and where their level changed.

use axum::http::StatusCode;
use metier_stats::{ChangeOptions, Error, Figure};
use metier_store::RunFilter;

use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::storage;

/// Which histories, and of what.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::query("workload", Form::Workload, "Id or name of the workload, whole."),
    Parameter::query("device", Form::Device, "Id or name of the device, whole."),
    Parameter::query(
        "metric",
        Form::Text(300),
        "Of which figure: wall (default), cpu, memory, energy, … or stage:NAME:p95.",
    ),
    Parameter::query("since", Form::Time, "Started at this moment or later."),
    Parameter::query("until", Form::Time, "Started before this moment."),
    Parameter::query(
        "limit",
        Form::Whole { least: 8, most: 2000, otherwise: Some(1000) },
        "How many of the latest runs to look at, over all histories.",
    ),
];

pub fn trend(app: &App, call: &Call) -> Result<Reply, Problem> {
    let arguments = &call.arguments;
    let metric = arguments.text("metric").unwrap_or("wall");
    let figure: Figure = metric.parse().map_err(|error| match error {
        Error::WrongField { want, .. } => Problem::bad_field("metric", metric, format!("one of {want}")),
        other => Problem::bad_field("metric", metric, other.to_string()),
    })?;
    let filter = RunFilter {
        workload: arguments.text("workload").map(str::to_string),
        device: arguments.text("device").map(str::to_string),
        since: arguments.parsed("since")?,
        until: arguments.parsed("until")?,
        ..RunFilter::default()
    };
    let most = arguments.whole("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1000);
    let store = app.storage.store()?;
    let runs = store.latest(&filter, most).map_err(storage::problem)?;
    let trends = metier_stats::trends(&runs, &figure, &ChangeOptions::default())
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Reply::json(&trends)
}
