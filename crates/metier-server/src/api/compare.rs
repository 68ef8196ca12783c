//! Two groups of runs, compared.

use axum::http::StatusCode;
use metier_stats::{CompareOptions, Error};
use metier_store::Store;
use metier_types::{BatchId, Run, RunId};

use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::{FieldError, Problem};
use crate::http::{Call, Reply};
use crate::storage;

pub const PARAMETERS: &[Parameter] = &[
    Parameter::needed("a", Form::RunsOrBatches, "Ids of runs or batches, the old side."),
    Parameter::needed("b", Form::RunsOrBatches, "Ids of runs or batches, the new side."),
];

/// Most workloads that a side is called by.
const MOST_NAMES: usize = 3;
/// Most runs of one side.
const MOST_RUNS: usize = 1000;

/// Compares two groups of runs.
pub fn compare(app: &App, call: &Call) -> Result<Reply, Problem> {
    let store = app.storage.store()?;
    let (a, b) = (group(&store, call, "a")?, group(&store, call, "b")?);
    let options = CompareOptions { label_a: label(&a), label_b: label(&b), ..CompareOptions::default() };
    Reply::json(&metier_stats::compare(&a, &b, &options).map_err(problem)?)
}

/// What a client is told: which side is at fault and what would be right.
fn problem(error: Error) -> Problem {
    let (status, field, got) = match &error {
        Error::NoRuns { side } => (StatusCode::BAD_REQUEST, *side, "no run".to_string()),
        Error::TooManyRuns { side, given, .. } => (StatusCode::BAD_REQUEST, *side, format!("{given} runs")),
        Error::NamedTwice { run } => (StatusCode::BAD_REQUEST, "b", run.to_string()),
        Error::AllLeftOut { side, because, .. } => (StatusCode::UNPROCESSABLE_ENTITY, *side, because.clone()),
        _ => return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    let want = "finished, successful runs that are no warm-up, each named once";
    Problem::new(status, error.to_string()).because(vec![FieldError::new(field, &got, want)])
}

/// What people call a side: its workloads, and the batch or run where there is only one.
fn label(runs: &[Run]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.workload.name.as_str()) {
            names.push(&run.workload.name);
        }
    }
    let rest = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let mut label = names.join(", ");
    if rest > 0 {
        label.push_str(&format!(" and {rest} more"));
    }
    match runs {
        [one] => format!("{label} {}", one.id.short()),
        [first, others @ ..] if others.iter().all(|run| run.batch == first.batch) => {
            format!("{label} {}", first.batch.short())
        }
        _ => label,
    }
}

/// The runs that one side names, each once.
fn group(store: &Store, call: &Call, side: &str) -> Result<Vec<Run>, Problem> {
    let mut runs: Vec<Run> = Vec::new();
    for text in call.arguments.text(side).unwrap_or_default().split(',') {
        let id: RunId =
            text.parse().map_err(|_| Problem::bad_field(side, text, "the id of a run or batch"))?;
        let found = match store.run(id).map_err(storage::problem)? {
            Some(run) => vec![run],
            None => {
                let batch: BatchId =
                    text.parse().map_err(|_| Problem::bad_field(side, text, "the id of a run or batch"))?;
                store.batch(batch).map_err(storage::problem)?
            }
        };
        if found.is_empty() {
            let mut problem = Problem::not_found("run or batch", text);
            problem.errors.iter_mut().for_each(|error| error.field = side.to_string());
            return Err(problem);
        }
        for run in found {
            if !runs.iter().any(|known| known.id == run.id) {
                runs.push(run);
            }
        }
        if runs.len() > MOST_RUNS {
            return Err(Problem::bad_field(side, text, format!("at most {MOST_RUNS} runs in all")));
        }
    }
    Ok(runs)
}
