//! A container of an engine on this host (Docker Engine, or Podman's compatible socket), measured
//! from its control group with exact end counters, however short it is.
//!
//! - [`parent_group`]: the engine creates the container's group inside one of metier's, whose
//!   counters stay when the container's group is gone.
//! - [`gate`]: the first process of the container waits while the counters are read, so that the
//!   engine's own work is not part of the run, and then execs the workload. Without the gate the
//!   figures are marked as estimated.
//! - [`engine_driver`]: the thread that drives the engine. [`container_streams`]: standard streams
//!   as for a command.
//! - [`leftover_containers`]: removes the containers of a killed measuring process. The launcher
//!   outlives that process: it ends the container, asks the engine to remove it, and removes
//!   metier's groups. The next start removes what is left even then.
//!
//! A container that cannot start becomes a record with the cause. User input is never part of a
//! line for a shell: the engine's API takes lists.

mod container_plan;
mod container_streams;
pub(crate) mod engine;
mod engine_driver;
mod gate;
mod image;
pub(crate) mod leftover_containers;
mod parent_group;
mod tar_reader;

use std::io::{Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use metier_types::{AccountingMethod, ImageUse, MissingReason, RunId};

use crate::artefacts::path_matches;
use crate::launcher::{LauncherProcess, LauncherProgram};
use crate::observer::ObserverProvision;
use crate::running_target::{FileSink, PreparedRun, RunningTarget, SignalRung, TargetOutcome, TargetReport};
use crate::spec::ContainerSpec;
use crate::stopper::SessionStopper;
use crate::target_facts::TargetFacts;
use crate::{Error, RunSpec};
use container_plan::ContainerPlan;
use engine::CgroupStrategy;
use engine_driver::{EngineDriver, EngineEvent};
use gate::{ContainerGate, GatedProcess};
use metier_linux::cgroup::{CgroupMembership, RunCgroup, baseline};
use metier_linux::kernel_file::KernelFile;
use metier_linux::process_events::ProcessRoot;
use metier_linux::signals::StopSignals;
use metier_linux::{KernelRoots, group_owner, wakeup};
use parent_group::ParentGroup;

/// Time limit from the engine's start of the container to the gate.
const GATE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of archives that are searched for artefacts; the artefacts may have 1 GiB
/// together.
const MAX_ARCHIVE_BYTES: u64 = 3 << 30;

/// The session's state that a container needs.
pub(crate) struct ContainerContext<'a> {
    pub roots: &'a KernelRoots,
    pub runtime_dir: &'a Path,
    pub program: &'a LauncherProgram,
    pub signals: &'a StopSignals,
    pub stopper: &'a SessionStopper,
}

