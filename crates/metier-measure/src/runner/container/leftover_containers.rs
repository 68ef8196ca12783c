//! Leftover containers of a killed measuring process: found by metier's labels, removed when their
//! owner is gone.

use std::collections::HashMap;

use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use metier_types::RunId;

use super::engine::{ContainerEngine, block_on, find_socket};
use metier_linux::{KernelRoots, group_owner};

/// The owner: PID and start time of the measuring process, and its boot id.
pub(super) const OWNER_LABEL: &str = "metier.owner";
/// The run.
pub(super) const RUN_LABEL: &str = "metier.run";

/// The labels of metier's containers.
pub(super) fn owner_labels(roots: &KernelRoots, id: RunId) -> [(&'static str, String); 2] {
    [(RUN_LABEL, id.to_string()), (OWNER_LABEL, group_owner::owner_mark(roots))]
}

/// Removes metier's containers whose owner is gone.
pub(super) async fn remove_ownerless(engine: &ContainerEngine) {
    let filters = HashMap::from([("label".to_string(), vec![OWNER_LABEL.to_string()])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    let roots = KernelRoots::default();
    for container in engine.docker.list_containers(Some(options)).await.unwrap_or_default() {
        let owner = container.labels.as_ref().and_then(|labels| labels.get(OWNER_LABEL));
        let is_left = owner.is_some_and(|owner| group_owner::is_owner_gone(&roots, owner));
        if let Some(id) = container.id.filter(|_| is_left) {
            let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
            let _ = engine.docker.remove_container(&id, Some(options)).await;
        }
    }
}

/// Same as [`remove_ownerless`] for callers without an engine. Does nothing if no engine listens.
pub(crate) fn remove_leftover_containers() {
    if let Ok(socket) = find_socket(None) {
        let _ = block_on(async {
            if let Ok(engine) = ContainerEngine::connect(&socket).await {
                remove_ownerless(&engine).await;
            }
        });
    }
}
