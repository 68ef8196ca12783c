//! Measures a pod from outside, without the launcher as its parent: the image's entrypoint is
//! unknown, or the pod is on another machine. On this machine the cgroup of the pod is read.
//!
//! The cgroup of the pod exists before its containers and slightly longer. The first group in it
//! belongs to the pause container, which holds the pod's namespaces; the second is the run's. The
//! last counters before the command's first instruction are subtracted as the runtime's own use.
//! That is exact to about a millisecond, and the record marks it `estimated`. On another machine
//! only times, exit, log, image and the launcher's report, if any, are available; the record lists
//! what is missing.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use metier_linux::KernelRoots;
use metier_linux::cgroup::GroupFolders;
use metier_linux::cgroup::{CgroupMembership, CgroupTotals, RunCgroup};
use metier_measure::runner::foreign_run::{ForeignEvent, ForeignReporter, ForeignRun};
use metier_measure::runner::joined_container::JoinedContainer;
use metier_measure::running_target::{SignalRung, TargetOutcome};
use metier_measure::{BatchStop, MeasureSession, TargetFacts};
use metier_types::{MissingReason, RunId};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Error;
use crate::artefact_download::ArtefactDownload;
use crate::cluster_client::ClusterClient;
use crate::dataset_upload::UploadStatus;
use crate::launcher_report::LauncherReport;
use crate::pod_state::{self, PodState};
use crate::pod_watch::{ObservedPod, RETRY_DELAY, start_failure};
use crate::{leftovers, node_choice};

/// Interval between cgroup checks before the start.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Interval between checks of the node of a pod on another machine.
const NODE_CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// Consecutive failed checks after which a node counts as lost.
const MAX_NODE_FAILURES: u32 = 4;

/// Time limit for a node to report the end of a container.
const END_REPORT_TIMEOUT: Duration = Duration::from_secs(15);

/// Cgroup, process and counters of a pod on this machine.
#[derive(Default)]
pub(crate) struct LocalPodState {
    folders: Option<GroupFolders>,
    pid: Option<u32>,
    baseline: Option<CgroupTotals>,
    started_ns: Option<u64>,
}

/// Result of waiting for the start of a pod.
pub(crate) enum PodStart {
    Joined(Box<JoinedContainer>),
    /// It runs without a connected launcher, with its state on this machine.
    WithoutLauncher(Box<LocalPodState>),
    /// It will not start, with the reason.
    NotStarted(String),
    /// A stop was requested before the start.
    Stopped(BatchStop),
}

/// Limits that the launcher in a pod enforces itself.
#[derive(Clone, Copy)]
pub(crate) struct LauncherLimits {
    pub timeout: Option<Duration>,
    pub grace: Duration,
}

impl LauncherLimits {
    /// Time to give the launcher for ending the command, if its time limit has passed.
    fn launcher_grace(&self, started: Instant) -> Duration {
        match self.timeout {
            Some(limit) if started.elapsed() >= limit => self.grace * 2 + END_REPORT_TIMEOUT,
            _ => Duration::ZERO,
        }
    }
}

/// Waits until the pod's command runs.
///
/// If the launcher in the pod measures by itself, no cgroup is searched on this machine.
pub(crate) fn wait_for_start(
    session: &MeasureSession,
    seen: &watch::Receiver<ObservedPod>,
    within: Duration,
    is_carried: bool,
    dataset: Option<&UploadStatus>,
) -> PodStart {
    let until = Instant::now() + within;
    let roots = session.options().roots.clone();
    let mut look: Option<PodGroupSearch> = None;
    loop {
        // There is no descriptor to wait for; only the interval applies.
        let (_, stop) = session.wait_for_descriptor(-1, POLL_INTERVAL);
        if let Some(stop) = stop {
            return PodStart::Stopped(stop);
        }
        if let Some(look) = &mut look {
            if look.is_started() {
                return PodStart::WithoutLauncher(Box::new(std::mem::take(&mut look.found)));
            }
        } else if let Some(uid) = seen.borrow().pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref())
            && !is_carried
        {
            look = PodGroupSearch::find_group(&roots, uid);
        }
        let now = seen.borrow().clone();
        match now.state() {
            // Over already, or on another machine: only the cluster's status is available.
            PodState::Running => {
                return PodStart::WithoutLauncher(Box::new(look.map(|l| l.found).unwrap_or_default()));
            }
            PodState::Ended(ended) if !ended.is_unstarted() => {
                return PodStart::WithoutLauncher(Box::new(look.map(|l| l.found).unwrap_or_default()));
            }
            _ => {}
        }
        if let Some(Err(why)) = dataset.and_then(|way| way.borrow().clone()) {
            return PodStart::NotStarted(why);
        }
        if let Some(why) = start_failure(&now, until) {
            return PodStart::NotStarted(why);
        }
    }
}