/// Creates and starts the container up to its gate.
pub(crate) fn prepare_container(
    shop: &ContainerContext<'_>,
    spec: &RunSpec,
    container: &ContainerSpec,
    id: RunId,
    provision: &ObserverProvision,
) -> Result<PreparedRun, Error> {
    let mut plan = ContainerPlan::new(
        spec,
        container,
        id,
        provision,
        &leftover_containers::owner_labels(shop.roots, id),
    )?;
    let mut about = TargetFacts {
        method: Some(AccountingMethod::Container),
        limits: plan.describe_limits(),
        image: Some(ImageUse {
            reference: container.image.clone(),
            digest: None,
            engine: "unknown".into(),
            container: None,
            extra: Default::default(),
        }),
        ..TargetFacts::default()
    };
    let socket = engine::find_socket(container.engine.as_deref())
        .map_err(|reason| unstarted_error(&about, reason, None))?;
    let name = group_owner::group_name(shop.roots, id);
    let mut without_gate = container.without_gate.then(|| "it was asked for".to_string());
    loop {
        let driver = EngineDriver::start(socket.clone())
            .map_err(|reason| Error::System { doing: "starting the engine's thread", reason })?;
        let grouping = match wait_for_engine(shop, &driver) {
            Ok(grouping) => grouping,
            Err(StartFailure { detail, stop, .. }) => {
                driver.release();
                return Err(unstarted_error(&about, detail, stop));
            }
        };
        if let Some(source) = plan.find_absent_source().filter(|_| grouping == CgroupStrategy::Monitored) {
            let detail = format!("there is nothing at {source} that could be mounted");
            driver.release();
            return Err(unstarted_error(&about, detail, None));
        }
        let gate = match &without_gate {
            None => {
                let places = gate::gate_folders(shop.runtime_dir);
                gate::remove_leftover_gates(shop.roots, &places);
                match ContainerGate::create_in(&places, &name) {
                    Ok(gate) => Some(gate),
                    Err(error) => {
                        without_gate = Some(format!("no folder for its program ({error})"));
                        None
                    }
                }
            }
            Some(_) => None,
        };
        plan.gate = gate.as_ref().map(|gate| gate.folder.to_string_lossy().into_owned());
        let parent = parent_group::make_parent_group(&shop.roots.proc, &name, grouping);
        about.fleeting = parent.as_ref().err().cloned();
        let parent = parent.ok();
        plan.cgroup_parent = parent.as_ref().map(|parent| parent.name.clone());
        let launcher = LauncherProcess::spawn_watcher(shop.program, spec.grace)?;
        launcher.send_orders(&launcher_orders(parent.as_ref(), gate.as_ref(), &socket, &plan.name))?;
        launcher.start_watching()?;
        let group = parent.map(|parent| parent.group);
        driver.create_container(plan.clone(), group.as_ref().map(RunCgroup::folders).unwrap_or_default());
        let mut start = ContainerStart { shop, driver, gate, launcher, group, about: about.clone() };
        match start.wait_for_gate() {
            Ok((pid, waiting)) => {
                about = start.about.clone();
                about.inexact = without_gate.map(|reason| {
                    let what = format!(
                        "the figures include the engine's own start-up, because the gate was not used: {reason}"
                    );
                    MissingReason::without_fix(what)
                });
                return Ok(start.into_prepared_run(pid, waiting, about));
            }
            // Second attempt, without the gate.
            Err(StartFailure { detail, is_gate: true, .. }) if without_gate.is_none() => {
                start.abort();
                without_gate = Some(detail);
            }
            Err(StartFailure { detail, stop, .. }) => {
                about = start.about.clone();
                start.abort();
                return Err(unstarted_error(&about, detail, stop));
            }
        }
    }
}

fn unstarted_error(about: &TargetFacts, detail: String, stop: Option<i32>) -> Error {
    Error::Unstarted { detail, about: Box::new(about.clone()), stop }
}

/// Orders for the launcher: what to end, and what to remove.
fn launcher_orders(
    parent: Option<&ParentGroup>,
    gate: Option<&ContainerGate>,
    socket: &Path,
    container: &str,
) -> Vec<(u8, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt;
    let path = |order: u8, path: &Path| (order, path.as_os_str().as_bytes().to_vec());
    let mut orders: Vec<(u8, Vec<u8>)> = parent
        .into_iter()
        .flat_map(|parent| parent.group.launcher_orders())
        .filter(|(order, _)| *order != b'J')
        .map(|(order, file)| path(order, &file))
        .collect();
    if let Some(slice) = parent.and_then(|parent| parent.slice.as_ref()) {
        let (folder, bus, bytes) = slice.stop_message();
        let words = [folder.as_os_str().as_bytes(), bus.as_os_str().as_bytes(), &bytes];
        orders.push((b'S', words.join(&0)));
    }
    if let Some(gate) = gate {
        orders.extend(gate.cleanup_paths().iter().map(|file| path(b'F', file)));
        orders.push(path(b'R', &gate.folder));
    }
    // The name is a run id and needs no escaping.
    let request = format!(
        "DELETE /containers/{container}?force=true&v=true HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n"
    );
    let mut engine = socket.as_os_str().as_bytes().to_vec();
    engine.push(0);
    engine.extend(request.as_bytes());
    orders.push((b'E', engine));
    orders
}

