//! The thread that drives the engine: creates the container, carries its streams, waits for its
//! end, exports its files and removes it. It reports through a channel and an event descriptor, so
//! that the sample loop needs no asynchronous runtime.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptions, DownloadFromContainerOptions, InspectContainerOptions,
    RemoveContainerOptions, StartContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::container_plan::ContainerPlan;
use super::engine::{CgroupStrategy, ContainerEngine, error_text};
use super::image::{self, ContainerImage};
use super::{container_streams, leftover_containers};
use crate::spec::AwaitedOutput;
use metier_linux::wakeup;

/// How long the rest of the output may take to arrive after the end.
const OUTPUT_GRACE: Duration = Duration::from_secs(10);
/// How long an engine may take to clean up a container that has ended.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(1);
/// How often removal of a container is attempted, and the time between.
const MAX_REMOVAL_TRIES: usize = 20;
const REMOVAL_PAUSE: Duration = Duration::from_millis(100);
/// Poll interval of the control group after the end, until it is empty.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Events of the engine, in this order.
#[derive(Debug)]
pub(super) enum EngineEvent {
    /// The engine responds, and creates control groups in this way.
    Connected { grouping: CgroupStrategy },
    /// Name and version of the engine, and the resolved image.
    Found { engine: String, image: ContainerImage },
    /// The container was started; its id and first process.
    Started { id: String, pid: u32 },
    /// It could not be created or started.
    Failed(String),
    /// Its main process ended.
    Exited { code: i64, oom: bool },
    /// The connection to the engine was lost, or the container disappeared.
    Lost(String),
    /// No process of the container is left.
    Gone,
}

/// Orders to the thread.
enum EngineOrder {
    /// Create and start the container. `folders` are those of its control group.
    Make { plan: Box<ContainerPlan>, folders: Vec<PathBuf> },
    /// Write an archive of a path in the container to a file.
    Archive { path: String, into: File, limit: u64, answer: Sender<Result<(), String>> },
    /// Remove the container and end.
    Release,
}

/// The other threads' handle of the engine thread.
pub(super) struct EngineDriver {
    pub events: Receiver<EngineEvent>,
    pub bell: Arc<OwnedFd>,
    orders: UnboundedSender<EngineOrder>,
    thread: Option<JoinHandle<()>>,
}

impl EngineDriver {
    /// Starts the thread, which connects to the engine.
    pub fn start(socket: PathBuf) -> std::io::Result<Self> {
        let bell = Arc::new(wakeup::create_event()?);
        let (sender, receiver) = channel();
        let (orders, received) = unbounded_channel();
        let voice = EngineReporter { sender, bell: bell.clone() };
        let thread = std::thread::Builder::new().name("metier-engine".into()).spawn(move || {
            let done = super::engine::block_on(run_engine(&socket, &voice, received));
            if let Err(reason) = done {
                voice.send_event(EngineEvent::Failed(reason));
            }
        })?;
        Ok(Self { events: receiver, bell, orders, thread: Some(thread) })
    }

    /// Creates and starts the container. `folders` are those of its control group.
    pub fn create_container(&self, plan: ContainerPlan, folders: Vec<PathBuf>) {
        // A thread that has ended has already sent its reason.
        let _ = self.orders.send(EngineOrder::Make { plan: Box::new(plan), folders });
    }

