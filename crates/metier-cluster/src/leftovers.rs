//! What an earlier measuring program left in the cluster when it was killed, and what a run leaves at its end.
//!
//! A Job of ours says which process measures it (its host, boot, process id and start time). One of this host
//! whose process is gone is removed at the next start; those of other hosts are theirs to judge.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use metier_linux::Roots;
use metier_linux::cgroup::Place;
use metier_store::Owner;
use metier_types::RunId;

use crate::cluster::Cluster;
use crate::follow::AGAIN;
use crate::{Error, carried, job, state};

/// How long the pods of a removed Job may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How long the group of a pod that is gone may take to be empty.
const EMPTY_WITHIN: Duration = Duration::from_secs(3);
/// How long they may take before their node is asked after.
const ASK_NODE_AFTER: Duration = Duration::from_secs(5);

/// Removes Jobs of this host whose measuring program is gone; gives their names.
pub async fn sweep(cluster: &Cluster, roots: &Roots, host: &str) -> Result<Vec<String>, Error> {
    let labels = format!("{}={}", job::MANAGED_BY.0, job::MANAGED_BY.1);
    let list = cluster
        .jobs()
        .list(&ListParams::default().labels(&labels))
        .await
        .map_err(Error::api("looking for Jobs that a killed predecessor left"))?;
    let mut swept = Vec::new();
    for one in list.items {
        let Some(owner) = owner_of(&one) else { continue };
        let Some(name) = one.metadata.name.clone() else { continue };
        if owner.host == host && !metier_device::process_owner::is_there(roots, &owner) {
            delete(cluster, &name).await?;
            swept.push(name);
        }
    }
    Ok(swept)
}

fn owner_of(job: &Job) -> Option<Owner> {
    serde_json::from_str(job.metadata.annotations.as_ref()?.get(job::OWNER)?).ok()
}

/// Removes the Job of a run with its pods, and waits until they are gone. The error says what may be left.
pub async fn remove(cluster: &Cluster, run: RunId) -> Result<(), Error> {
    let name = job::name(run);
    delete(cluster, &name).await?;
    let pods = cluster.pods();
    let parameters = ListParams::default().labels(&job::selector(run));
    let gone = async {
        let since = tokio::time::Instant::now();
        loop {
            match pods.list(&parameters).await {
                Ok(list) if list.items.is_empty() => return,
                // A node that has gone away never says that its pods are gone.
                Ok(list) if since.elapsed() > ASK_NODE_AFTER => {
                    for pod in &list.items {
                        force(cluster, pod).await;
                    }
                }
                _ => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(GONE_WITHIN, gone).await.map_err(|_| Error::Api {
        doing: format!("removing Job {name}"),
        reason: format!("its pods were still there after {} s", GONE_WITHIN.as_secs()),
    })
}

/// Removes a pod whose node is not there to do it.
async fn force(cluster: &Cluster, pod: &Pod) {
    let (Some(name), Some(node)) = (pod.metadata.name.as_deref(), state::node(pod)) else { return };
    let Ok(found) = cluster.node(node).await else { return };
    if found.is_none_or(|node| crate::node::not_ready(&node).is_some()) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        // It is tried again in a moment.
        let _ = cluster.pods().delete(name, &now).await;
    }
}

/// Asks the pods of a run to end, with so many seconds of grace, or those of the pod.
pub async fn end_pods(cluster: &Cluster, run: RunId, grace: Option<u32>) -> Result<(), Error> {
    let parameters = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
    let list = ListParams::default().labels(&job::selector(run));
    let pods = cluster.pods();
    for pod in pods.list(&list).await.map_err(Error::api("looking for the pod to end"))? {
        if let Some(name) = pod.metadata.name {
            pods.delete(&name, &parameters).await.map_err(Error::api(format!("ending pod {name}")))?;
        }
    }
    Ok(())
}

pub(crate) async fn delete(cluster: &Cluster, name: &str) -> Result<(), Error> {
    let parameters =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    for attempt in 0.. {
        match cluster.jobs().delete(name, &parameters).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 404 => break,
            Err(error) if attempt >= 5 => return Err(Error::api(format!("removing Job {name}"))(error)),
            Err(_) => tokio::time::sleep(AGAIN * 4).await,
        }
    }
    carried::remove(cluster, name).await;
    Ok(())
}

/// Removes the folder of a pod that is over from version 2 of control groups, on a host that has both versions: a kubelet that works
/// with version 1 forgets it there. What is not empty in time stays: the kernel removes no group with a process in it.
pub fn clear_group(roots: &Roots, uid: &str) {
    let top = Place::top(&roots.proc, &roots.sys);
    let Some(point) = top.v2_mount.filter(|_| !top.v1.is_empty()) else { return };
    let until = Instant::now() + EMPTY_WITHIN;
    for pod in pod_groups(&point, uid) {
        // The pod is gone for the cluster a little before its sandbox is.
        while let Err(error) = remove_group(&pod) {
            if error.kind() == ErrorKind::NotFound || Instant::now() >= until {
                break;
            }
            std::thread::sleep(AGAIN);
        }
    }
}

/// The folders of a pod in a hierarchy: in kubepods, or in the class of the pod there.
fn pod_groups(point: &Path, uid: &str) -> Vec<PathBuf> {
    let names = [format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))];
    let is_named =
        |path: &Path, part: &str| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
    let mut found = Vec::new();
    let mut level = folders(point);
    level.retain(|path| is_named(path, "kubepods"));
    for _ in 0..2 {
        level = level.iter().flat_map(|path| folders(path)).collect();
        found.extend(level.iter().filter(|path| names.iter().any(|name| is_named(path, name))).cloned());
    }
    found
}

fn remove_group(pod: &Path) -> std::io::Result<()> {
    folders(pod).iter().for_each(|container| drop(std::fs::remove_dir(container)));
    std::fs::remove_dir(pod)
}

fn folders(path: &Path) -> Vec<PathBuf> {
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