/// Waits until the engine has reported how it creates control groups.
fn wait_for_engine(
    shop: &ContainerContext<'_>,
    driver: &EngineDriver,
) -> Result<CgroupStrategy, StartFailure> {
    let failure = |detail: String| StartFailure { detail, is_gate: false, stop: None };
    loop {
        let bell = driver.bell.as_raw_fd();
        let others = [shop.signals.descriptor(), shop.stopper.descriptor()];
        let [has_event, signal, stop] =
            wakeup::wait_readable([bell, others[0], others[1]], Duration::from_secs(1));
        if let Some(signal) = shop.stop_signal(signal, stop) {
            return Err(interrupted_failure(signal));
        }
        if !has_event {
            continue;
        }
        let event = driver.events.try_recv();
        wakeup::consume_event(&driver.bell);
        match event {
            Ok(EngineEvent::Connected { grouping }) => return Ok(grouping),
            Ok(EngineEvent::Failed(detail)) => return Err(failure(detail)),
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(failure("the engine's thread ended".into())),
        }
    }
}

impl ContainerContext<'_> {
    /// The received stop signal, if there is one.
    fn stop_signal(&self, signal: bool, stop: bool) -> Option<i32> {
        match (signal, stop) {
            (true, _) => self.signals.next().map(|came| came.signal),
            (_, true) => self.stopper.take_signal(),
            _ => None,
        }
    }
}

fn interrupted_failure(signal: i32) -> StartFailure {
    let detail = "it was interrupted before it could start".to_string();
    StartFailure { detail, is_gate: false, stop: Some(signal) }
}

/// Why a container did not reach its gate.
struct StartFailure {
    detail: String,
    /// Whether the gate may be the cause.
    is_gate: bool,
    /// The signal of a stop request that arrived meanwhile.
    stop: Option<i32>,
}

/// A container on its way to the gate.
struct ContainerStart<'a> {
    shop: &'a ContainerContext<'a>,
    driver: EngineDriver,
    gate: Option<ContainerGate>,
    launcher: LauncherProcess,
    group: Option<RunCgroup>,
    about: TargetFacts,
}

