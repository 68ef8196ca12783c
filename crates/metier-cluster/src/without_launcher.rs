//! A pod that runs as its image is, without our launcher: its entrypoint is not known, so nothing can be put before
//! it. Where it is on this machine, the control group of the pod is read from outside.
//!
//! The group of the pod is there before its containers and a moment longer. The first group that appears in it is that
//! of the container that holds the pod's namespaces; the second is the run's. What the runtime spent before the
//! command's first instruction is subtracted as it was last read before that, so it is right to about a millisecond,
//! and the record says `estimated`. Where the run is on another machine, its times, its exit, its log and its image are
//! known, and what the launcher in it says at the end, if there is one; the record says what is missing.

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

/// How often groups are looked for between the choice of a node and the start.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// How often the node of a pod on another machine is looked at.
const NODE_CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// How often in a row it must not be ready before it counts as gone away.
const MAX_NODE_FAILURES: u32 = 4;

/// How long a node may take to tell of a container's end.
const END_REPORT_TIMEOUT: Duration = Duration::from_secs(15);

/// What was found of a pod on this machine.
#[derive(Default)]
pub(crate) struct LocalPodState {
    folders: Option<GroupFolders>,
    pid: Option<u32>,
    baseline: Option<CgroupTotals>,
    started_ns: Option<u64>,
}

/// A pod that is to start.
pub(crate) enum PodStart {
    Joined(Box<JoinedContainer>),
    /// It runs as its image is; this is what was found of it on this machine.
    WithoutLauncher(Box<LocalPodState>),
    /// It will not, because.
    NotStarted(String),
    /// Somebody asked us to stop first.
    Stopped(BatchStop),
}

/// What the launcher in a pod sees to by itself.
#[derive(Clone, Copy)]
pub(crate) struct LauncherLimits {
    pub timeout: Option<Duration>,
    pub grace: Duration,
}

impl LauncherLimits {
    /// How long it may take to end what began not later than this, if it is about to.
    fn launcher_grace(&self, started: Instant) -> Duration {
        match self.timeout {
            Some(limit) if started.elapsed() >= limit => self.grace * 2 + END_REPORT_TIMEOUT,
            _ => Duration::ZERO,
        }
    }
}

/// Waits until the pod's command runs.
///
/// Where the launcher in it counts by itself, nothing of it is looked for here.
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
        // No descriptor to wait for: the time alone.
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
            // Over already, or on another machine: what the cluster says is all there is.
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

/// Measures what was found, as somebody else's run.
#[allow(clippy::too_many_arguments, reason = "a pod has this many sides")]
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
        // The launcher in the pod ends it at the time limit, and can tell of it only if it is left to.
        let wait = carried.map_or(Duration::ZERO, |limits| limits.launcher_grace(started));
        handle.spawn(async move {
            if rung != SignalRung::Kill {
                tokio::time::sleep(wait).await;
                // It is over already, and what it left is on its way.
                if let Some(mut busy) = busy {
                    let _ = busy.wait_for(|is_busy| !is_busy).await;
                }
            }
            // First, or the Job would make another pod in place of the one that goes.
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

/// Says what happens to the pod: the end of its process as seen here, its status as the cluster tells it.
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
            // A code above 128 may be the command's own; only the launcher knows.
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

/// Waits until the pod is over. Where it is on another machine, its node is looked at, too: a pod whose node has gone
/// away is never over, as far as the cluster knows. The error says what happened to the node.
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
            Ok(Err(_)) => return Err("nobody watches its pod any more".into()),
            Err(_) if !is_elsewhere => continue,
            Err(_) => {}
        }
        let name = seen.borrow().pod.as_ref().and_then(pod_state::pod_node).map(str::to_string);
        let Some(name) = name else { continue };
        // An API server that does not answer says nothing about the node.
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

/// Looks for the run's container in the group of its pod.
struct PodGroupSearch {
    folder: PathBuf,
    group: RunCgroup,
    roots: KernelRoots,
    first: Option<String>,
    found: LocalPodState,
}

impl PodGroupSearch {
    /// Finds the group of a pod.
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

    /// Looks once more; true when the command's own program runs.
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
        // runc, crun, youki and conmon call themselves so until they become the command.
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
