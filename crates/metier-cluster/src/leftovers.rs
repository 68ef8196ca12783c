//! Removes objects that a killed metier left in the cluster, and the objects of a run at its end.
//!
//! An annotation of each Job names its measuring process (host, boot, process id and start time). A
//! Job of this host whose process is gone is removed at the next start. A Job of another host is
//! removed when its lease is over: its process has not renewed it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use metier_linux::KernelRoots;
use metier_linux::cgroup::CgroupMembership;
use metier_store::OwnerProcess;
use metier_types::{RunId, UtcTimestamp};

use crate::cluster_client::ClusterClient;
use crate::pod_watch::RETRY_DELAY;
use crate::{Error, job, job_lease, launcher_mount, pod_state};

/// Time limit for the removal of a Job's pods.
const POD_REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the cgroup of a removed pod to become empty.
const GROUP_EMPTY_TIMEOUT: Duration = Duration::from_secs(3);
/// Delay before the node of a pod that does not end is checked.
const NODE_CHECK_DELAY: Duration = Duration::from_secs(5);

/// Removes Jobs whose measuring process is gone: of this host, or with a lease that is over.
/// Returns their names.
pub async fn sweep_jobs(
    cluster: &ClusterClient,
    roots: &KernelRoots,
    host: &str,
) -> Result<Vec<String>, Error> {
    let labels = format!("{}={}", job::MANAGED_BY_LABEL.0, job::MANAGED_BY_LABEL.1);
    let list = cluster
        .jobs()
        .list(&ListParams::default().labels(&labels))
        .await
        .map_err(Error::api("looking for Jobs that a killed predecessor left"))?;
    let mut swept = Vec::new();
    for job in list.items {
        let Some(owner) = job_owner(&job) else { continue };
        let Some(name) = job.metadata.name.clone() else { continue };
        let is_left = match owner.host == host {
            true => !metier_device::process_owner::is_owner_alive(roots, &owner),
            false => job_lease::is_lease_over(&job, UtcTimestamp::now()),
        };
        if is_left {
            delete_job(cluster, &name).await?;
            swept.push(name);
        }
    }
    Ok(swept)
}

fn job_owner(job: &Job) -> Option<OwnerProcess> {
    serde_json::from_str(job.metadata.annotations.as_ref()?.get(job::OWNER_ANNOTATION)?).ok()
}

/// Removes the Job of a run with its pods and waits until they are gone. The error names what may
/// remain.
pub async fn remove_job(cluster: &ClusterClient, run: RunId) -> Result<(), Error> {
    let name = job::job_name(run);
    delete_job(cluster, &name).await?;
    let pods = cluster.pods();
    let parameters = ListParams::default().labels(&job::run_selector(run));
    let gone = async {
        let since = tokio::time::Instant::now();
        loop {
            match pods.list(&parameters).await {
                Ok(list) if list.items.is_empty() => return,
                // A lost node never confirms the removal of its pods.
                Ok(list) if since.elapsed() > NODE_CHECK_DELAY => {
                    for pod in &list.items {
                        force_pod_removal(cluster, pod).await;
                    }
                }
                _ => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    };
    tokio::time::timeout(POD_REMOVAL_TIMEOUT, gone).await.map_err(|_| Error::Api {
        doing: format!("removing Job {name}"),
        reason: format!("its pods were still there after {} s", POD_REMOVAL_TIMEOUT.as_secs()),
    })
}

/// Force-deletes a pod whose node is lost.
async fn force_pod_removal(cluster: &ClusterClient, pod: &Pod) {
    let (Some(name), Some(node)) = (pod.metadata.name.as_deref(), pod_state::pod_node(pod)) else { return };
    let Ok(found) = cluster.find_node(node).await else { return };
    if found.is_none_or(|node| crate::node_choice::not_ready_reason(&node).is_some()) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        // The caller retries.
        let _ = cluster.pods().delete(name, &now).await;
    }
}

/// Deletes the pods of a run, with the given grace period in seconds or the pod's own.
pub async fn end_pods(cluster: &ClusterClient, run: RunId, grace: Option<u32>) -> Result<(), Error> {
    let parameters = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
    let list = ListParams::default().labels(&job::run_selector(run));
    let pods = cluster.pods();
    for pod in pods.list(&list).await.map_err(Error::api("looking for the pod to end"))? {
        if let Some(name) = pod.metadata.name {
            pods.delete(&name, &parameters).await.map_err(Error::api(format!("ending pod {name}")))?;
        }
    }
    Ok(())
}

pub(crate) async fn delete_job(cluster: &ClusterClient, name: &str) -> Result<(), Error> {
    let parameters =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    for attempt in 0.. {
        match cluster.jobs().delete(name, &parameters).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 404 => break,
            Err(error) if attempt >= 5 => return Err(Error::api(format!("removing Job {name}"))(error)),
            Err(_) => tokio::time::sleep(RETRY_DELAY * 4).await,
        }
    }
    launcher_mount::remove_launcher_map(cluster, name).await;
    Ok(())
}

