//! Comparison of two groups of runs.

use axum::http::StatusCode;
use metier_stats::{CompareOptions, Error};
use metier_store::RecordStore;
use metier_types::{BatchId, Run, RunId};

use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

pub const PARAMETERS: &[RouteParameter] = &[
    RouteParameter::required_query(
        "a",
        ParameterForm::RunsOrBatches,
        "Ids of runs or batches, the old side.",
    ),
    RouteParameter::required_query(
        "b",
        ParameterForm::RunsOrBatches,
        "Ids of runs or batches, the new side.",
    ),
];

/// Most workload names in a side's label.
const MAX_LABEL_NAMES: usize = 3;
/// Most runs of one side.
const MAX_RUNS_PER_SIDE: usize = 1000;

/// Compares two groups of runs.
pub fn compare_runs(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let store = app.storage.store()?;
    let (a, b) = (load_side(&store, call, "a")?, load_side(&store, call, "b")?);
    let history = store.batch_history(&[a.as_slice(), &b].concat()).map_err(storage::store_problem)?;
    let options = CompareOptions {
        label_a: side_label(&a),
        label_b: side_label(&b),
        history,
        ..CompareOptions::default()
    };
    HandlerResponse::json(&metier_stats::compare(&a, &b, &options).map_err(comparison_problem)?)
}

/// Converts a comparison error into a problem that names the side and the fix.
fn comparison_problem(error: Error) -> ProblemDetails {
    let (status, field, got) = match &error {
        Error::NoRuns { side } => (StatusCode::BAD_REQUEST, *side, "no run".to_string()),
        Error::TooManyRuns { side, given, .. } => (StatusCode::BAD_REQUEST, *side, format!("{given} runs")),
        Error::NamedTwice { run } => (StatusCode::BAD_REQUEST, "b", run.to_string()),
        Error::AllLeftOut { side, because, .. } => (StatusCode::UNPROCESSABLE_ENTITY, *side, because.clone()),
        _ => return ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    let want = "finished, successful runs that are no warm-up, each named once";
    ProblemDetails::new(status, error.to_string()).with_errors(vec![FieldError::new(field, &got, want)])
}

/// Label of a side: its workloads, and its batch or run where there is only one.
fn side_label(runs: &[Run]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.workload.name.as_str()) {
            names.push(&run.workload.name);
        }
    }
    let rest = names.len().saturating_sub(MAX_LABEL_NAMES);
    names.truncate(MAX_LABEL_NAMES);
    let mut label = names.join(", ");
    if rest > 0 {
        label.push_str(&format!(" and {rest} more"));
    }
    match runs {
        [run] => format!("{label} {}", run.id.short()),
        [first, others @ ..] if others.iter().all(|run| run.batch == first.batch) => {
            format!("{label} {}", first.batch.short())
        }
        _ => label,
    }
}

/// The runs that one side names, each once.
fn load_side(store: &RecordStore, call: &HandlerRequest, side: &str) -> Result<Vec<Run>, ProblemDetails> {
    let mut runs: Vec<Run> = Vec::new();
    for text in call.arguments.text(side).unwrap_or_default().split(',') {
        let id: RunId =
            text.parse().map_err(|_| ProblemDetails::bad_field(side, text, "the id of a run or batch"))?;
        let found = match store.run(id).map_err(storage::store_problem)? {
            Some(run) => vec![run],
            None => {
                let batch: BatchId = text
                    .parse()
                    .map_err(|_| ProblemDetails::bad_field(side, text, "the id of a run or batch"))?;
                store.batch(batch).map_err(storage::store_problem)?
            }
        };
        if found.is_empty() {
            let mut problem = ProblemDetails::not_found("run or batch", text);
            problem.errors.iter_mut().for_each(|error| error.field = side.to_string());
            return Err(problem);
        }
        for run in found {
            if !runs.iter().any(|known| known.id == run.id) {
                runs.push(run);
            }
        }
        if runs.len() > MAX_RUNS_PER_SIDE {
            return Err(ProblemDetails::bad_field(
                side,
                text,
                format!("at most {MAX_RUNS_PER_SIDE} runs in all"),
            ));
        }
    }
    Ok(runs)
}
