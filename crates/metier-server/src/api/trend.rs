//! Histories of workloads on devices, with the changes of their level.

use axum::http::StatusCode;
use metier_stats::{ChangeOptions, Error, TrendMetric};
use metier_store::RunFilter;

use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

/// Filters of the histories, and their metric.
pub const PARAMETERS: &[RouteParameter] = &[
    RouteParameter::query("workload", ParameterForm::Workload, "Id or name of the workload, whole."),
    RouteParameter::query("device", ParameterForm::Device, "Id or name of the device, whole."),
    RouteParameter::query(
        "metric",
        ParameterForm::Text(300),
        "Of which figure: wall (default), cpu, memory, energy, … or stage:NAME:p95.",
    ),
    RouteParameter::query("since", ParameterForm::Time, "Started at this moment or later."),
    RouteParameter::query("until", ParameterForm::Time, "Started before this moment."),
    RouteParameter::query(
        "limit",
        ParameterForm::Whole { least: 8, most: 2000, otherwise: Some(1000) },
        "How many of the latest runs to look at, over all histories.",
    ),
];

pub fn get_trend(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let arguments = &call.arguments;
    let metric = arguments.text("metric").unwrap_or("wall");
    let figure: TrendMetric = metric.parse().map_err(|error| match error {
        Error::WrongField { want, .. } => {
            ProblemDetails::bad_field("metric", metric, format!("one of {want}"))
        }
        other => ProblemDetails::bad_field("metric", metric, other.to_string()),
    })?;
    let filter = RunFilter {
        workload: arguments.text("workload").map(str::to_string),
        device: arguments.text("device").map(str::to_string),
        since: arguments.parsed("since")?,
        until: arguments.parsed("until")?,
        ..RunFilter::default()
    };
    let most = arguments.integer("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1000);
    let store = app.storage.store()?;
    let runs = store.latest_runs(&filter, most).map_err(storage::store_problem)?;
    let trends = metier_stats::find_trends(&runs, &figure, &ChangeOptions::default(), &app.changes)
        .map_err(|error| ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    HandlerResponse::json(&trends)
}
