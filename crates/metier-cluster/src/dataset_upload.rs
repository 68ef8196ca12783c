//! Uploads a dataset to a pod on another machine. An init container receives it into a volume of
//! the pod, which the run mounts read-only. The measured time starts after the upload.
//!
//! Each file is sent with its digest and verified in the pod. No data stays on the node, since the
//! volume is removed with the pod.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use metier_store::digest;
use tokio::sync::watch;

use crate::cluster_client::ClusterClient;
use crate::exec_channel::{ExecChannel, MAX_FRAME_BYTES};
use crate::job::{DATASET_CONTAINER, DATASET_FOLDER, LAUNCHER_FOLDER};
use crate::pod_state::{self, PodState};
use crate::pod_watch::{ObservedPod, pod_name};
use crate::transfer::DatasetTransfer;

/// Most files of a dataset.
const MAX_FILES: usize = 100_000;

/// Result of the upload; `None` while it is running.
pub(crate) type UploadStatus = watch::Receiver<Option<Result<(), String>>>;

/// Uploads the dataset as soon as the init container runs, and publishes the result.
pub(crate) async fn upload_when_ready(
    cluster: ClusterClient,
    mut seen: watch::Receiver<ObservedPod>,
    dataset: DatasetTransfer,
    tell: watch::Sender<Option<Result<(), String>>>,
) {
    let is_there = |seen: &ObservedPod| {
        let is_over = matches!(seen.state(), PodState::Ended(_) | PodState::Gone { .. });
        seen.is_gone
            || is_over
            || seen.pod.as_ref().is_some_and(|pod| pod_state::is_init_running(pod, DATASET_CONTAINER))
    };
    let Ok(name) = seen.wait_for(is_there).await.map(|seen| pod_name(&seen)) else { return };
    let sent = upload_files(&cluster, &name, &dataset).await;
    let sent = sent.map_err(|why| format!("its dataset could not be brought to the pod's node: {why}"));
    tell.send_replace(Some(sent));
}

async fn upload_files(cluster: &ClusterClient, pod: &str, dataset: &DatasetTransfer) -> Result<(), String> {
    let files = list_files(&dataset.path)?;
    let pages = if dataset.is_cold { "cold" } else { "-" };
    let words = [
        &format!("{LAUNCHER_FOLDER}/launch"),
        "--take",
        &format!("{DATASET_FOLDER}/data"),
        &format!("{DATASET_FOLDER}/done"),
        pages,
    ];
    let mut talk = ExecChannel::open(cluster, pod, DATASET_CONTAINER, words.map(String::from).into()).await?;
    for path in files {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let below = path.strip_prefix(&dataset.path).unwrap_or(&path);
        let digest = digest::digest_file(&path).map_err(|error| failed(&error))?;
        let mut file = std::fs::File::open(&path).map_err(|error| failed(&error))?;
        let mode = file.metadata().map_err(|error| failed(&error))?.permissions().mode();
        let head = [&mode.to_le_bytes()[..], below.as_os_str().as_bytes()].concat();
        talk.send_frame(b'F', &head).await?;
        let mut buffer = vec![0; MAX_FRAME_BYTES];
        loop {
            match file.read(&mut buffer).map_err(|error| failed(&error))? {
                0 => break,
                length => talk.send_frame(b'D', &buffer[..length]).await?,
            }
        }
        talk.send_frame(b'E', digest.as_bytes()).await?;
    }
    talk.send_frame(b'Z', b"").await?;
    match talk.read_rest(4096).await?.as_str() {
        "ok" => Ok(()),
        why => Err(format!("the pod did not take it: {why}")),
    }
}

/// Lists the file itself, or all files below the folder.
fn list_files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if std::fs::metadata(path).map_err(|error| failed(path, error))?.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
            let entry = entry.map_err(|error| failed(&folder, error))?;
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
        if files.len() > MAX_FILES {
            return Err(format!("it has more than {MAX_FILES} files; want an archive of them"));
        }
    }
    files.sort();
    Ok(files)
}
