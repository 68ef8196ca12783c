//! Recommended requests and limits of a run, from its own use.

use metier_stats::{ResourceAdvice, UseHistory, size_resources};
use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{Run, RunId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app_state::SharedAppState;
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

/// Recommended requests and limits of a run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunAdvice {
    /// `metier.advice/1`.
    pub schema: RecordSchema<RunAdvice>,
    /// The run.
    pub run: RunId,
    /// The advice, as `metier report` gives it for this run.
    pub advice: ResourceAdvice,
}

impl VersionedRecord for RunAdvice {
    const SCHEMA: &'static str = "metier.advice/1";
}

pub fn get_advice(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let id: RunId = call.arguments.required("id")?;
    let store = app.storage.store()?;
    let run: Run = super::load_run(&store, id)?;
    let series = store.series(id, Some("use")).map_err(storage::store_problem)?;
    let history: Vec<UseHistory> = UseHistory::of_run(&run, &series).into_iter().collect();
    HandlerResponse::json(&RunAdvice {
        schema: RecordSchema::new(),
        run: id,
        advice: size_resources(&history),
    })
}
