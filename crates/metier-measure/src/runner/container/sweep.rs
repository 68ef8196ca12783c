//! Containers that a killed measuring program left: known by our labels, removed when their owner is gone.

use std::collections::HashMap;

use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use metier_types::RunId;

use super::engine::{Engine, block_on, find};
use metier_linux::{Roots, group_owner};

/// Whose container it is: process id and start time of the measuring program, and the boot they are of.
pub(super) const OWNER: &str = "metier.owner";
/// Which run it is.
pub(super) const RUN: &str = "metier.run";

/// The labels of a container of ours.
pub(super) fn labels(roots: &Roots, id: RunId) -> [(&'static str, String); 2] {
    [(RUN, id.to_string()), (OWNER, group_owner::owner_mark(roots))]
}

/// Removes containers of ours whose owner is gone.
pub(super) async fn containers(engine: &Engine) {
    let filters = HashMap::from([("label".to_string(), vec![OWNER.to_string()])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    let roots = Roots::default();
    for container in engine.docker.list_containers(Some(options)).await.unwrap_or_default() {
        let owner = container.labels.as_ref().and_then(|labels| labels.get(OWNER));
        let is_left = owner.is_some_and(|owner| group_owner::is_owner_gone(&roots, owner));
        if let Some(id) = container.id.filter(|_| is_left) {
            let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
            let _ = engine.docker.remove_container(&id, Some(options)).await;
        }
    }
}

/// The same for whoever has no engine at hand. Nothing happens where none listens.
pub(crate) fn sweep() {
    if let Ok(socket) = find(None) {
        let _ = block_on(async {
            if let Ok(engine) = Engine::connect(&socket).await {
                containers(&engine).await;
            }
        });
    }
}
