//! Carries the launcher to a pod on another machine, as a ConfigMap that the pod mounts.
//!
//! The ConfigMap has the name and labels of the Job and is owned by it, so that the cluster removes
//! both together. metier removes it too, since garbage collection is slow. It holds one file, which
//! must fit into a ConfigMap.

use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, PostParams};
use metier_measure::runner::joined_container;
use metier_types::MissingReason;

use crate::cluster_client::ClusterClient;
use crate::error::api_message;
use crate::node_choice::PodLocation;
use crate::pod_watch::RETRY_DELAY;

/// Size limit of a ConfigMap.
const MAX_CONFIG_MAP_BYTES: usize = 1 << 20;

/// Why the launcher cannot be carried to the pod's location, or `None`.
pub(crate) async fn launcher_obstacle(
    cluster: &ClusterClient,
    place: PodLocation,
    is_known: bool,
) -> Option<MissingReason> {
    if !is_known {
        return Some(MissingReason::with_fix(
            "it ran on another machine, and the image's own entrypoint is not known, so the launcher could not be put before it",
            "give the entrypoint in the run file",
        ));
    }
    if place != PodLocation::SameArchitecture {
        return Some(MissingReason::with_fix(
            "it is not known that its node can run this program's launcher: the node is of another architecture, or cannot be seen",
            "run metier on that node, or let its account see nodes",
        ));
    }
    if joined_container::launcher_program().len() > MAX_CONFIG_MAP_BYTES {
        return Some(MissingReason::without_fix("the launcher is larger than what a cluster passes on"));
    }
    for verb in ["create", "delete"] {
        if !cluster.is_allowed(verb, "", "configmaps", "").await.unwrap_or(false) {
            return Some(MissingReason::with_fix(
                format!(
                    "this account may not {verb} configmaps, by which the launcher comes to another machine"
                ),
                "deploy/kubernetes/rbac.yaml has the rights that are needed",
            ));
        }
    }
    None
}

/// Why programs cannot be started in the pod for transfers, or `None`.
pub(crate) async fn exec_obstacle(cluster: &ClusterClient) -> Option<MissingReason> {
    // The exec request is a GET; newer servers require the right `create` too.
    for verb in ["get", "create"] {
        if !cluster.is_allowed(verb, "", "pods", "exec").await.unwrap_or(false) {
            return Some(MissingReason::with_fix(
                format!(
                    "this account may not {verb} pods/exec, by which files reach a pod on another machine and come back"
                ),
                "deploy/kubernetes/rbac.yaml has the rights that are needed",
            ));
        }
    }
    None
}

/// Why pages of the pod cannot be read, or `None`.
pub(crate) async fn proxy_obstacle(cluster: &ClusterClient) -> Option<MissingReason> {
    if cluster.is_allowed("get", "", "pods", "proxy").await.unwrap_or(false) {
        return None;
    }
    Some(MissingReason::with_fix(
        "this account may not get pods/proxy, by which a page of a pod on another machine is read",
        "deploy/kubernetes/rbac.yaml has the rights that are needed",
    ))
}

/// Creates the ConfigMap; the pod waits for it. The error is the reason of a failure.
pub(crate) async fn create_launcher_map(cluster: &ClusterClient, job: &Job) -> Result<(), String> {
    let name = job.metadata.name.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        name: name.clone(),
        uid: job.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let program = (
        joined_container::LAUNCHER_NAME.to_string(),
        ByteString(joined_container::launcher_program().to_vec()),
    );
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name),
            labels: job.metadata.labels.clone(),
            annotations: job.metadata.annotations.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        binary_data: Some([program].into()),
        immutable: Some(true),
        ..ConfigMap::default()
    };
    let made = cluster.config_maps().create(&PostParams::default(), &object).await;
    made.map(drop).map_err(|error| {
        format!("the cluster does not take the ConfigMap with the launcher: {}", api_message(&error))
    })
}

/// Removes the ConfigMap, if any. On failure the cluster removes it with its Job.
pub(crate) async fn remove_launcher_map(cluster: &ClusterClient, name: &str) {
    for _ in 0..5 {
        match cluster.config_maps().delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code >= 500 => {}
            Ok(_) | Err(kube::Error::Api(_)) => return,
            Err(_) => {}
        }
        tokio::time::sleep(RETRY_DELAY * 4).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_fits_into_what_a_cluster_passes_on() {
        let size = joined_container::launcher_program().len();
        assert!(size > 10_000 && size <= MAX_CONFIG_MAP_BYTES, "{size}");
    }
}
