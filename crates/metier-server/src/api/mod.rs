//! The handlers of `/api/v1`: each reads checked parameters, asks the store, and gives back one versioned record.

pub mod artefacts;
pub mod compare;
pub mod devices;
pub mod doctor;
pub mod graphs;
pub mod power;
pub mod power_predictors;
pub mod processes;
pub mod runs;
pub mod series;
pub mod sessions;
pub mod trend;

use metier_store::Store;
use metier_types::{Run, RunId};

use crate::http::problem::Problem;
use crate::storage;

/// A run that must be there.
fn run(store: &Store, id: RunId) -> Result<Run, Problem> {
    store.run(id).map_err(storage::problem)?.ok_or_else(|| Problem::not_found("run", &id.to_string()))
}