impl ContainerStart<'_> {
    /// Waits until its first process is at the gate, or runs if there is no gate.
    fn wait_for_gate(&mut self) -> Result<(u32, Option<GatedProcess>), StartFailure> {
        let mut started: Option<(u32, Instant)> = None;
        let mut came: Vec<GatedProcess> = Vec::new();
        loop {
            if let Some((pid, _)) = started {
                if let Some(at) =
                    came.iter().position(|waiting| waiting.pid == pid || self.is_in_group(waiting.pid))
                {
                    let waiting = came.swap_remove(at);
                    return Ok((waiting.pid, Some(waiting)));
                }
                match (self.gate.is_some(), pid) {
                    (true, _) => {}
                    (false, 0) => {
                        return Err(self.failure("it ended before it could be inspected".into(), false));
                    }
                    (false, _) => return Ok((pid, None)),
                }
            }
            if started.is_some_and(|(_, since)| since.elapsed() > GATE_TIMEOUT) {
                return Err(self.failure("no process reached the gate within 60 s".into(), true));
            }
            let bell = self.driver.bell.as_raw_fd();
            let gate = self.gate.as_ref().map_or(-1, ContainerGate::descriptor);
            let others = [self.shop.signals.descriptor(), self.shop.stopper.descriptor()];
            let [has_event, at_gate, signal, stop] =
                wakeup::wait_readable([bell, gate, others[0], others[1]], Duration::from_secs(1));
            if at_gate && let Some(waiting) = self.gate.as_ref().and_then(ContainerGate::accept) {
                // Other processes of this host may connect, too; only a few may wait.
                came.truncate(15);
                came.insert(0, waiting);
            }
            if let Some(signal) = self.shop.stop_signal(signal, stop) {
                return Err(interrupted_failure(signal));
            }
            if has_event {
                self.handle_engine_event(&mut started)?;
            }
        }
    }

    fn handle_engine_event(&mut self, started: &mut Option<(u32, Instant)>) -> Result<(), StartFailure> {
        let event = self.driver.events.try_recv();
        wakeup::consume_event(&self.driver.bell);
        match event {
            Ok(EngineEvent::Found { engine, image }) => {
                if let Some(about) = &mut self.about.image {
                    about.engine = engine;
                    about.digest = image.digest;
                }
                self.about.command = Some(image.command);
                self.about.working_directory = image.working_directory;
            }
            Ok(EngineEvent::Started { id, pid }) => {
                if let Some(about) = &mut self.about.image {
                    about.container = Some(id);
                }
                *started = Some((pid, Instant::now()));
            }
            Ok(EngineEvent::Failed(detail)) => {
                let is_gate = self.gate.is_some() && detail.contains(gate::CONTAINER_FOLDER);
                return Err(self.failure(detail, is_gate));
            }
            Ok(EngineEvent::Exited { code, .. }) if self.gate.is_some() => {
                return Err(self.failure(format!("it ended with code {code} before the gate"), true));
            }
            Ok(EngineEvent::Lost(detail)) => return Err(self.failure(detail, false)),
            Ok(EngineEvent::Connected { .. } | EngineEvent::Exited { .. } | EngineEvent::Gone)
            | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                return Err(self.failure("the engine's thread ended".into(), false));
            }
        }
        Ok(())
    }

    fn failure(&self, detail: String, is_gate: bool) -> StartFailure {
        StartFailure { detail, is_gate, stop: None }
    }

    /// Whether a process is in the control group that metier created for the container.
    fn is_in_group(&self, pid: u32) -> bool {
        let Some(group) = &self.group else { return false };
        let theirs = CgroupMembership::read(&self.shop.roots.proc, &pid.to_string());
        let mut pairs = group.v1.iter().map(|(account, ours)| (ours, theirs.v1.get(*account)));
        let is_in =
            |(ours, theirs): (&PathBuf, Option<&PathBuf>)| theirs.is_some_and(|t| t.starts_with(ours));
        match group.v1.is_empty() {
            true => group.v2.iter().all(|ours| is_in((ours, theirs.v2.as_ref()))),
            false => pairs.all(is_in),
        }
    }

    fn abort(self) {
        self.driver.release();
        self.launcher.release();
    }

    fn into_prepared_run(
        mut self,
        pid: u32,
        waiting: Option<GatedProcess>,
        mut about: TargetFacts,
    ) -> PreparedRun {
        let proc = &self.shop.roots.proc;
        let is_inside =
            self.group.as_mut().is_some_and(|group| parent_group::adopt_process(group, proc, pid));
        let own = CgroupMembership::read(proc, &pid.to_string());
        let mut group = match self.group.take().filter(|_| is_inside) {
            Some(group) => group,
            None => {
                let elsewhere =
                    || MissingReason::without_fix("the engine did not place it in the given control group");
                about.fleeting.get_or_insert_with(elsewhere);
                let group = parent_group::container_group(proc, pid);
                let orders =
                    group.launcher_orders().into_iter().filter(|(order, _)| matches!(order, b'P' | b'K'));
                // Best effort: otherwise the launcher only asks the engine.
                let _ = self.launcher.send_path_orders(&orders.collect::<Vec<_>>());
                group
            }
        };
        let baseline = waiting.is_some().then(|| baseline::read_baseline(&mut group));
        let pidfd = open_pidfd(pid);
        let body = RunningContainer {
            descriptor: combine_descriptors(&[
                self.driver.bell.as_raw_fd(),
                self.launcher.descriptor(),
                pidfd.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            ]),
            started_ns: crate::process_walker::process_start_ns(proc, pid),
            network: open_network_counters(proc, pid),
            driver: self.driver,
            launcher: self.launcher,
            waiting,
            pidfd,
            own,
            ended_ns: None,
            outcome: TargetOutcome::default(),
            about: about.clone(),
        };
        PreparedRun {
            body: Box::new(body),
            group: Ok(group),
            root: ProcessRoot::Processes(vec![pid]),
            about,
            baseline,
            is_fleeting: !is_inside,
            has_own_limit: true,
        }
    }
}

