//! The processes of a run, which are kept as a file of the run.

use axum::http::StatusCode;
use metier_types::{ArtefactRef, RunId, RunState};

use crate::app::App;
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::storage;

/// The name of the file that holds the process tree, as the measuring room writes it.
const FILE: &str = metier_types::ProcessTree::ARTEFACT;
/// Larger ones are not given out: 100,000 processes take about a fifth of it.
const MOST_BYTES: u64 = 128 << 20;

/// The process tree of a run, as it was recorded.
pub fn tree(app: &App, call: &Call) -> Result<Reply, Problem> {
    let id: RunId = call.arguments.needed("id")?;
    let store = app.storage.store()?;
    let run = super::run(&store, id)?;
    let Some(file) = run.artefacts.iter().find(|file| file.name == FILE) else {
        let missing = run.missing.iter().find(|(field, _)| field.starts_with("processes"));
        let why = match (missing, run.state) {
            (Some((_, why)), _) => why.to_string(),
            (None, RunState::Running) => {
                "it is written at the end, and the run is still under way".to_string()
            }
            (None, _) => "none was recorded".to_string(),
        };
        let detail = format!("run {id} has no process tree: {why}");
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    Ok(Reply::new("application/json", read(&store, file)?))
}

fn read(store: &metier_store::Store, file: &ArtefactRef) -> Result<Vec<u8>, Problem> {
    let size = file.size_bytes.get();
    if size > MOST_BYTES {
        let detail = format!("the process tree has {size} bytes; this API gives out at most {MOST_BYTES}");
        return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    store.artefact(&file.digest, &mut content).map_err(storage::problem)?;
    Ok(content)
}