/// Measures the pod as a foreign run, which another program started.
#[allow(clippy::too_many_arguments, reason = "all of these describe one pod")]
pub(crate) fn measure_foreign(
    found: LocalPodState,
    carried: Option<LauncherLimits>,
    mut about: TargetFacts,
    runtime: &Runtime,
    cluster: ClusterClient,
    id: RunId,
    seen: watch::Receiver<ObservedPod>,
    back: Result<ArtefactDownload, String>,
) -> Result<(ForeignRun, JoinHandle<()>), Error> {
    let (mut foreign, voice) = ForeignRun::new()?;
    if let Some(folders) = found.folders {
        foreign.set_group(folders);
        about.inexact = Some(MissingReason::with_fix(
            "the image's own entrypoint is not known, so the launcher could not be put before it: what the runtime spent at the start is subtracted as it was last read",
            "give the entrypoint in the run file",
        ));
    }
    if let Some(pid) = found.pid {
        foreign.attach_process(pid);
    }
    if let Some(started) = found.started_ns {
        foreign.set_start(started);
    }
    foreign.baseline = found.baseline;
    about.method = Some(metier_types::AccountingMethod::Container);
    foreign.about = about;
    let handle = runtime.handle().clone();
    let started = Instant::now();
    let asked = cluster.clone();
    let busy = back.as_ref().ok().map(|back| back.is_busy.clone());
    foreign.on_export_files(Box::new(move |sink| match &back {
        Ok(back) => back.pass_files(sink),
        Err(why) => Err(format!("files of the pod could not be fetched: {why}")),
    }));
    foreign.on_stop_request(Box::new(move |rung| {
        let cluster = cluster.clone();
        let busy = busy.clone();
        // The launcher in the pod enforces the time limit itself; an early stop would lose its
        // report.
        let wait = carried.map_or(Duration::ZERO, |limits| limits.launcher_grace(started));
        handle.spawn(async move {
            if rung != SignalRung::Kill {
                tokio::time::sleep(wait).await;
                // The command is over and its files are being downloaded.
                if let Some(mut busy) = busy {
                    let _ = busy.wait_for(|is_busy| !is_busy).await;
                }
            }
            // The Job goes first, or it would create a replacement pod.
            if let Err(error) = leftovers::delete_job(&cluster, &crate::job::job_name(id)).await {
                tracing::warn!(%error, "could not remove the Job of the pod that is to end");
            }
            let grace = if rung == SignalRung::Kill { Some(0) } else { None };
            if let Err(error) = leftovers::end_pods(&cluster, id, grace).await {
                tracing::warn!(%error, "could not end the pod");
            }
        });
    }));
    let watching = runtime.spawn(report_pod_end(voice, found.pid, carried.is_some(), seen, asked));
    Ok((foreign, watching))
}

/// Reports the end of the pod: from its local process and from its status in the cluster.
async fn report_pod_end(
    voice: ForeignReporter,
    pid: Option<u32>,
    is_carried: bool,
    mut seen: watch::Receiver<ObservedPod>,
    cluster: ClusterClient,
) {
    let mut ended_ns = None;
    if let Some(pid) = pid {
        let folder = PathBuf::from(format!("/proc/{pid}/cgroup"));
        let start = fs::read_to_string(&folder).ok();
        let is_over = || {
            seen.borrow().is_gone
                || matches!(seen.borrow().state(), PodState::Ended(_) | PodState::Gone { .. })
        };
        while start.is_some() && fs::read_to_string(&folder).ok() == start && !is_over() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ended_ns = Some(metier_linux::wakeup::monotonic_ns());
    }
    let last = match wait_until_over(&mut seen, &cluster, pid.is_none()).await {
        Ok(last) => last,
        Err(why) => {
            voice.send_event(ForeignEvent::Gone(TargetOutcome {
                lost: true,
                detail: Some(why),
                ..TargetOutcome::default()
            }));
            return;
        }
    };
    let outcome = match last.state() {
        PodState::Ended(ended) => {
            let report = if is_carried { LauncherReport::parse(&ended).ok() } else { None };
            // A code above 128 may be the command's own; only the launcher's report distinguishes
            // it.
            let status = report.as_ref().and_then(LauncherReport::status).unwrap_or((ended.code & 0xff) << 8);
            voice.send_event(ForeignEvent::MainEnded { status, time_ns: ended_ns });
            let oom_kills = report.as_ref().and_then(LauncherReport::oom_kills);
            let oom = ended.is_out_of_memory() || oom_kills.is_some_and(|kills| kills > 0);
            TargetOutcome { oom, oom_kills, ..TargetOutcome::default() }
        }
        PodState::Gone { why } => TargetOutcome { lost: true, detail: Some(why), ..TargetOutcome::default() },
        _ => TargetOutcome { lost: true, ..TargetOutcome::default() },
    };
    voice.send_event(ForeignEvent::Gone(outcome));
    tokio::time::sleep(RETRY_DELAY).await;
}

