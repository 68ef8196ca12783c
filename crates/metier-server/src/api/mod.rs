//! The handlers of `/api/v1`: each reads checked parameters, queries the store, and returns one
//! versioned record.

pub mod advice;
pub mod artefacts;
pub mod compare;
pub mod devices;
pub mod doctor;
pub mod graphs;
pub mod power;
pub mod power_predictors;
pub mod process_tree;
pub mod runs;
pub mod series;
pub mod sessions;
pub mod trend;

use metier_store::RecordStore;
use metier_types::{Run, RunId};

use crate::http::problem::ProblemDetails;
use crate::storage;

/// The run with this id; a problem if it does not exist.
fn load_run(store: &RecordStore, id: RunId) -> Result<Run, ProblemDetails> {
    store
        .run(id)
        .map_err(storage::store_problem)?
        .ok_or_else(|| ProblemDetails::not_found("run", &id.to_string()))
}
