//! Two groups of runs, compared.

use metier_store::Store;
use metier_types::{BatchId, Run, RunId};

use crate::parameter::{Form, Parameter};
use crate::problem::Problem;
use crate::routes::{Call, Reply};
use crate::serve::App;
use crate::storage;

/// The two groups.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::needed("a", Form::RunsOrBatches, "Ids of runs or batches, the old side."),
    Parameter::needed("b", Form::RunsOrBatches, "Ids of runs or batches, the new side."),
];

/// What is answered.
pub type Answer = serde_json::Value;

/// Most runs of one side.
const MOST_RUNS: usize = 1000;

/// Compares two groups of runs.
pub fn compare(app: &App, call: &Call) -> Result<Reply, Problem> {
    let store = app.storage.store()?;
    let (_a, _b) = (group(&store, call, "a")?, group(&store, call, "b")?);
    Err(storage::unavailable("comparing is not built yet"))
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
