//! What a run in a pod of another machine left, brought here before its container ends: the files that were asked for, and what
//! the application said of itself.
//!
//! The launcher there holds the container after the command's end and says so by a mark at the end of the log. Then its program is
//! started once more in the same container, hands out everything by its standard output, and is told when all is here; a stream
//! that breaks is asked for again from the beginning. Nothing of it is counted as the run's: the counters were read before.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metier_measure::app::relayed;
use metier_measure::running_target::Sink;
use metier_types::LockUnpoisoned;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::follow::{Seen, name_of};
use crate::job::GATE;
use crate::state::{MAIN, State};
use crate::talk::Talk;
use crate::transfer::PodTransfer;

/// Files that are kept at most, and bytes that they may have together.
const FILES: usize = 256;
const BYTES: u64 = 1 << 30;
/// Bytes of what the application said.
const SAID: u64 = 256 << 20;
/// How often a stream that breaks is asked for again.
const TRIES: u32 = 3;
/// How long after a container's end its files may take to be here: they were here before.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// Names of troubles that are kept.
const TROUBLES: usize = 50;

#[derive(Debug, Default)]
pub(crate) struct Fetched {
    files: Vec<(String, PathBuf)>,
    /// What the ears heard.
    pub heard: Option<PathBuf>,
    pub log: Option<PathBuf>,
    /// How far our clock is before the one there, in nanoseconds.
    pub ahead_ns: Option<i64>,
    troubles: Vec<String>,
}

/// What is being brought, and what has been.
#[derive(Clone)]
pub(crate) struct Back {
    handle: Handle,
    state: Arc<Mutex<Coming>>,
    /// Whether it is under way.
    pub is_busy: watch::Receiver<bool>,
}

enum Coming {
    Task(Option<JoinHandle<Result<Fetched, String>>>),
    Here(Result<Fetched, String>),
}

impl Back {
    /// Starts to wait for the mark.
    pub fn start(
        handle: &Handle,
        cluster: Cluster,
        seen: watch::Receiver<Seen>,
        marked: watch::Receiver<bool>,
        wanted: Wanted,
    ) -> Self {
        let (tell, is_busy) = watch::channel(false);
        let task = handle.spawn(bring(cluster, seen, marked, wanted, tell));
        Self { handle: handle.clone(), state: Arc::new(Mutex::new(Coming::Task(Some(task)))), is_busy }
    }

    /// Looks at what was brought, or why it was not; waits for it, where it is about to come.
    pub fn with<T>(&self, look: impl FnOnce(&Result<Fetched, String>) -> T) -> T {
        let mut state = self.state.lock_unpoisoned();
        if let Coming::Task(task) = &mut *state {
            let here = match task.take() {
                Some(task) => self.handle.block_on(async {
                    match tokio::time::timeout(AFTERWARDS, task).await {
                        Ok(Ok(here)) => here,
                        _ => Err("its container ended before all was here".to_string()),
                    }
                }),
                None => Err("it was not waited for".into()),
            };
            *state = Coming::Here(here);
        }
        match &*state {
            Coming::Here(here) => look(here),
            Coming::Task(_) => look(&Err("it did not come".into())),
        }
    }

