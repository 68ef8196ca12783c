//! A graph's service as a Deployment on one node: created or replaced, watched until it is
//! available, and rolled back.
//!
//! Each write follows a successful dry run at the API server. An annotation of the new object
//! stores the previous object, so that a rollback needs only the cluster. Annotations also record
//! the prediction and the predictor.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy};
use metier_types::Bytes;
use serde_json::{Map, Value, json};

use crate::cluster_client::ClusterClient;
use crate::job::MANAGED_BY_LABEL;
use crate::pod_watch::RETRY_DELAY;
use crate::{Error, pod_state};

/// Annotation with the prediction.
pub const PREDICTION_ANNOTATION: &str = "metier.prediction";
/// Annotation with the predictor.
pub const PREDICTOR_ANNOTATION: &str = "metier.predictor";
pub const GRAPH_ANNOTATION: &str = "metier.graph";
/// Annotation with the previous state: `none`, or the object as JSON.
pub const PREVIOUS_ANNOTATION: &str = "metier.before";
/// Value for no previous object.
const NO_PREVIOUS: &str = "none";
/// Label of its pods.
const NAME_LABEL: &str = "app.kubernetes.io/name";
/// Name of the serving container.
const SERVING_CONTAINER: &str = "serve";
/// Limit for the stored object; Kubernetes allows 256 KiB for all annotations of an object.
const MAX_PREVIOUS_BYTES: usize = 200 * 1024;
/// Time limit for the removal of pods: their grace period of 30 s, plus time for a busy kubelet.
const POD_REMOVAL_TIMEOUT: Duration = Duration::from_secs(150);

/// The service of a graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GraphService {
    pub name: String,
    /// The image that serves the graph.
    pub image: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Ports that it listens on; it is ready when the first one is open.
    pub ports: Vec<u16>,
    /// Number of replicas.
    pub replicas: u32,
    /// Requested cores of each replica.
    pub cores: f64,
    /// Requested memory of each replica.
    pub memory: Bytes,
    pub node: String,
    /// Value of the node's hostname label, if set.
    pub hostname: Option<String>,
    /// Annotations: prediction, predictor, graph.
    pub annotations: BTreeMap<String, String>,
    /// Whether a Deployment of this name that metier did not make is replaced.
    pub replaces_foreign: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentAction {
    /// The object was created.
    Created,
    /// An existing object was replaced.
    Replaced,
    /// The previous object was restored.
    Restored,
    /// The object was removed, since there was no previous one.
    Removed,
}

impl DeploymentAction {
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Replaced => "replaced",
            Self::Restored => "restored",
            Self::Removed => "removed",
        }
    }
}

/// The Deployment of a service.
pub fn deployment_object(service: &GraphService) -> Value {
    let labels = json!({NAME_LABEL: service.name, MANAGED_BY_LABEL.0: MANAGED_BY_LABEL.1});
    let ports: Vec<Value> = service.ports.iter().map(|port| json!({"containerPort": port})).collect();
    let environment: Vec<Value> = service
        .environment
        .iter()
        .map(|(name, value)| json!({"name": name, "value": escape_variables(value)}))
        .collect();
    let mut container = json!({
        "name": SERVING_CONTAINER,
        "image": service.image,
        "resources": {"requests": {
            "cpu": format!("{}m", (service.cores * 1000.0).ceil().max(1.0) as u64),
            "memory": service.memory.get().to_string(),
        }},
    });
    let mut set = |name: &str, value: Value| {
        if let Value::Object(fields) = &mut container {
            fields.insert(name.into(), value);
        }
    };
    if !service.arguments.is_empty() {
        set("args", service.arguments.iter().map(|word| escape_variables(word)).collect());
    }
    if !environment.is_empty() {
        set("env", environment.into());
    }
    if let Some(first) = service.ports.first() {
        set("ports", ports.into());
        set("readinessProbe", json!({"tcpSocket": {"port": first}, "periodSeconds": 2}));
    }
    let term = match &service.hostname {
        Some(hostname) => {
            json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}]})
        }
        None => {
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [service.node]}]})
        }
    };
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": service.name, "labels": labels, "annotations": service.annotations},
        "spec": {
            "replicas": service.replicas,
            "selector": {"matchLabels": {NAME_LABEL: service.name}},
            // The node has capacity for the requested replicas but not for a surge replica.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"affinity": affinity, "containers": [container]},
            },
        },
    })
}

