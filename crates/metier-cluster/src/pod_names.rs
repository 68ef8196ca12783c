//! Names of the pods and containers of a node, for lookup by the identifiers in cgroup paths.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use metier_measure::spec::PodSpec;

use crate::Error;
use crate::cluster_client::ClusterClient;
use crate::job::RUN_LABEL;

/// Time limit of all requests together.
const API_TIMEOUT: Duration = Duration::from_secs(10);
/// Pods per page, and most pages.
const PAGE_SIZE: u32 = 500;
const MAX_PAGES: usize = 20;

/// A pod with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPod {
    /// Its uid, and the kubelet's uid of a static pod.
    pub uid: String,
    pub name: String,
    pub namespace: String,
    /// The metier run of the pod.
    pub run_id: Option<String>,
    /// Its started containers.
    pub containers: Vec<NamedContainer>,
}

/// A container with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedContainer {
    /// Its id, without the runtime's prefix.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    pub image: String,
}

/// Client for the cluster of `KUBECONFIG`, or of the current pod. Calls block, with a time limit.
pub struct PodNameLookup {
    node: Option<String>,
    connected: Option<(tokio::runtime::Runtime, ClusterClient)>,
}

impl PodNameLookup {
    /// Pods of a node, or of all nodes if this node's name is unknown.
    pub fn for_node(node: Option<String>) -> Self {
        Self { node, connected: None }
    }

    /// The current pods.
    pub fn list_pods(&mut self) -> Result<Vec<NamedPod>, Error> {
        let failed = |reason: String| Error::Cluster { reason };
        if self.connected.is_none() {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| failed(error.to_string()))?;
            let usual = PodSpec::default();
            let connect = ClusterClient::connect(&usual);
            let cluster = runtime
                .block_on(async { tokio::time::timeout(API_TIMEOUT, connect).await })
                .map_err(|_| failed("no connection in time".into()))??;
            self.connected = Some((runtime, cluster));
        }
        let Some((runtime, cluster)) = &self.connected else { return Ok(Vec::new()) };
        let listed = runtime.block_on(async {
            tokio::time::timeout(API_TIMEOUT, list_node_pods(cluster, self.node.as_deref())).await
        });
        match listed {
            Ok(Ok(pods)) => Ok(pods.iter().filter_map(name_pod).collect()),
            Ok(Err(error)) => {
                // Credentials may have been renewed: the next call connects again.
                self.connected = None;
                Err(error)
            }
            Err(_) => {
                self.connected = None;
                Err(failed("no answer in time".into()))
            }
        }
    }
}

async fn list_node_pods(cluster: &ClusterClient, node: Option<&str>) -> Result<Vec<Pod>, Error> {
    let api = cluster.pods_everywhere();
    let mut parameters = ListParams::default().limit(PAGE_SIZE);
    if let Some(node) = node {
        parameters = parameters.fields(&format!("spec.nodeName={node}"));
    }
    let mut pods = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = api.list(&parameters).await.map_err(Error::api("listing the pods of the node"))?;
        pods.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    Ok(pods)
}

fn name_pod(pod: &Pod) -> Option<NamedPod> {
    let meta = &pod.metadata;
    let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name)).cloned();
    let status = pod.status.as_ref();
    let lists = status.map(|status| {
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses]
    });
    let spec = pod.spec.as_ref();
    let own =
        spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let asked: BTreeMap<&str, &str> =
        own.filter_map(|container| Some((container.name.as_str(), container.image.as_deref()?))).collect();
    let containers = lists
        .into_iter()
        .flatten()
        .flat_map(|list| list.iter().flatten())
        .filter_map(|container| {
            // docker://ID, containerd://ID
            let id = container.container_id.as_deref()?.rsplit('/').next()?.to_string();
            // The requested image name, if the runtime reports only a digest.
            let asked = || asked.get(container.name.as_str()).map(|image| image.to_string());
            let is_digest = container.image.starts_with("sha256:");
            let image = is_digest.then(asked).flatten().unwrap_or_else(|| container.image.clone());
            Some(NamedContainer { id, name: container.name.clone(), image })
        })
        .collect();
    Some(NamedPod {
        // A static pod has different uids at the API server and on its node.
        uid: annotation("kubernetes.io/config.mirror").or_else(|| meta.uid.clone())?,
        name: meta.name.clone()?,
        namespace: meta.namespace.clone()?,
        run_id: meta.labels.as_ref().and_then(|labels| labels.get(RUN_LABEL)).cloned(),
        containers,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pods_names_are_taken_from_its_status() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"metier.run": "r"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            "status": {
                "containerStatuses": [
                    {"name": "main", "image": "sha256:0123", "imageID": "", "ready": true, "restartCount": 0, "containerID": "containerd://abc"},
                    {"name": "waiting", "image": "app:1", "imageID": "", "ready": false, "restartCount": 0},
                ],
                "initContainerStatuses": [
                    {"name": "init", "image": "i:1", "imageID": "", "ready": true, "restartCount": 0, "containerID": "docker://def"},
                ],
            },
        }))
        .unwrap();
        let found = name_pod(&pod).unwrap();
        assert_eq!((found.uid.as_str(), found.name.as_str(), found.namespace.as_str()), ("u", "p", "n"));
        assert_eq!(found.run_id.as_deref(), Some("r"));
        let ids: Vec<(&str, &str)> =
            found.containers.iter().map(|c| (c.id.as_str(), c.name.as_str())).collect();
        assert_eq!(ids, [("abc", "main"), ("def", "init")]);
        let images: Vec<&str> = found.containers.iter().map(|c| c.image.as_str()).collect();
        assert_eq!(images, ["app:1", "i:1"], "by its name, and not by what it hashes to");
        let mirrored: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": {"kubernetes.io/config.mirror": "0123"}},
        }))
        .unwrap();
        assert_eq!(name_pod(&mirrored).unwrap().uid, "0123");
    }
}