/// A pidfd, which becomes readable when the process ends.
fn open_pidfd(pid: u32) -> Option<OwnedFd> {
    // SAFETY: plain numbers; the descriptor is checked before it is owned.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// One descriptor that is readable if one of several is.
fn combine_descriptors(descriptors: &[RawFd]) -> Option<OwnedFd> {
    // SAFETY: the descriptor is checked before it is owned; each entry is valid for its call.
    unsafe {
        let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let all = OwnedFd::from_raw_fd(fd);
        for descriptor in descriptors.iter().filter(|descriptor| **descriptor >= 0) {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: *descriptor as u64 };
            libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, *descriptor, &mut event);
        }
        Some(all)
    }
}

/// The counters of another network namespace. The open file keeps the namespace alive after its
/// last process.
fn open_network_counters(proc: &Path, pid: u32) -> Option<KernelFile> {
    let namespace = |process: &str| std::fs::read_link(proc.join(process).join("ns/net")).ok();
    let theirs = namespace(&pid.to_string())?;
    (Some(theirs) != namespace("self"))
        .then(|| KernelFile::open(proc.join(pid.to_string()).join("net/dev")))?
}

/// A container between its gate and its end.
struct RunningContainer {
    driver: EngineDriver,
    launcher: LauncherProcess,
    waiting: Option<GatedProcess>,
    pidfd: Option<OwnedFd>,
    /// Combines the driver's event descriptor, the launcher and the main process.
    descriptor: Option<OwnedFd>,
    started_ns: Option<u64>,
    network: Option<KernelFile>,
    /// The container's own control groups.
    own: CgroupMembership,
    ended_ns: Option<u64>,
    outcome: TargetOutcome,
    about: TargetFacts,
}

impl RunningContainer {
    /// The main process has just ended: reads the state that vanishes with the container.
    fn read_final_counters(&mut self) {
        self.ended_ns = Some(wakeup::monotonic_ns());
        self.outcome.oom_kills = parent_group::read_oom_kills(&self.own);
        self.outcome.network = self
            .network
            .as_mut()
            .and_then(|held| crate::process_walker::own_network_bytes(held.read_text()?));
        if let (Some(pidfd), Some(all)) = (self.pidfd.take(), &self.descriptor) {
            // SAFETY: both are open descriptors; the kernel ignores the entry on removal.
            unsafe {
                let none = std::ptr::null_mut();
                libc::epoll_ctl(all.as_raw_fd(), libc::EPOLL_CTL_DEL, pidfd.as_raw_fd(), none);
            }
        }
    }
}