/// The pod labels of the Deployment of that name, if it exists.
pub async fn pod_selector(
    cluster: &ClusterClient,
    name: &str,
) -> Result<Option<BTreeMap<String, String>>, Error> {
    Ok(get_deployment(cluster, name).await?.and_then(|found| found.spec?.selector.match_labels))
}

/// Whether metier made an object, by its label.
fn is_own(found: &Deployment) -> bool {
    let labels = found.metadata.labels.as_ref();
    labels.and_then(|all| all.get(MANAGED_BY_LABEL.0)).is_some_and(|value| value == MANAGED_BY_LABEL.1)
}

/// Applies the Deployment after a dry run. A Deployment that metier did not make is replaced only
/// on request.
pub async fn apply(cluster: &ClusterClient, service: &GraphService) -> Result<DeploymentAction, Error> {
    let before = get_deployment(cluster, &service.name).await?;
    if before.as_ref().is_some_and(|found| !is_own(found)) && !service.replaces_foreign {
        let (name, namespace) = (service.name.clone(), cluster.namespace.clone());
        return Err(Error::ForeignDeployment { name, namespace });
    }
    let mut current = deployment_object(service);
    let previous =
        before.as_ref().map(previous_object_text).transpose()?.unwrap_or_else(|| NO_PREVIOUS.into());
    current["metadata"]["annotations"][PREVIOUS_ANNOTATION] = previous.into();
    if let Some(before) = &before {
        // A Deployment's selector is immutable, so the new pods need the old labels.
        let selector =
            serde_json::to_value(before.spec.as_ref().map(|spec| &spec.selector)).unwrap_or_default();
        if let Some(Value::Object(labels)) = selector.get("matchLabels") {
            for (key, value) in labels {
                current["spec"]["template"]["metadata"]["labels"][key] = value.clone();
            }
        }
        current["spec"]["selector"] = selector;
        current["metadata"]["resourceVersion"] = json!(before.metadata.resource_version);
    }
    write_deployment(cluster, &service.name, current, before.is_some()).await?;
    Ok(if before.is_some() { DeploymentAction::Replaced } else { DeploymentAction::Created })
}

/// Restores the previous object.
pub async fn rollback(cluster: &ClusterClient, name: &str) -> Result<DeploymentAction, Error> {
    let doing = || format!("going back from Deployment {name}");
    let refuse = |reason: &str| Error::Api { doing: doing(), reason: reason.into() };
    let found = get_deployment(cluster, name).await?.ok_or_else(|| refuse("there is none of that name"))?;
    let before = found.metadata.annotations.as_ref().and_then(|all| all.get(PREVIOUS_ANNOTATION)).cloned();
    let before = before.ok_or_else(|| {
        refuse("it does not say what was there before: metier did not put it there, or has gone back already")
    })?;
    if before == NO_PREVIOUS {
        remove_deployment(cluster, &found, name).await?;
        return Ok(DeploymentAction::Removed);
    }
    let mut value: Value = serde_json::from_str(&before)
        .map_err(|_| refuse("its annotation of the previous object is not valid JSON"))?;
    value["metadata"]["resourceVersion"] = json!(found.metadata.resource_version);
    write_deployment(cluster, name, value, true).await?;
    Ok(DeploymentAction::Restored)
}

