//! Names of pods from the cluster's API, for the agent.

use metier_cluster::pod_names::PodNameLookup;
use metier_server::agent::{ContainerName, NameRequest, NameSource, PodName, ResolvedNames};

/// The API of this node's cluster.
pub struct ClusterNameSource {
    pods: PodNameLookup,
}

impl ClusterNameSource {
    /// The cluster of `KUBECONFIG` or of the agent's own pod. Other clusters are not tried without
    /// a request.
    pub fn from_environment(node: Option<String>) -> Option<Self> {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        (is_set("KUBECONFIG") || is_set("KUBERNETES_SERVICE_HOST"))
            .then(|| Self { pods: PodNameLookup::for_node(node) })
    }
}

impl NameSource for ClusterNameSource {
    fn source_name(&self) -> &'static str {
        "cluster"
    }

    fn look_up(&mut self, request: &NameRequest) -> Result<ResolvedNames, String> {
        let mut found = ResolvedNames::default();
        // The cluster has no names for containers outside of pods.
        if request.pods.is_empty() {
            return Ok(found);
        }
        for pod in self.pods.list_pods().map_err(|error| error.to_string())? {
            let (name, namespace) = (Some(pod.name), Some(pod.namespace));
            for container in pod.containers {
                let names = ContainerName {
                    container: Some(container.name),
                    image: Some(container.image),
                    pod: name.clone(),
                    namespace: namespace.clone(),
                    run_id: pod.run_id.clone(),
                };
                found.containers.push((container.id, names));
            }
            found.pods.push((pod.uid, PodName { pod: name, namespace, run_id: pod.run_id }));
        }
        Ok(found)
    }
}
