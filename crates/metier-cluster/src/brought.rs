//! A dataset on its way to a pod of another machine: into a volume that lives and ends with the pod, by the container before
//! the run's own, which waits for it. The run sees it read-only, and its clock starts when all is there.
//!
//! Every file is sent with its digest and checked there. Nothing is left on that node: the volume is the pod's.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use metier_store::digest;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::follow::{Seen, name_of};
use crate::job::{GATE, PREPARE, PREPARED};
use crate::state::{self, State};
use crate::talk::{LONGEST, Talk};
use crate::transfer::DatasetTransfer;

/// Files of a dataset.
const FILES: usize = 100_000;

/// What became of it: `None` while it is under way.
pub(crate) type Way = watch::Receiver<Option<Result<(), String>>>;

/// Sends it as soon as the pod waits for it, and tells how that went.
pub(crate) async fn send(
    cluster: Cluster,
    mut seen: watch::Receiver<Seen>,
    dataset: DatasetTransfer,
    tell: watch::Sender<Option<Result<(), String>>>,
) {
    let is_there = |seen: &Seen| {
        let is_over = matches!(seen.state(), State::Ended(_) | State::Gone { .. });
        seen.is_gone || is_over || seen.pod.as_ref().is_some_and(|pod| state::is_running(pod, PREPARE))
    };
    let Ok(name) = seen.wait_for(is_there).await.map(|seen| name_of(&seen)) else { return };
    let sent = all(&cluster, &name, &dataset).await;
    let sent = sent.map_err(|why| format!("its dataset could not be brought to the pod's node: {why}"));
    tell.send_replace(Some(sent));
}

async fn all(cluster: &Cluster, pod: &str, dataset: &DatasetTransfer) -> Result<(), String> {
    let files = files_of(&dataset.path)?;
    let pages = if dataset.is_cold { "cold" } else { "-" };
    let words = [
        &format!("{GATE}/launch"),
        "--take",
        &format!("{PREPARED}/data"),
        &format!("{PREPARED}/done"),
        pages,
    ];
    let mut talk = Talk::open(cluster, pod, PREPARE, words.map(String::from).into()).await?;
    for path in files {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let below = path.strip_prefix(&dataset.path).unwrap_or(&path);
        let digest = digest::of_file(&path).map_err(|error| failed(&error))?;
        let mut file = std::fs::File::open(&path).map_err(|error| failed(&error))?;
        let mode = file.metadata().map_err(|error| failed(&error))?.permissions().mode();
        let head = [&mode.to_le_bytes()[..], below.as_os_str().as_bytes()].concat();
        talk.send(b'F', &head).await?;
        let mut buffer = vec![0; LONGEST];
        loop {
            match file.read(&mut buffer).map_err(|error| failed(&error))? {
                0 => break,
                length => talk.send(b'D', &buffer[..length]).await?,
            }
        }
        talk.send(b'E', digest.as_bytes()).await?;
    }
    talk.send(b'Z', b"").await?;
    match talk.rest(4096).await?.as_str() {
        "ok" => Ok(()),
        why => Err(format!("the pod did not take it: {why}")),
    }
}

/// The file itself, or all files below the folder.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
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
        if files.len() > FILES {
            return Err(format!("it has more than {FILES} files; want an archive of them"));
        }
    }
    files.sort();
    Ok(files)
}
