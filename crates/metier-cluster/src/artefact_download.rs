//! Downloads the artefacts and application messages of a run in a pod on another machine, before
//! the container ends.
//!
//! The launcher keeps the container after the end of the command and appends a mark to the log.
//! Then a second launcher process in the container sends everything through stdout and waits for a
//! confirmation. A broken stream starts again from the beginning. The download is not charged to
//! the run, since the counters were read before.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metier_measure::app::remote_app;
use metier_measure::running_target::FileSink;
use metier_types::LockUnpoisoned;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster_client::ClusterClient;
use crate::exec_channel::ExecChannel;
use crate::job::LAUNCHER_FOLDER;
use crate::pod_state::{PodState, RUN_CONTAINER};
use crate::pod_watch::{ObservedPod, pod_name};
use crate::transfer::PodTransfer;

/// Most files, and their largest total size.
const MAX_FILES: usize = 256;
const MAX_TOTAL_BYTES: u64 = 1 << 30;
/// Largest size of the application messages.
const MAX_APP_BYTES: u64 = 256 << 20;
/// Most attempts to download.
const MAX_TRIES: u32 = 3;
/// Time limit after the end of the container; the download is normally complete before it.
const DOWNLOAD_GRACE: Duration = Duration::from_secs(5);
/// Most reported problems.
const MAX_TROUBLES: usize = 50;

#[derive(Debug, Default)]
pub(crate) struct DownloadedFiles {
    files: Vec<(String, PathBuf)>,
    /// Recording of the listener.
    pub heard: Option<PathBuf>,
    pub log: Option<PathBuf>,
    /// How far the local clock is ahead of the remote one, in nanoseconds.
    pub ahead_ns: Option<i64>,
    troubles: Vec<String>,
}

/// A running or finished download.
#[derive(Clone)]
pub(crate) struct ArtefactDownload {
    handle: Handle,
    state: Arc<Mutex<DownloadState>>,
    /// Whether the download is running.
    pub is_busy: watch::Receiver<bool>,
}

enum DownloadState {
    Task(Option<JoinHandle<Result<DownloadedFiles, String>>>),
    Finished(Result<DownloadedFiles, String>),
}

impl ArtefactDownload {
    /// Starts a task that waits for the mark and then downloads.
    pub fn start(
        handle: &Handle,
        cluster: ClusterClient,
        seen: watch::Receiver<ObservedPod>,
        marked: watch::Receiver<bool>,
        request: DownloadRequest,
    ) -> Self {
        let (tell, is_busy) = watch::channel(false);
        let task = handle.spawn(download_after_mark(cluster, seen, marked, request, tell));
        Self { handle: handle.clone(), state: Arc::new(Mutex::new(DownloadState::Task(Some(task)))), is_busy }
    }

    /// Waits for the download if it is running, and passes its result to a function.
    pub fn with_result<T>(&self, look: impl FnOnce(&Result<DownloadedFiles, String>) -> T) -> T {
        let mut state = self.state.lock_unpoisoned();
        if let DownloadState::Task(task) = &mut *state {
            let here = match task.take() {
                Some(task) => self.handle.block_on(async {
                    match tokio::time::timeout(DOWNLOAD_GRACE, task).await {
                        Ok(Ok(here)) => here,
                        _ => Err("its container ended before all was here".to_string()),
                    }
                }),
                None => Err("it was not waited for".into()),
            };
            *state = DownloadState::Finished(here);
        }
        match &*state {
            DownloadState::Finished(here) => look(here),
            DownloadState::Task(_) => look(&Err("it did not come".into())),
        }
    }

    /// Passes the files to a sink.
    pub fn pass_files(&self, sink: &mut FileSink<'_>) -> Result<(), String> {
        self.with_result(|here| {
            let here =
                here.as_ref().map_err(|why| format!("files of the pod could not be fetched: {why}"))?;
            for (name, path) in &here.files {
                match File::open(path) {
                    Ok(mut file) => {
                        if !sink(name, &mut file) {
                            break;
                        }
                    }
                    Err(error) => return Err(format!("{name} could not be read: {error}")),
                }
            }
            if here.troubles.is_empty() { Ok(()) } else { Err(here.troubles.join("; ")) }
        })
    }
}

/// Files to download and their target folder.
pub(crate) struct DownloadRequest {
    pub luggage: PodTransfer,
    pub patterns: Vec<String>,
    pub folder: PathBuf,
}