    /// Hands over the files.
    pub fn hand_over(&self, sink: &mut Sink<'_>) -> Result<(), String> {
        self.with(|here| {
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

/// What is to be brought, and where to.
pub(crate) struct Wanted {
    pub luggage: PodTransfer,
    pub patterns: Vec<String>,
    pub folder: PathBuf,
}

async fn bring(
    cluster: Cluster,
    mut seen: watch::Receiver<Seen>,
    mut marked: watch::Receiver<bool>,
    wanted: Wanted,
    busy: watch::Sender<bool>,
) -> Result<Fetched, String> {
    let is_over = |seen: &Seen| seen.is_gone || matches!(seen.state(), State::Ended(_) | State::Gone { .. });
    tokio::select! {
        marked = marked.wait_for(|is_marked| *is_marked) => {
            marked.map_err(|_| "the pod's log, which tells when, could not be followed".to_string())?;
        }
        _ = seen.wait_for(is_over) => return Err("its container was gone before they could be".into()),
    }
    busy.send_replace(true);
    let name = name_of(&seen.borrow());
    let mut result = Err(String::new());
    for _ in 0..TRIES {
        result = once(&cluster, &name, &wanted).await;
        if result.is_ok() || is_over(&seen.borrow()) {
            break;
        }
        tokio::time::sleep(crate::follow::AGAIN * 4).await;
    }
    busy.send_replace(false);
    result
}

async fn once(cluster: &Cluster, pod: &str, wanted: &Wanted) -> Result<Fetched, String> {
    let folder = &wanted.folder;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let ears = if wanted.luggage.ears.is_empty() { "-" } else { metier_measure::app::listening::INSIDE };
    let mut words: Vec<String> =
        [&format!("{GATE}/launch"), "--fetch", ears, &FILES.to_string(), &BYTES.to_string()]
            .map(String::from)
            .into();
    words.extend(wanted.patterns.iter().cloned());
    let mut talk = Talk::open(cluster, pod, MAIN, words).await?;
    let mut here = Fetched::default();
    let mut open: Option<Open> = None;
    let mut left_out = 0;
    let (mut room, mut said_room) = (BYTES, SAID);
    let mut content = Vec::new();
    loop {
        let kind = talk.receive(&mut content).await?;
        let text = || String::from_utf8_lossy(&content).into_owned();
        match (kind, &mut open) {
            (b'A' | b'N', None) => {
                if here.files.len() >= FILES {
                    return Err("it hands out more files than were asked for".into());
                }
                let path = folder.join(match kind {
                    b'A' => {
                        format!("said-{}", if content == relayed::HEARD.as_bytes() { "heard" } else { "log" })
                    }
                    _ => format!("file-{}", here.files.len()),
                });
                let file = File::create(&path).map_err(failed)?;
                open = Some(Open { kind, name: text(), path, file });
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
                here.take(file, &text());
            }
            (b'T', None) => {
                let there: Option<i64> = text().parse().ok();
                let now = metier_measure::app::descriptor::now_ns();
                here.ahead_ns = there.and_then(|there| now.checked_sub(there));
            }
            (b'M', None) => here.trouble(format!("no file matches {}, so none was kept", text())),
            (b'L', None) => left_out += 1,
            (b'Z', None) => break,
            _ => return Err("what the pod hands out has another form".into()),
        }
    }
    if left_out > 0 {
        here.trouble(format!(
            "{left_out} files were left out: at most {FILES} files with 1 GiB together are kept; name fewer of them"
        ));
    }
    // All is here: the container may end. Where that does not reach it, it ends by itself a little later.
    let _ = talk.write(b"B").await;
    let _ = talk.rest(1).await;
    Ok(here)
}

struct Open {
    kind: u8,
    name: String,
    path: PathBuf,
    file: File,
}

impl Fetched {
    fn take(&mut self, file: Open, why_not: &str) {
        match (file.kind, why_not.is_empty()) {
            (b'A', _) if file.name == relayed::HEARD => self.heard = Some(file.path),
            (b'A', _) => self.log = Some(file.path),
            (_, true) => self.files.push((file.name, file.path)),
            // What came of it is not the file.
            (_, false) => self.trouble(format!("{} {why_not}", file.name)),
        }
    }

    fn trouble(&mut self, text: String) {
        if self.troubles.len() < TROUBLES {
            self.troubles.push(text);
        }
    }
}

/// A folder that goes with its owner.
pub(crate) struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where it is put meanwhile.
pub(crate) fn folder(runtime: &Path, run: metier_types::RunId) -> PathBuf {
    runtime.join(format!("pod-{}-{}-back", std::process::id(), run.short()))
}
