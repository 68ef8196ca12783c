//! The nodes of a cluster and their free capacity: allocatable resources minus the requests of
//! their pods.
//!
//! A node that accepts no pods has a reason: it is not ready, cordoned, or has a taint that
//! ordinary workloads do not tolerate.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec as Spec};
use kube::api::ListParams;
use metier_place::KubernetesNode;
use metier_types::Bytes;

use super::quantity;
use crate::cluster_client::ClusterClient;
use crate::{Error, node_choice, pod_state};

/// Pods per page, and most pages.
const PAGE_SIZE: u32 = 500;
const MAX_PAGES: usize = 200;

/// The nodes of a cluster, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KubernetesSurvey {
    pub nodes: Vec<KubernetesNode>,
    /// Resources that could not be read and are not in the values.
    pub notes: Vec<String>,
}

/// Reads all nodes. The requests of pods of a Deployment to be replaced count as free.
pub async fn survey_nodes(
    cluster: &ClusterClient,
    replaced: Option<&BTreeMap<String, String>>,
) -> Result<KubernetesSurvey, Error> {
    let nodes = cluster.list_nodes().await?.ok_or(Error::Forbidden {
        verb: "list",
        resource: "nodes",
        namespace: "(all)".into(),
    })?;
    let mut notes = Vec::new();
    let pods = match list_all_pods(cluster).await {
        Ok(pods) => pods,
        Err(error) => {
            notes.push(format!(
                "what pods have asked for is not known, so all of each node counts as free: {error}"
            ));
            Vec::new()
        }
    };
    let mut asked: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for pod in &pods {
        let is_over = matches!(
            pod.status.as_ref().and_then(|status| status.phase.as_deref()),
            Some("Succeeded" | "Failed")
        );
        let is_replaced = pod.metadata.namespace.as_deref() == Some(cluster.namespace.as_str())
            && replaced.is_some_and(|labels| has_labels(pod, labels));
        let (Some(spec), Some(node)) = (&pod.spec, pod_state::pod_node(pod)) else { continue };
        if !is_over && !is_replaced {
            let sum = asked.entry(node).or_default();
            sum.0 += requested_quantity(spec, "cpu");
            sum.1 += requested_quantity(spec, "memory");
        }
    }
    let mut nodes: Vec<KubernetesNode> = nodes
        .iter()
        .map(|node| {
            let name = node.metadata.name.clone().unwrap_or_default();
            let (cores, memory) = asked.get(name.as_str()).copied().unwrap_or_default();
            node_facts(node, name, cores, memory)
        })
        .collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(KubernetesSurvey { nodes, notes })
}

fn node_facts(node: &Node, name: String, asked_cores: f64, asked_memory: f64) -> KubernetesNode {
    let status = node.status.as_ref();
    let info = status.and_then(|status| status.node_info.as_ref());
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let of = |what: &str| allocatable.and_then(|all| quantity::parse_quantity(&all.get(what)?.0));
    let (cores, memory) = (of("cpu"), of("memory"));
    KubernetesNode {
        architecture: info.map(|info| info.architecture.clone()).unwrap_or_default(),
        system: info.map(|info| info.operating_system.clone()).unwrap_or_default(),
        boot: info.map(|info| info.boot_id.clone()).unwrap_or_default(),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        cores,
        memory: memory.map(|bytes| Bytes(bytes as u64)),
        free_cores: cores.map(|all| (all - asked_cores).max(0.0)),
        free_memory: memory.map(|all| Bytes((all - asked_memory).max(0.0) as u64)),
        obstacle: node_choice::node_obstacle(node).or_else(|| taint_obstacle(node)),
        name,
    }
}

/// A taint that rejects pods without a toleration.
fn taint_obstacle(node: &Node) -> Option<String> {
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    let taint = taints.iter().find(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))?;
    let value = taint.value.as_deref().map(|value| format!("={value}")).unwrap_or_default();
    Some(format!("it has the taint {}{value}:{}", taint.key, taint.effect))
}

/// The requests of a pod as the scheduler counts them: the larger of the sum of all containers and
/// the largest init container, plus the overhead.
fn requested_quantity(spec: &Spec, what: &str) -> f64 {
    let request = |container: &Container| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        requests.and_then(|requests| quantity::parse_quantity(&requests.get(what)?.0)).unwrap_or(0.0)
    };
    let together: f64 = spec.containers.iter().map(request).sum();
    let before = spec.init_containers.iter().flatten().map(request).fold(0.0, f64::max);
    let overhead =
        spec.overhead.as_ref().and_then(|all| quantity::parse_quantity(&all.get(what)?.0)).unwrap_or(0.0);
    together.max(before) + overhead
}

fn has_labels(pod: &Pod, labels: &BTreeMap<String, String>) -> bool {
    let own = pod.metadata.labels.as_ref();
    !labels.is_empty() && labels.iter().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
}

async fn list_all_pods(cluster: &ClusterClient) -> Result<Vec<Pod>, Error> {
    let mut parameters = ListParams::default().limit(PAGE_SIZE);
    let mut pods = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = cluster.pods_everywhere().list(&parameters).await;
        let page = page.map_err(Error::api("listing the pods of all namespaces"))?;
        pods.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(spec: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "h"}},
            "spec": spec,
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "4", "memory": "8Gi"},
            }
        }))
        .unwrap()
    }

    #[test]
    fn what_is_free_is_what_nobody_asked_for() {
        let found = node_facts(&node(json!({})), "n".into(), 1.5, 1e9);
        assert_eq!((found.cores, found.free_cores), (Some(4.0), Some(2.5)));
        assert_eq!(found.free_memory, Some(Bytes(8 * (1 << 30) - 1_000_000_000)));
        assert_eq!((found.obstacle.as_deref(), found.labels["kubernetes.io/hostname"].as_str()), (None, "h"));
        assert_eq!(
            node_facts(&node(json!({})), "n".into(), 9.0, 0.0).free_cores,
            Some(0.0),
            "never less than nothing"
        );
    }

    #[test]
    fn a_node_that_takes_nothing_says_why() {
        let why = |spec| node_facts(&node(spec), "n".into(), 0.0, 0.0).obstacle;
        let taint = json!({"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]});
        assert_eq!(why(taint).as_deref(), Some("it has the taint gpu=only:NoSchedule"));
        assert!(why(json!({"unschedulable": true})).unwrap().contains("cordoned"));
        assert_eq!(why(json!({"taints": [{"key": "x", "effect": "PreferNoSchedule"}]})), None);
    }

    #[test]
    fn a_pod_asks_for_the_larger_of_its_containers_and_of_those_before_them() {
        let container =
            |cpu: &str| json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
        let spec: Spec = serde_json::from_value(json!({
            "containers": [container("200m"), container("1")],
            "initContainers": [container("3"), container("1")],
        }))
        .unwrap();
        assert_eq!(requested_quantity(&spec, "cpu"), 3.0);
        assert_eq!(requested_quantity(&spec, "memory"), 0.0);
    }
}
