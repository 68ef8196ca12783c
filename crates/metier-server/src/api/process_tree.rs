//! The process tree of a run, stored as a file of the run.

use axum::http::StatusCode;
use metier_types::{ArtefactRef, RunId, RunState};

use crate::app_state::SharedAppState;
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

/// Name of the file with the process tree, as `metier-measure` writes it.
const PROCESS_TREE_FILE: &str = metier_types::ProcessTree::ARTEFACT_NAME;
/// Larger trees are not served: 100,000 processes take about a fifth of this.
const MAX_TREE_BYTES: u64 = 128 << 20;

/// The process tree of a run, as it was recorded.
pub fn get_process_tree(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let id: RunId = call.arguments.required("id")?;
    let store = app.storage.store()?;
    let run = super::load_run(&store, id)?;
    let Some(file) = run.artefacts.iter().find(|file| file.name == PROCESS_TREE_FILE) else {
        let missing = run.missing.iter().find(|(field, _)| field.starts_with("processes"));
        let why = match (missing, run.state) {
            (Some((_, why)), _) => why.to_string(),
            (None, RunState::Running) => {
                "it is written at the end, and the run is still under way".to_string()
            }
            (None, _) => "none was recorded".to_string(),
        };
        let detail = format!("run {id} has no process tree: {why}");
        return Err(ProblemDetails::new(StatusCode::NOT_FOUND, detail));
    };
    Ok(HandlerResponse::new("application/json", read_tree_file(&store, file)?))
}

fn read_tree_file(store: &metier_store::RecordStore, file: &ArtefactRef) -> Result<Vec<u8>, ProblemDetails> {
    let size = file.size_bytes.get();
    if size > MAX_TREE_BYTES {
        let detail =
            format!("the process tree has {size} bytes; this API gives out at most {MAX_TREE_BYTES}");
        return Err(ProblemDetails::new(StatusCode::INSUFFICIENT_STORAGE, detail));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    store.read_artefact(&file.digest, &mut content).map_err(storage::store_problem)?;
    Ok(content)
}