    /// Writes an archive of a path in the container to a file.
    pub fn download_archive(&self, path: &str, into: File, limit: u64) -> Result<(), String> {
        let (answer, answered) = channel();
        let order = EngineOrder::Archive { path: path.to_string(), into, limit, answer };
        let gone = || "the connection to the engine is lost".to_string();
        self.orders.send(order).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    /// Removes the container and waits until it is removed.
    pub fn release(mut self) {
        let _ = self.orders.send(EngineOrder::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct EngineReporter {
    sender: Sender<EngineEvent>,
    bell: Arc<OwnedFd>,
}

impl EngineReporter {
    fn send_event(&self, event: EngineEvent) {
        let _ = self.sender.send(event);
        wakeup::signal_event(&self.bell);
    }
}

async fn run_engine(
    socket: &std::path::Path,
    voice: &EngineReporter,
    mut orders: UnboundedReceiver<EngineOrder>,
) {
    let met = tokio::select! {
        met = ContainerEngine::connect(socket) => met,
        _ = orders.recv() => return,
    };
    let engine = match met {
        Ok(engine) => engine,
        Err(reason) => return voice.send_event(EngineEvent::Failed(reason)),
    };
    voice.send_event(EngineEvent::Connected { grouping: engine.grouping });
    let Some(EngineOrder::Make { plan, folders }) = orders.recv().await else { return };
    // A closed channel means that the caller no longer waits, for example for a large image.
    let made = tokio::select! {
        made = create_and_start(&engine, &plan, voice) => made,
        _ = orders.recv() => return remove_container(&engine, &plan.name).await,
    };
    let carried = match made {
        Ok(carried) => carried,
        Err(reason) => {
            // Removed before the failure is reported, so that a second attempt finds the name free.
            remove_container(&engine, &plan.name).await;
            voice.send_event(EngineEvent::Failed(reason));
            return;
        }
    };
    let end = wait_for_end(&engine, &plan.name, carried);
    tokio::pin!(end);
    let (mut is_over, mut is_gone) = (false, false);
    loop {
        tokio::select! {
            end_event = &mut end, if !is_over => {
                is_over = true;
                voice.send_event(end_event);
            }
            () = tokio::time::sleep(POLL_INTERVAL), if is_over && !is_gone => {
                is_gone = !folders.iter().any(|folder| has_members(folder, 0));
                if is_gone {
                    voice.send_event(EngineEvent::Gone);
                }
            }
            order = orders.recv() => match order {
                Some(EngineOrder::Archive { path, into, limit, answer }) => {
                    let _ = answer.send(copy_archive(&engine, &plan.name, &path, into, limit).await);
                }
                Some(EngineOrder::Make { .. } | EngineOrder::Release) | None => {
                    remove_container(&engine, &plan.name).await;
                    return;
                }
            },
        }
    }
}

/// Creates and starts the container; the result completes when its streams have ended.
async fn create_and_start(
    engine: &ContainerEngine,
    plan: &ContainerPlan,
    voice: &EngineReporter,
) -> Result<oneshot::Receiver<()>, String> {
    leftover_containers::remove_ownerless(engine).await;
    let image = image::resolve_image(engine, &plan.container).await?;
    voice.send_event(EngineEvent::Found { engine: engine.name.clone(), image: image.clone() });
    let name = CreateContainerOptions { name: Some(plan.name.clone()), ..Default::default() };
    let body = plan.create_body(&image);
    let refused = |doing: &str, error: &bollard::errors::Error| {
        format!("{} does not {doing} it: {}", engine.name, error_text(error))
    };
    let made = engine.docker.create_container(Some(name), body).await;
    let id = made.map_err(|error| refused("make", &error))?.id;
    check_granted_options(engine, plan, &id).await?;
    let streams = AttachContainerOptions {
        stream: true,
        stdout: true,
        stderr: true,
        stdin: plan.container.stdin,
        ..Default::default()
    };
    let attached = engine.without_timeout().attach_container(&id, Some(streams)).await;
    let attached = attached.map_err(|error| refused("attach to", &error))?;
    let (done, carried) = oneshot::channel();
    tokio::spawn(carry_streams(attached, plan.container.stdin, plan.container.awaits.clone(), done));
    let started = engine.docker.start_container(&id, None::<StartContainerOptions>).await;
    started.map_err(|error| refused("start", &error))?;
    let state = engine.docker.inspect_container(&id, None::<InspectContainerOptions>).await;
    let state = state.map_err(|error| refused("know", &error))?.state.unwrap_or_default();
    let pid = state.pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    voice.send_event(EngineEvent::Started { id, pid });
    Ok(carried)
}

/// Whether the engine accepted the runtime and the GPUs: Podman ignores unknown ones without an
/// error.
async fn check_granted_options(
    engine: &ContainerEngine,
    plan: &ContainerPlan,
    id: &str,
) -> Result<(), String> {
    let (runtime, gpus) = (plan.container.runtime.as_deref(), plan.limits.gpus.is_some());
    if runtime.is_none() && !gpus {
        return Ok(());
    }
    let found = engine.docker.inspect_container(id, None::<InspectContainerOptions>).await;
    let host = found.map_err(|error| format!("{} does not know it: {}", engine.name, error_text(&error)))?;
    let host = host.host_config.unwrap_or_default();
    let taken = host.runtime.unwrap_or_default();
    if let Some(text) = runtime.filter(|name_text| *name_text != taken) {
        return Err(format!(
            "{} made it with the runtime {taken:?} instead of {text:?}; set that as the default of its service",
            engine.name
        ));
    }
    match gpus && host.device_requests.is_none_or(|asked| asked.is_empty()) {
        true => {
            Err(format!("{} ignored the requested GPUs; pass the devices by its own options", engine.name))
        }
        false => Ok(()),
    }
}

/// Carries the streams until the container closes them.
async fn carry_streams(
    mut attached: bollard::container::AttachContainerResults,
    with_input: bool,
    awaits: Option<AwaitedOutput>,
    done: oneshot::Sender<()>,
) {
    let over = wakeup::create_event().ok().map(Arc::new);
    if let Some(over) = over.clone().filter(|_| with_input) {
        let mut pieces = container_streams::spawn_reader(over);
        let mut input = attached.input;
        tokio::spawn(async move {
            while let Some(piece) = pieces.recv().await {
                if input.write_all(&piece).await.is_err() || input.flush().await.is_err() {
                    return;
                }
            }
            let _ = input.shutdown().await;
        });
    }
    let (sender, thread) = container_streams::spawn_writer(awaits.as_ref());
    while let Some(Ok(piece)) = attached.output.next().await {
        if sender.send(piece).await.is_err() {
            break;
        }
    }
    drop(sender);
    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    over.iter().for_each(|over| wakeup::signal_event(over));
    let _ = done.send(());
}

/// Waits for the end of the main process and for the rest of its output.
async fn wait_for_end(engine: &ContainerEngine, name: &str, carried: oneshot::Receiver<()>) -> EngineEvent {
    let options = WaitContainerOptions { condition: "not-running".into() };
    let mut waiting = engine.without_timeout().wait_container(name, Some(options)).boxed();
    // A non-zero exit code arrives as an error; the container's own state has it anyway.
    let answer = waiting.next().await;
    let state = match inspect_ended(engine, name).await {
        Ok(found) => found.state.unwrap_or_default(),
        // The container has ended: its exit code came with the response. Its control group shows
        // out-of-memory kills.
        Err(bollard::errors::Error::JsonDataError { .. }) if exit_code_of(answer.as_ref()).is_some() => {
            let _ = tokio::time::timeout(OUTPUT_GRACE, carried).await;
            return EngineEvent::Exited { code: exit_code_of(answer.as_ref()).unwrap_or(0), oom: false };
        }
        Err(error) => {
            return EngineEvent::Lost(format!("{} lost the container: {}", engine.name, error_text(&error)));
        }
    };
    if state.running == Some(true) {
        let reason = match answer {
            Some(Err(error)) => error_text(&error),
            _ => "its answer ended".into(),
        };
        return EngineEvent::Lost(format!("the connection to {} was lost: {reason}", engine.name));
    }
    let _ = tokio::time::timeout(OUTPUT_GRACE, carried).await;
    EngineEvent::Exited { code: state.exit_code.unwrap_or(0), oom: state.oom_killed == Some(true) }
}

/// The exit code in a wait response; a non-zero code arrives as an error.
fn exit_code_of(
    answer: Option<&Result<bollard::models::ContainerWaitResponse, bollard::errors::Error>>,
) -> Option<i64> {
    match answer? {
        Ok(answer) => Some(answer.status_code),
        Err(bollard::errors::Error::DockerContainerWaitError { code, .. }) => Some(*code),
        Err(_) => None,
    }
}

/// State of an ended container. Podman has a state, unknown to the client, for a container that has
/// ended and is not cleaned up yet; it usually changes within a moment.
async fn inspect_ended(
    engine: &ContainerEngine,
    name: &str,
) -> Result<bollard::models::ContainerInspectResponse, bollard::errors::Error> {
    let until = tokio::time::Instant::now() + CLEANUP_TIMEOUT;
    loop {
        match engine.docker.inspect_container(name, None::<InspectContainerOptions>).await {
            Err(bollard::errors::Error::JsonDataError { .. }) if tokio::time::Instant::now() < until => {
                tokio::time::sleep(POLL_INTERVAL * 4).await;
            }
            other => return other,
        }
    }
}

async fn copy_archive(
    engine: &ContainerEngine,
    name: &str,
    path: &str,
    mut into: File,
    limit: u64,
) -> Result<(), String> {
    let options = DownloadFromContainerOptions { path: path.to_string() };
    let mut pieces = engine.without_timeout().download_from_container(name, Some(options)).boxed();
    let mut written = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| error_text(&error))?;
        written += piece.len() as u64;
        if written > limit {
            return Err(format!("{path} is larger than the artefact limit"));
        }
        into.write_all(&piece).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Removes the container. A busy engine may refuse while the container's state changes, so the
/// request is repeated. A missing container counts as removed.
async fn remove_container(engine: &ContainerEngine, name: &str) {
    for _ in 0..MAX_REMOVAL_TRIES {
        let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
        match engine.docker.remove_container(name, Some(options)).await {
            Err(error @ bollard::errors::Error::DockerResponseServerError { .. })
                if !super::engine::is_not_found(&error) =>
            {
                tracing::debug!(name, %error, "the engine did not remove the container");
            }
            // Also if the engine does not respond any more: the next start removes leftovers.
            _ => return,
        }
        tokio::time::sleep(REMOVAL_PAUSE).await;
    }
}

fn has_members(folder: &std::path::Path, depth: u32) -> bool {
    if std::fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty()) {
        return true;
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    depth < 8
        && entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .any(|entry| has_members(&entry.path(), depth + 1))
}
