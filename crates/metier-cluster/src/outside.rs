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

use metier_linux::Roots;
use metier_linux::cgroup::GroupFolders;
use metier_linux::cgroup::{Group, Place, Totals};
use metier_measure::runner::foreign::{Foreign, Said, Voice};
use metier_measure::runner::joined::Joined;
use metier_measure::running_target::{Outcome, Rung};
use metier_measure::{Session, Stop, TargetFacts};
use metier_types::{Missing, RunId};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Error;
use crate::brought::Way;
use crate::cluster::Cluster;
use crate::fetched::Back;
use crate::follow::{AGAIN, Seen, why_never};
use crate::report::Report;
use crate::state::{self, State};
use crate::{leftovers, node};

/// How often groups are looked for between the choice of a node and the start.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often the node of a pod on another machine is looked at.
const NODE_EVERY: Duration = Duration::from_secs(3);
/// How often in a row it must not be ready before it counts as gone away.
const NODE_TRIES: u32 = 4;

/// How long a node may take to tell of a container's end.
const TOLD_WITHIN: Duration = Duration::from_secs(15);

/// What was found of a pod on this machine.
#[derive(Default)]
pub(crate) struct Found {
    folders: Option<GroupFolders>,
    pid: Option<u32>,
    baseline: Option<Totals>,
    started_ns: Option<u64>,
}

/// A pod that is to start.
pub(crate) enum PodStart {
    Joined(Box<Joined>),
    /// It runs as its image is; this is what was found of it on this machine.
    Alone(Box<Found>),
    /// It will not, because.
    Never(String),
    /// Somebody asked us to stop first.
    Stopped(Stop),
}

/// What the launcher in a pod sees to by itself.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub timeout: Option<Duration>,
    pub grace: Duration,
}

impl Limits {
    /// How long it may take to end what began not later than this, if it is about to.
    fn left_to_the_launcher(&self, started: Instant) -> Duration {
        match self.timeout {
            Some(limit) if started.elapsed() >= limit => self.grace * 2 + TOLD_WITHIN,
            _ => Duration::ZERO,
        }
    }
}

/// Waits until the pod's command runs.
///
/// Where the launcher in it counts by itself, nothing of it is looked for here.
pub(crate) fn wait(
    session: &Session,
    seen: &watch::Receiver<Seen>,
    within: Duration,
    is_carried: bool,
    dataset: Option<&Way>,
) -> PodStart {
    let until = Instant::now() + within;
    let roots = session.options().roots.clone();
    let mut look: Option<Look> = None;
    loop {
        // No descriptor to wait for: the time alone.
        let (_, stop) = session.wait_for(-1, LOOK_EVERY);
        if let Some(stop) = stop {
            return PodStart::Stopped(stop);
        }
        if let Some(look) = &mut look {
            if look.is_started() {
                return PodStart::Alone(Box::new(std::mem::take(&mut look.found)));
            }
        } else if let Some(uid) = seen.borrow().pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref())
            && !is_carried
        {
            look = Look::at(&roots, uid);
        }
        let now = seen.borrow().clone();
        match now.state() {
            // Over already, or on another machine: what the cluster says is all there is.
            State::Running => return PodStart::Alone(Box::new(look.map(|l| l.found).unwrap_or_default())),
            State::Ended(ended) if !ended.never_started() => {
                return PodStart::Alone(Box::new(look.map(|l| l.found).unwrap_or_default()));
            }
            _ => {}
        }
        if let Some(Err(why)) = dataset.and_then(|way| way.borrow().clone()) {
            return PodStart::Never(why);
        }
        if let Some(why) = why_never(&now, until) {
            return PodStart::Never(why);
        }
    }
}

/// Measures what was found, as somebody else's run.
#[allow(clippy::too_many_arguments, reason = "a pod has this many sides")]
pub(crate) fn measure(
    found: Found,
    carried: Option<Limits>,
    mut about: TargetFacts,
    runtime: &Runtime,
    cluster: Cluster,
    id: RunId,
    seen: watch::Receiver<Seen>,
    back: Result<Back, String>,
) -> Result<(Foreign, JoinHandle<()>), Error> {
    let (mut foreign, voice) = Foreign::new()?;
    if let Some(folders) = found.folders {
        foreign.group(folders);
        about.inexact = Some(Missing::fixable(
            "the image's own entrypoint is not known, so the launcher could not be put before it: what the runtime spent at the start is subtracted as it was last read",
            "give the entrypoint in the run file",
        ));
    }
    if let Some(pid) = found.pid {
        foreign.found(pid);
    }
    if let Some(started) = found.started_ns {
        foreign.started_at(started);
    }
    foreign.baseline = found.baseline;
    about.method = Some(metier_types::Method::Container);
    foreign.about = about;
    let handle = runtime.handle().clone();
    let started = Instant::now();
    let asked = cluster.clone();
    let busy = back.as_ref().ok().map(|back| back.is_busy.clone());
    foreign.on_files(Box::new(move |sink| match &back {
        Ok(back) => back.hand_over(sink),
        Err(why) => Err(format!("files of the pod could not be fetched: {why}")),
    }));
    foreign.on_climb(Box::new(move |rung| {
        let cluster = cluster.clone();
        let busy = busy.clone();
        // The launcher in the pod ends it at the time limit, and can tell of it only if it is left to.
        let wait = carried.map_or(Duration::ZERO, |limits| limits.left_to_the_launcher(started));
        handle.spawn(async move {
            if rung != Rung::Kill {
                tokio::time::sleep(wait).await;
                // It is over already, and what it left is on its way.
                if let Some(mut busy) = busy {
                    let _ = busy.wait_for(|is_busy| !is_busy).await;
                }
            }
            // First, or the Job would make another pod in place of the one that goes.
            if let Err(error) = leftovers::delete(&cluster, &crate::job::name(id)).await {
                tracing::warn!(%error, "could not remove the Job of the pod that is to end");
            }
            let grace = if rung == Rung::Kill { Some(0) } else { None };
            if let Err(error) = leftovers::end_pods(&cluster, id, grace).await {
                tracing::warn!(%error, "could not end the pod");
            }
        });
    }));
    let watching = runtime.spawn(speak(voice, found.pid, carried.is_some(), seen, asked));
    Ok((foreign, watching))
}