/// Waits until all replicas are available. The error is the reason why they are not.
pub async fn wait_until_available(
    cluster: &ClusterClient,
    name: &str,
    within: Duration,
) -> Result<(), String> {
    let end = tokio::time::Instant::now() + within;
    loop {
        let last = match get_deployment(cluster, name).await {
            Ok(None) => return Err("it was removed from the cluster".into()),
            Err(error) => error.to_string(),
            Ok(Some(found)) => match (missing_replicas(&found), pod_trouble(cluster, &found).await) {
                (None, _) => return Ok(()),
                (Some(_), Some((why, true))) => return Err(why),
                (Some(_), Some((why, false))) => why,
                (Some(why), None) => why,
            },
        };
        if tokio::time::Instant::now() >= end {
            return Err(format!("not within {} s; at last: {last}", within.as_secs()));
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Describes missing replicas, if any.
fn missing_replicas(found: &Deployment) -> Option<String> {
    let requested = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = found.status.clone().unwrap_or_default();
    if status.observed_generation < found.metadata.generation {
        return Some("the cluster has not looked at it yet".into());
    }
    let (new, ready, all) = (
        status.updated_replicas.unwrap_or(0),
        status.available_replicas.unwrap_or(0),
        status.replicas.unwrap_or(0),
    );
    (new < requested || ready < requested || all > requested)
        .then(|| format!("{ready} of {requested} are available"))
}

/// Why a pod does not run, and whether waiting is pointless.
async fn pod_trouble(cluster: &ClusterClient, found: &Deployment) -> Option<(String, bool)> {
    let labels = found.spec.as_ref()?.selector.match_labels.as_ref()?;
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let pods = cluster.pods().list(&ListParams::default().labels(&labels.join(","))).await.ok()?;
    let image = found.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone();
    // Pods of the previous Deployment still exist for a while.
    let is_new = |pod: &&Pod| {
        let own = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone());
        pod.metadata.deletion_timestamp.is_none() && own == image
    };
    let mut found: Vec<(String, bool)> =
        pods.items.iter().filter(is_new).filter_map(pod_state::pod_trouble).collect();
    found.sort_by_key(|(_, is_final)| !is_final);
    found.into_iter().next()
}

async fn get_deployment(cluster: &ClusterClient, name: &str) -> Result<Option<Deployment>, Error> {
    cluster.deployments().get_opt(name).await.map_err(Error::api(format!("looking at Deployment {name}")))
}

async fn write_deployment(
    cluster: &ClusterClient,
    name: &str,
    value: Value,
    is_there: bool,
) -> Result<(), Error> {
    let doing = if is_there { "replacing" } else { "making" };
    let failed = |reason: String| Error::Api { doing: format!("{doing} Deployment {name}"), reason };
    let deployment: Deployment = serde_json::from_value(value).map_err(|error| failed(error.to_string()))?;
    for dry_run in [true, false] {
        let parameters = PostParams { dry_run, field_manager: Some("metier".into()) };
        let written = match is_there {
            true => cluster.deployments().replace(name, &parameters, &deployment).await,
            false => cluster.deployments().create(&parameters, &deployment).await,
        };
        let refused = if dry_run { "the cluster would not take it, so nothing was written: " } else { "" };
        written.map_err(|error| failed(format!("{refused}{}", crate::error::api_message(&error))))?;
    }
    Ok(())
}

/// Removes the Deployment and waits until its pods are gone.
async fn remove_deployment(cluster: &ClusterClient, found: &Deployment, name: &str) -> Result<(), Error> {
    let parameters =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    match cluster.deployments().delete(name, &parameters).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(Error::api(format!("removing Deployment {name}"))(error)),
    }
    let labels = found.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let parameters = ListParams::default().labels(&labels.join(","));
    let gone = async {
        loop {
            match cluster.pods().list(&parameters).await {
                Ok(list) if list.items.is_empty() => return,
                _ => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    };
    tokio::time::timeout(POD_REMOVAL_TIMEOUT, gone).await.map_err(|_| Error::Api {
        doing: format!("removing Deployment {name}"),
        reason: format!("its pods were still there after {} s", POD_REMOVAL_TIMEOUT.as_secs()),
    })
}

/// The object as JSON for a later rollback.
fn previous_object_text(found: &Deployment) -> Result<String, Error> {
    let mut annotations = found.metadata.annotations.clone().unwrap_or_default();
    // Only one step of history is stored, but `none` for an initially absent object is preserved.
    // The revision annotation belongs to the cluster.
    annotations.retain(|name, value| match name.as_str() {
        PREVIOUS_ANNOTATION => value == NO_PREVIOUS,
        name => name != "deployment.kubernetes.io/revision",
    });
    let mut map = Map::new();
    let meta =
        json!({"name": found.metadata.name, "labels": found.metadata.labels, "annotations": annotations});
    map.insert("apiVersion".into(), "apps/v1".into());
    map.insert("kind".into(), "Deployment".into());
    map.insert("metadata".into(), meta);
    map.insert("spec".into(), serde_json::to_value(&found.spec).unwrap_or_default());
    let text = Value::Object(map).to_string();
    if text.len() > MAX_PREVIOUS_BYTES {
        return Err(Error::Api {
            doing: "keeping what was there before".into(),
            reason: format!(
                "it has {} bytes, and an annotation takes {MAX_PREVIOUS_BYTES}; nothing was written",
                text.len()
            ),
        });
    }
    Ok(text)
}

/// Escapes `$(NAME)`, which Kubernetes would expand.
fn escape_variables(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> GraphService {
        GraphService {
            name: "net".into(),
            image: "serve:1".into(),
            arguments: vec!["a $(B)".into()],
            ports: vec![8080],
            replicas: 2,
            cores: 1.5,
            memory: Bytes(1 << 28),
            node: "n1".into(),
            hostname: Some("h1".into()),
            annotations: [(PREDICTOR_ANNOTATION.to_string(), "sha256:1".to_string())].into(),
            ..GraphService::default()
        }
    }

    #[test]
    fn a_service_goes_to_its_node_with_what_was_predicted() {
        let made = deployment_object(&service());
        let pod = &made["spec"]["template"]["spec"];
        let requests = &pod["containers"][0]["resources"]["requests"];
        assert_eq!(requests, &json!({"cpu": "1500m", "memory": "268435456"}));
        assert!(
            pod["affinity"]
                .to_string()
                .contains(r#""key":"kubernetes.io/hostname","operator":"In","values":["h1"]"#)
        );
        assert_eq!(pod["containers"][0]["args"], json!(["a $$(B)"]), "nothing is expanded");
        assert_eq!(pod["containers"][0]["readinessProbe"]["tcpSocket"]["port"], 8080);
        assert_eq!(made["metadata"]["annotations"][PREDICTOR_ANNOTATION], "sha256:1");
        let parsed: Deployment = serde_json::from_value(made).unwrap();
        assert_eq!(parsed.spec.unwrap().replicas, Some(2));
        let unnamed = deployment_object(&GraphService { hostname: None, ..service() });
        assert!(
            unnamed["spec"].to_string().contains(r#""key":"metadata.name","operator":"In","values":["n1"]"#)
        );
    }

    #[test]
    fn what_is_kept_is_one_step_back() {
        let mut found: Deployment = serde_json::from_value(deployment_object(&service())).unwrap();
        found.metadata.annotations.as_mut().unwrap().insert(PREVIOUS_ANNOTATION.into(), "x".repeat(1000));
        found.metadata.resource_version = Some("7".into());
        let value: Value = serde_json::from_str(&previous_object_text(&found).unwrap()).unwrap();
        assert_eq!(value["metadata"]["annotations"], json!({PREDICTOR_ANNOTATION: "sha256:1"}));
        assert_eq!(value["metadata"].get("resourceVersion"), None);
        found.metadata.annotations.as_mut().unwrap().insert(PREVIOUS_ANNOTATION.into(), NO_PREVIOUS.into());
        assert!(
            previous_object_text(&found).unwrap().contains(r#""metier.before":"none""#),
            "that there was nothing is not forgotten"
        );
        found.metadata.annotations.as_mut().unwrap().insert("large".into(), "x".repeat(MAX_PREVIOUS_BYTES));
        assert!(previous_object_text(&found).unwrap_err().to_string().contains("nothing was written"));
    }

    #[test]
    fn it_is_available_when_all_of_the_new_ones_are_and_no_other_is_left() {
        let with = |status: Value| -> Option<String> {
            let mut made = deployment_object(&service());
            made["metadata"]["generation"] = 2.into();
            made["status"] = status;
            missing_replicas(&serde_json::from_value(made).unwrap())
        };
        let status = |seen: i64, new: i64, ready: i64, all: i64| json!({"observedGeneration": seen, "updatedReplicas": new, "availableReplicas": ready, "replicas": all});
        assert_eq!(with(status(2, 2, 2, 2)), None);
        assert!(with(status(1, 2, 2, 2)).unwrap().contains("not looked"));
        assert!(with(status(2, 2, 1, 2)).unwrap().contains("1 of 2"));
        assert!(with(status(2, 2, 2, 3)).is_some(), "an old one is still there");
    }
}