async fn download_after_mark(
    cluster: ClusterClient,
    mut seen: watch::Receiver<ObservedPod>,
    mut marked: watch::Receiver<bool>,
    request: DownloadRequest,
    busy: watch::Sender<bool>,
) -> Result<DownloadedFiles, String> {
    let is_over = |seen: &ObservedPod| {
        seen.is_gone || matches!(seen.state(), PodState::Ended(_) | PodState::Gone { .. })
    };
    tokio::select! {
        marked = marked.wait_for(|is_marked| *is_marked) => {
            marked.map_err(|_| "the pod's log, which signals the end of the run, could not be followed".to_string())?;
        }
        _ = seen.wait_for(is_over) => return Err("its container was gone before they could be".into()),
    }
    busy.send_replace(true);
    let name = pod_name(&seen.borrow());
    let mut result = Err(String::new());
    for _ in 0..MAX_TRIES {
        result = download_once(&cluster, &name, &request).await;
        if result.is_ok() || is_over(&seen.borrow()) {
            break;
        }
        tokio::time::sleep(crate::pod_watch::RETRY_DELAY * 4).await;
    }
    busy.send_replace(false);
    result
}

async fn download_once(
    cluster: &ClusterClient,
    pod: &str,
    request: &DownloadRequest,
) -> Result<DownloadedFiles, String> {
    let folder = &request.folder;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let ears =
        if request.luggage.ears.is_empty() { "-" } else { metier_measure::app::listener::CONTAINER_FOLDER };
    let mut words: Vec<String> = [
        &format!("{LAUNCHER_FOLDER}/launch"),
        "--fetch",
        ears,
        &MAX_FILES.to_string(),
        &MAX_TOTAL_BYTES.to_string(),
    ]
    .map(String::from)
    .into();
    words.extend(request.patterns.iter().cloned());
    let mut talk = ExecChannel::open(cluster, pod, RUN_CONTAINER, words).await?;
    let mut here = DownloadedFiles::default();
    let mut open: Option<DownloadingFile> = None;
    let mut left_out = 0;
    let (mut room, mut said_room) = (MAX_TOTAL_BYTES, MAX_APP_BYTES);
    let mut content = Vec::new();
    loop {
        let kind = talk.receive_frame(&mut content).await?;
        let text = || String::from_utf8_lossy(&content).into_owned();
        match (kind, &mut open) {
            (b'A' | b'N', None) => {
                if here.files.len() >= MAX_FILES {
                    return Err("it sends more files than were requested".into());
                }
                let path = folder.join(match kind {
                    b'A' => {
                        format!(
                            "messages-{}",
                            if content == remote_app::RECORDING_NAME.as_bytes() { "heard" } else { "log" }
                        )
                    }
                    _ => format!("file-{}", here.files.len()),
                });
                let file = File::create(&path).map_err(failed)?;
                open = Some(DownloadingFile { kind, name: text(), path, file });
            }
            (b'D', Some(file)) => {
                let room = if file.kind == b'A' { &mut said_room } else { &mut room };
                *room = room
                    .checked_sub(content.len() as u64)
                    .ok_or("it hands out more than was asked for".to_string())?;
                file.file.write_all(&content).map_err(failed)?;
            }
            (b'E', Some(_)) => {
                let Some(file) = open.take() else { continue };
                here.add_file(file, &text());
            }
            (b'T', None) => {
                let there: Option<i64> = text().parse().ok();
                let now = metier_measure::app::descriptor::unix_time_ns();
                here.ahead_ns = there.and_then(|there| now.checked_sub(there));
            }
            (b'M', None) => here.add_trouble(format!("no file matches {}, so none was kept", text())),
            (b'L', None) => left_out += 1,
            (b'Z', None) => break,
            _ => return Err("what the pod hands out has another form".into()),
        }
    }
    if left_out > 0 {
        here.add_trouble(format!(
            "{left_out} files were left out: at most {MAX_FILES} files with 1 GiB together are kept; name fewer of them"
        ));
    }
    // The download is complete, so the container may end. Without this confirmation it ends after a
    // timeout.
    let _ = talk.write_bytes(b"B").await;
    let _ = talk.read_rest(1).await;
    Ok(here)
}

struct DownloadingFile {
    kind: u8,
    name: String,
    path: PathBuf,
    file: File,
}

impl DownloadedFiles {
    fn add_file(&mut self, file: DownloadingFile, why_not: &str) {
        match (file.kind, why_not.is_empty()) {
            (b'A', _) if file.name == remote_app::RECORDING_NAME => self.heard = Some(file.path),
            (b'A', _) => self.log = Some(file.path),
            (_, true) => self.files.push((file.name, file.path)),
            // A partial file is removed.
            (_, false) => self.add_trouble(format!("{} {why_not}", file.name)),
        }
    }

    fn add_trouble(&mut self, text: String) {
        if self.troubles.len() < MAX_TROUBLES {
            self.troubles.push(text);
        }
    }
}

/// A folder, removed on drop.
pub(crate) struct DownloadFolder(pub PathBuf);

impl Drop for DownloadFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Temporary folder of a download.
pub(crate) fn download_folder(runtime: &Path, run: metier_types::RunId) -> PathBuf {
    runtime.join(format!("pod-{}-{}-back", std::process::id(), run.short()))
}