/// Removes the cgroup v2 folder of an ended pod on a host with both cgroup versions: a kubelet that
/// uses v1 leaves it behind. A cgroup that is not empty in time stays, since the kernel removes no
/// cgroup with a process in it.
pub fn remove_stale_group(roots: &KernelRoots, uid: &str) {
    let top = CgroupMembership::hierarchy_roots(&roots.proc, &roots.sys);
    let Some(point) = top.v2_mount.filter(|_| !top.v1.is_empty()) else { return };
    let until = Instant::now() + GROUP_EMPTY_TIMEOUT;
    for pod in pod_groups(&point, uid) {
        // The cluster removes the pod slightly before its sandbox ends.
        while let Err(error) = remove_group(&pod) {
            if error.kind() == ErrorKind::NotFound || Instant::now() >= until {
                break;
            }
            std::thread::sleep(RETRY_DELAY);
        }
    }
}

/// The possible folders of a pod in a hierarchy: in kubepods, or in its QoS class there.
fn pod_groups(point: &Path, uid: &str) -> Vec<PathBuf> {
    let names = [format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))];
    let is_named =
        |path: &Path, part: &str| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
    let mut found = Vec::new();
    let mut level = subfolders(point);
    level.retain(|path| is_named(path, "kubepods"));
    for _ in 0..2 {
        level = level.iter().flat_map(|path| subfolders(path)).collect();
        found.extend(level.iter().filter(|path| names.iter().any(|name| is_named(path, name))).cloned());
    }
    found
}

fn remove_group(pod: &Path) -> std::io::Result<()> {
    subfolders(pod).iter().for_each(|container| drop(std::fs::remove_dir(container)));
    std::fs::remove_dir(pod)
}

fn subfolders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_pod_is_found_by_either_naming_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let uid = "8c1f3e5a-0d9b-4a52-9f6e-2b7d1c0e4f11";
        let ours = [
            format!("kubepods/pod{uid}"),
            format!("kubepods/besteffort/pod{uid}"),
            format!(
                "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
                uid.replace('-', "_")
            ),
        ];
        let others = ["kubepods/besteffort/pod0000", "elsewhere/pod8c1f3e5a-0d9b-4a52-9f6e-2b7d1c0e4f11"];
        for path in ours.iter().map(String::as_str).chain(others) {
            std::fs::create_dir_all(folder.path().join(path).join("container")).unwrap();
        }
        let mut found = pod_groups(folder.path(), uid);
        found.sort();
        let mut want: Vec<PathBuf> = ours.iter().map(|path| folder.path().join(path)).collect();
        want.sort();
        assert_eq!(found, want);
        found.iter().for_each(|pod| remove_group(pod).unwrap());
        assert!(others.iter().all(|path| folder.path().join(path).exists()));
    }
}