/// Waits until the pod is over. For another machine the node is checked too, since the cluster
/// never reports the end of a pod on a lost node. The error describes the state of the node.
async fn wait_until_over(
    seen: &mut watch::Receiver<ObservedPod>,
    cluster: &ClusterClient,
    is_elsewhere: bool,
) -> Result<ObservedPod, String> {
    let mut in_a_row = 0;
    loop {
        let is_over = |seen: &ObservedPod| {
            seen.is_gone || matches!(seen.state(), PodState::Ended(_) | PodState::Gone { .. })
        };
        match tokio::time::timeout(NODE_CHECK_INTERVAL, seen.wait_for(is_over)).await {
            Ok(Ok(last)) => return Ok(last.clone()),
            Ok(Err(_)) => return Err("the watch of its pod ended".into()),
            Err(_) if !is_elsewhere => continue,
            Err(_) => {}
        }
        let name = seen.borrow().pod.as_ref().and_then(pod_state::pod_node).map(str::to_string);
        let Some(name) = name else { continue };
        // A failed request gives no information about the node.
        let Ok(found) = cluster.find_node(&name).await else { continue };
        match found.as_ref().map(node_choice::not_ready_reason) {
            None => return Err(format!("its node {name} is gone from the cluster")),
            Some(Some(why)) => {
                in_a_row += 1;
                if in_a_row >= MAX_NODE_FAILURES {
                    return Err(format!("its node {name} went away: {why}"));
                }
            }
            Some(None) => in_a_row = 0,
        }
    }
}

/// Searches the pod's cgroup for the run's container.
struct PodGroupSearch {
    folder: PathBuf,
    group: RunCgroup,
    roots: KernelRoots,
    first: Option<String>,
    found: LocalPodState,
}

impl PodGroupSearch {
    /// Finds the cgroup of a pod.
    fn find_group(roots: &KernelRoots, uid: &str) -> Option<Self> {
        let mounts = fs::read_to_string(roots.proc.join("self/mountinfo")).ok()?;
        let other = uid.replace('-', "_");
        let paths = [
            format!("/kubepods/pod{uid}"),
            format!("/kubepods/burstable/pod{uid}"),
            format!("/kubepods/besteffort/pod{uid}"),
            format!("/kubepods.slice/kubepods-pod{other}.slice"),
            format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{other}.slice"),
            format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{other}.slice"),
        ];
        paths.iter().find_map(|path| {
            let text = format!("3:cpuacct:{path}\n2:memory:{path}\n1:cpu:{path}\n0::{path}\n");
            let place = CgroupMembership::parse(&mounts, &text);
            let folder = place.v1.get("cpuacct").or(place.v2.as_ref())?.clone();
            let folders = GroupFolders { v2: place.v2.filter(|folder| folder.exists()), v1: place.v1 };
            folder.exists().then(|| Self {
                folder,
                group: RunCgroup::from_existing(folders.clone()),
                roots: roots.clone(),
                first: None,
                found: LocalPodState { folders: Some(folders), ..LocalPodState::default() },
            })
        })
    }

    /// Checks again; true when the command's own program runs.
    fn is_started(&mut self) -> bool {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let first = self.first.get_or_insert_with(|| names.first().cloned().unwrap_or_default()).clone();
        if first.is_empty() {
            self.first = None;
            return false;
        }
        let Some(own) = names.into_iter().find(|name| *name != first) else { return false };
        let text = fs::read_to_string(self.folder.join(own).join("cgroup.procs")).unwrap_or_default();
        let Some(pid) = text.lines().next().and_then(|line| line.parse::<u32>().ok()) else { return false };
        let program =
            fs::read_to_string(self.roots.proc.join(pid.to_string()).join("comm")).unwrap_or_default();
        // runc, crun, youki and conmon have these process names until they exec the command.
        let is_runtime =
            ["runc", "crun", "youki", "conmon", "exe"].iter().any(|name| program.starts_with(name));
        if is_runtime || program.is_empty() {
            self.found.baseline = Some(CgroupTotals::read(&self.group));
            return false;
        }
        self.found.pid = Some(pid);
        self.found.started_ns = Some(metier_linux::wakeup::monotonic_ns());
        self.found.baseline.get_or_insert_with(|| CgroupTotals::read(&self.group));
        true
    }
}