impl RunningTarget for RunningContainer {
    fn start(&mut self) -> Result<u64, Error> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(self.started_ns.unwrap_or_else(wakeup::monotonic_ns));
        };
        waiting.start_workload().map_err(|stopped| {
            let program = self.about.command.iter().flatten().next().cloned().unwrap_or_default();
            let image = self.about.image.as_ref().map(|image| image.reference.clone()).unwrap_or_default();
            let detail = match stopped {
                gate::GateError::Exec(error) => format!(
                    "{program} cannot be started in {image}: {error}; is it there, and a program for this machine?"
                ),
                gate::GateError::Gone => format!("the container of {image} ended before {program} was started in it"),
            };
            unstarted_error(&self.about, detail, None)
        })
    }

    fn descriptor(&self) -> RawFd {
        self.descriptor.as_ref().map_or_else(|| self.driver.bell.as_raw_fd(), AsRawFd::as_raw_fd)
    }

    fn next_report(&mut self) -> TargetReport {
        let pidfd = self.pidfd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let descriptors = [pidfd, self.driver.bell.as_raw_fd(), self.launcher.descriptor()];
        let [ended, flag, launcher] = wakeup::wait_readable(descriptors, Duration::ZERO);
        if ended {
            self.read_final_counters();
            return TargetReport::Ending;
        }
        if !flag {
            return if launcher { self.launcher.next_report() } else { TargetReport::Nothing };
        }
        let message = self.driver.events.try_recv();
        wakeup::consume_event(&self.driver.bell);
        let now = wakeup::monotonic_ns();
        match message {
            Ok(EngineEvent::Exited { code, oom }) => {
                if self.ended_ns.is_none() {
                    self.read_final_counters();
                }
                self.outcome.oom = oom || self.outcome.oom_kills.is_some_and(|kills| kills > 0);
                TargetReport::MainEnded {
                    status: (code as i32 & 0xff) << 8,
                    time_ns: self.ended_ns.unwrap_or(now),
                }
            }
            Ok(EngineEvent::Lost(detail)) => {
                self.outcome.lost = true;
                self.outcome.detail = Some(detail);
                // Without the engine no other process would end it.
                self.launcher.escalate(SignalRung::Kill);
                TargetReport::Nothing
            }
            Ok(EngineEvent::Gone) => TargetReport::Gone { stuck: 0, time_ns: now, own_cpu_ns: 0, used: None },
            Ok(
                EngineEvent::Connected { .. }
                | EngineEvent::Found { .. }
                | EngineEvent::Started { .. }
                | EngineEvent::Failed(_),
            ) => TargetReport::Nothing,
            Err(TryRecvError::Empty) => TargetReport::Nothing,
            Err(TryRecvError::Disconnected) => TargetReport::Lost,
        }
    }

    fn escalate(&mut self, from: SignalRung) {
        self.launcher.escalate(from);
    }

    fn receives_terminal_signals(&self) -> bool {
        false
    }

    fn take_outcome(&mut self) -> TargetOutcome {
        std::mem::take(&mut self.outcome)
    }

    fn export_files(&mut self, patterns: &[String], sink: &mut FileSink<'_>) -> Option<Result<(), String>> {
        let base = self.about.working_directory.clone().unwrap_or_else(|| "/".into());
        for pattern in patterns {
            let whole = Path::new(&base).join(pattern).to_string_lossy().into_owned();
            if let Err(reason) = self.export_matching_files(&whole, sink) {
                return Some(Err(format!("files that match {pattern} could not be exported: {reason}")));
            }
        }
        Some(Ok(()))
    }

    fn release(self: Box<Self>) {
        self.driver.release();
        self.launcher.release();
    }
}

impl RunningContainer {
    /// Emits files that match an absolute pattern, from an archive of the path before the first
    /// wildcard.
    fn export_matching_files(&mut self, pattern: &str, sink: &mut FileSink<'_>) -> Result<(), String> {
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
        let fixed = parts.iter().take_while(|part| !part.contains(['*', '?'])).count();
        let root = format!("/{}", parts[..fixed].join("/"));
        if root == "/" {
            return Err("it begins with a wildcard; name a folder first".into());
        }
        let above = Path::new(&root).parent().unwrap_or(Path::new("/")).to_path_buf();
        let mut spool = unnamed_tempfile().map_err(|error| error.to_string())?;
        let copy = spool.try_clone().map_err(|error| error.to_string())?;
        self.driver.download_archive(&root, copy, MAX_ARCHIVE_BYTES)?;
        spool.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
        let mut found = false;
        let mut reader = std::io::BufReader::new(spool);
        let read = tar_reader::for_each_file(&mut reader, &mut |name, content| {
            let path = above.join(name).to_string_lossy().into_owned();
            if !path_matches(pattern, &path) {
                return true;
            }
            found = true;
            sink(&path, content)
        });
        read.map_err(|error| error.to_string())?;
        if found { Ok(()) } else { Err("there are none".into()) }
    }
}

/// An unlinked file, deleted when it is closed.
fn unnamed_tempfile() -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600);
    options.open(std::env::temp_dir())
}
