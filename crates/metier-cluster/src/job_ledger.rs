//! The Jobs of this host that have not been removed yet: one small file each, in the runtime
//! folder.
//!
//! A file is written before its Job is made and removed after it. A later start of any command
//! finds the files of killed programs without reaching a cluster, and then reaches only the
//! clusters that they name. A file that is older than the lease is forgotten: the cluster has ended
//! its Job.

use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_device::process_owner;
use metier_linux::KernelRoots;
use metier_measure::spec::PodSpec;
use metier_store::OwnerProcess;
use metier_store::atomic_file::{AtomicFile, PRIVATE_FILE_MODE};
use metier_types::{RunId, UtcTimestamp};
use serde::{Deserialize, Serialize};

use crate::cluster_client::ClusterClient;
use crate::job_lease::LEASE_TIME;
use crate::{Error, job, leftovers};

const FILE_PREFIX: &str = "job-";
/// Files that one sweep reads.
const MAX_FILES: usize = 1000;
/// Time limit for the clusters of a sweep together.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(10);

/// A Job that has not been removed, and how to reach its cluster.
#[derive(Debug, Serialize, Deserialize)]
struct RecordedJob {
    run: RunId,
    namespace: String,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    owner: OwnerProcess,
    made: UtcTimestamp,
}

/// Notes a Job that is about to be made. Without the note, only its lease ends it.
pub(crate) fn note_job(
    folder: &Path,
    pod: &PodSpec,
    namespace: &str,
    run: RunId,
    owner: &OwnerProcess,
) -> Result<(), Error> {
    let path = file_of(folder, run);
    let failed = |reason| Error::File { path: path.clone(), reason };
    // As the connection finds it: a later command may have another environment.
    let given = std::env::var_os("KUBECONFIG").map(PathBuf::from).filter(|path| path.is_file());
    let noted = RecordedJob {
        run,
        namespace: namespace.to_string(),
        kubeconfig: pod.kubeconfig.clone().or(given).and_then(|path| std::path::absolute(path).ok()),
        context: pod.context.clone(),
        owner: owner.clone(),
        made: UtcTimestamp::now(),
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = AtomicFile::create(&path, PRIVATE_FILE_MODE).map_err(failed)?;
    serde_json::to_writer(file.file(), &noted).map_err(|error| failed(error.into()))?;
    file.persist().map_err(failed)
}

/// Forgets a Job that was removed.
pub(crate) fn forget_job(folder: &Path, run: RunId) {
    let _ = std::fs::remove_file(file_of(folder, run));
}

fn file_of(folder: &Path, run: RunId) -> PathBuf {
    folder.join(format!("{FILE_PREFIX}{run}.json"))
}

/// Removes the Jobs that killed programs of this host left, in the clusters where they are. Returns
/// their names. A Job whose cluster is away is tried again at the next start.
pub fn sweep_recorded_jobs(roots: &KernelRoots, folder: &Path) -> Result<Vec<String>, Error> {
    let left: Vec<RecordedJob> = read_notes(folder)
        .into_iter()
        .filter(|noted| !process_owner::is_owner_alive(roots, &noted.owner))
        .collect();
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|reason| Error::File { path: "a runtime".into(), reason })?;
    let mut swept = Vec::new();
    let done = runtime.block_on(async {
        tokio::time::timeout(SWEEP_TIMEOUT, async {
            for noted in left {
                let name = job::job_name(noted.run);
                match remove_noted(&noted).await {
                    Ok(()) => swept.push(name),
                    Err(error) if is_forgettable(&noted) => {
                        tracing::info!(%error, job = name, "a Job is left to the end of its lease");
                    }
                    Err(error) => {
                        tracing::warn!(%error, job = name, "a Job of a killed program could not be removed yet");
                        continue;
                    }
                }
                forget_job(folder, noted.run);
            }
        })
        .await
    });
    if done.is_err() {
        tracing::warn!(
            "the clusters with Jobs of killed programs did not answer in time; trying again at the next start"
        );
    }
    Ok(swept)
}

async fn remove_noted(noted: &RecordedJob) -> Result<(), Error> {
    let pod = PodSpec {
        kubeconfig: noted.kubeconfig.clone(),
        context: noted.context.clone(),
        namespace: Some(noted.namespace.clone()),
        ..PodSpec::default()
    };
    let cluster = ClusterClient::connect(&pod).await?;
    leftovers::delete_job(&cluster, &job::job_name(noted.run)).await
}

/// Whether the cluster has ended the Job by itself in any case.
fn is_forgettable(noted: &RecordedJob) -> bool {
    let age = UtcTimestamp::now().as_second().saturating_sub(noted.made.as_second());
    age > 4 * LEASE_TIME.as_secs() as i64
}

fn read_notes(folder: &Path) -> Vec<RecordedJob> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_note = |name: &str| name.strip_prefix(FILE_PREFIX).is_some_and(|rest| rest.ends_with(".json"));
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_note))
        .take(MAX_FILES)
        .filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok())
        .collect()
}