/// Says what happens to the pod: the end of its process as seen here, its status as the cluster tells it.
async fn speak(
    voice: Voice,
    pid: Option<u32>,
    is_carried: bool,
    mut seen: watch::Receiver<Seen>,
    cluster: Cluster,
) {
    let mut ended_ns = None;
    if let Some(pid) = pid {
        let folder = PathBuf::from(format!("/proc/{pid}/cgroup"));
        let start = fs::read_to_string(&folder).ok();
        let is_over =
            || seen.borrow().is_gone || matches!(seen.borrow().state(), State::Ended(_) | State::Gone { .. });
        while start.is_some() && fs::read_to_string(&folder).ok() == start && !is_over() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ended_ns = Some(metier_linux::wake::monotonic_ns());
    }
    let last = match over(&mut seen, &cluster, pid.is_none()).await {
        Ok(last) => last,
        Err(why) => {
            voice.say(Said::Gone(Outcome { lost: true, detail: Some(why), ..Outcome::default() }));
            return;
        }
    };
    let outcome = match last.state() {
        State::Ended(ended) => {
            let report = if is_carried { Report::of(&ended).ok() } else { None };
            // A code above 128 may be the command's own; only the launcher knows.
            let status = report.as_ref().and_then(Report::status).unwrap_or((ended.code & 0xff) << 8);
            voice.say(Said::MainEnded { status, time_ns: ended_ns });
            let oom_kills = report.as_ref().and_then(Report::oom_kills);
            let oom = ended.out_of_memory() || oom_kills.is_some_and(|kills| kills > 0);
            Outcome { oom, oom_kills, ..Outcome::default() }
        }
        State::Gone { why } => Outcome { lost: true, detail: Some(why), ..Outcome::default() },
        _ => Outcome { lost: true, ..Outcome::default() },
    };
    voice.say(Said::Gone(outcome));
    tokio::time::sleep(AGAIN).await;
}

/// Waits until the pod is over. Where it is on another machine, its node is looked at, too: a pod whose node has gone
/// away is never over, as far as the cluster knows. The error says what happened to the node.
async fn over(
    seen: &mut watch::Receiver<Seen>,
    cluster: &Cluster,
    is_elsewhere: bool,
) -> Result<Seen, String> {
    let mut in_a_row = 0;
    loop {
        let is_over =
            |seen: &Seen| seen.is_gone || matches!(seen.state(), State::Ended(_) | State::Gone { .. });
        match tokio::time::timeout(NODE_EVERY, seen.wait_for(is_over)).await {
            Ok(Ok(last)) => return Ok(last.clone()),
            Ok(Err(_)) => return Err("nobody watches its pod any more".into()),
            Err(_) if !is_elsewhere => continue,
            Err(_) => {}
        }
        let name = seen.borrow().pod.as_ref().and_then(state::node).map(str::to_string);
        let Some(name) = name else { continue };
        // An API server that does not answer says nothing about the node.
        let Ok(found) = cluster.node(&name).await else { continue };
        match found.as_ref().map(node::not_ready) {
            None => return Err(format!("its node {name} is gone from the cluster")),
            Some(Some(why)) => {
                in_a_row += 1;
                if in_a_row >= NODE_TRIES {
                    return Err(format!("its node {name} went away: {why}"));
                }
            }
            Some(None) => in_a_row = 0,
        }
    }
}

/// Looks for the run's container in the group of its pod.
struct Look {
    folder: PathBuf,
    group: Group,
    roots: Roots,
    first: Option<String>,
    found: Found,
}

impl Look {
    /// Finds the group of a pod.
    fn at(roots: &Roots, uid: &str) -> Option<Self> {
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
            let place = Place::parse(&mounts, &text);
            let folder = place.v1.get("cpuacct").or(place.v2.as_ref())?.clone();
            let folders = GroupFolders { v2: place.v2.filter(|folder| folder.exists()), v1: place.v1 };
            folder.exists().then(|| Self {
                folder,
                group: Group::of(folders.clone()),
                roots: roots.clone(),
                first: None,
                found: Found { folders: Some(folders), ..Found::default() },
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
            self.found.baseline = Some(Totals::read(&self.group));
            return false;
        }
        self.found.pid = Some(pid);
        self.found.started_ns = Some(metier_linux::wake::monotonic_ns());
        self.found.baseline.get_or_insert_with(|| Totals::read(&self.group));
        true
    }
}
