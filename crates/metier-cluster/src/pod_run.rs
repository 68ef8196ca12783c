//! One run as a pod, from the first request to the cluster to the last removed object.
//!
//! A runtime with one thread talks to the cluster; the session's loop watches the run in the
//! calling thread. Invalid requests fail before any object is created. Later failures give a record
//! with the cause `unstarted` or `lost` and a reason.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::api::PostParams;
use metier_measure::TargetFacts;
use metier_measure::app::listener::CONTAINER_FOLDER;
use metier_measure::app::remote_app;
use metier_measure::observer::{ObserverProvision, RunObserver};
use metier_measure::runner::joined_container::{JoinedContainer, LauncherEndpoint};
use metier_measure::spec::{PodSpec, RunTarget};
use metier_measure::{FinishedRun, MeasureSession, RunRecorder, RunSpec};
use metier_types::{ImageUse, MissingReason, PodRef, RunId};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::artefact_download::{self, ArtefactDownload};
use crate::cluster_client::ClusterClient;
use crate::dataset_upload;
use crate::job::LauncherMount;
use crate::node_choice::{self, PodLocation};
use crate::pod_end::{PodEndObserver, UsageReporter};
use crate::pod_state;
use crate::pod_watch::{self, LogEndMark, ObservedPod, PodLog, start_failure};
use crate::remote_app::RemoteAppObserver;
use crate::transfer::{DatasetTransfer, PodTransfer};
use crate::without_launcher::PodStart;
use crate::{Error, job, job_lease, job_ledger, launcher_mount, leftovers, without_launcher};

/// Default time limit for the start of a pod.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval between checks of a pod that has not started.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a pod and measures it.
pub fn run_pod(
    session: &mut MeasureSession,
    spec: &RunSpec,
    recorder: &mut dyn RunRecorder,
) -> Result<FinishedRun, Error> {
    run_pod_with(session, spec, recorder, &mut [])
}

/// The same, with observers in addition to those of the specification.
pub fn run_pod_with(
    session: &mut MeasureSession,
    spec: &RunSpec,
    recorder: &mut dyn RunRecorder,
    observers: &mut [&mut dyn RunObserver],
) -> Result<FinishedRun, Error> {
    spec.validate()?;
    let RunTarget::Pod(pod) = &spec.target else {
        return Err(Error::Spec { field: "target", got: spec.target.words().join(" "), want: "a pod" });
    };
    let id = spec.id.unwrap_or_else(RunId::new);
    let spec = RunSpec { id: Some(id), ..spec.clone() };
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("metier-cluster")
        .enable_all()
        .build()
        .map_err(|reason| Error::File { path: "a runtime".into(), reason })?;
    let cluster = runtime.block_on(ClusterClient::connect(pod))?;
    runtime.block_on(cluster.check_rights())?;
    let host = session.options().device.id.as_str().to_string();
    match runtime.block_on(leftovers::sweep_jobs(&cluster, &session.options().roots, &host)) {
        Ok(swept) if !swept.is_empty() => tracing::info!(jobs = ?swept, "removed Jobs of a predecessor"),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "could not look for Jobs of a predecessor"),
    }
    // Jobs of other clusters and namespaces, and the notes of those just removed.
    job_ledger::sweep_recorded_jobs(&session.options().roots, &session.options().runtime_dir)?;
    let mut own = session.requested_observers(&spec);
    let mut all: Vec<&mut dyn RunObserver> =
        own.iter_mut().map(|observer| &mut **observer as &mut dyn RunObserver).collect();
    all.extend(observers.iter_mut().map(|observer| &mut **observer as &mut dyn RunObserver));
    let asked = PodRun { session, spec: &spec, pod, id, cluster, runtime: &runtime };
    asked.execute(recorder, &mut all)
}

/// A requested run.
struct PodRun<'a> {
    session: &'a mut MeasureSession,
    spec: &'a RunSpec,
    pod: &'a PodSpec,
    id: RunId,
    cluster: ClusterClient,
    runtime: &'a Runtime,
}

/// Reason of a stop before the start, with the state that the pod was waiting in.
fn stop_reason(seen: &ObservedPod) -> String {
    let waited = seen.pod.as_ref().map(pod_state::pod_state).and_then(|state| match state {
        pod_state::PodState::Waiting { why, .. } => Some(format!(": {why}")),
        _ => None,
    });
    format!("it was stopped before it had started{}", waited.unwrap_or_default())
}

impl PodRun<'_> {
    fn execute(
        mut self,
        recorder: &mut dyn RunRecorder,
        observers: &mut [&mut dyn RunObserver],
    ) -> Result<FinishedRun, Error> {
        let nodes = self.runtime.block_on(self.cluster.list_nodes())?;
        // An empty boot id matches no node.
        let boot = match self.pod.as_elsewhere {
            true => String::new(),
            false => node_choice::own_boot_id(&self.session.options().roots),
        };
        let place = match nodes {
            Some(nodes) => {
                node_choice::choose_location(&nodes, self.pod.node.as_deref(), &self.pod.node_labels, &boot)
            }
            // Without the right to list nodes, the scheduler chooses.
            None => Ok(PodLocation::Elsewhere),
        };
        let place = match place {
            Ok(place) => place,
            Err(why) => return self.record_unstarted(&why, None, recorder),
        };
        let mut provision = ObserverProvision::default();
        if place == PodLocation::ThisMachine {
            observers.iter_mut().for_each(|o| o.prepare(self.id, self.spec, &mut provision));
        }
        let result = self.start(place, &provision, recorder, observers);
        if !matches!(result, Ok(PodRunOutcome { measured: true, .. })) {
            observers.iter_mut().for_each(|observer| observer.on_cancelled());
        }
        result.map(|done| done.finished)
    }

    fn start(
        &mut self,
        place: PodLocation,
        provision: &ObserverProvision,
        recorder: &mut dyn RunRecorder,
        observers: &mut [&mut dyn RunObserver],
    ) -> Result<PodRunOutcome, Error> {
        let is_known = self.pod.entrypoint.as_ref().is_some_and(|words| !words.is_empty());
        let door = match place {
            PodLocation::ThisMachine if is_known => Some(SocketFolder::create(self.session, self.id)?),
            _ => None,
        };
        let teller = match place {
            PodLocation::ThisMachine => UsageReporter::ThisMachine,
            place => {
                match self.runtime.block_on(launcher_mount::launcher_obstacle(&self.cluster, place, is_known))
                {
                    None => UsageReporter::Launcher,
                    Some(why) => UsageReporter::Unavailable(why),
                }
            }
        };
        let mut given = self.spec.clone();
        let mut luggage = self.pod_transfers(&teller, &mut given);
        let no_pages = match place != PodLocation::ThisMachine && !self.spec.listen.scrape.is_empty() {
            true => self.runtime.block_on(launcher_mount::proxy_obstacle(&self.cluster)),
            false => None,
        };
        let no_luggage = match luggage.holds_container() || luggage.dataset.is_some() {
            true => self.runtime.block_on(launcher_mount::exec_obstacle(&self.cluster)),
            false => None,
        };
        let transfer_obstacle = match &teller {
            UsageReporter::Unavailable(why) => Some(why.clone()),
            _ => no_luggage,
        };
        if let Some(why) = &transfer_obstacle {
            // Without its dataset the run would do different work, so it does not start.
            if place != PodLocation::ThisMachine && self.spec.dataset_path.is_some() {
                let why = format!("its dataset cannot be brought to the pod's node: {}", why.reason);
                return Ok(PodRunOutcome {
                    finished: self.record_unstarted(&why, None, recorder)?,
                    measured: false,
                });
            }
            luggage = PodTransfer::default();
        }
        let gate = match (&door, &teller) {
            (Some(door), _) => LauncherMount::HostFolder(&door.path),
            (None, UsageReporter::Launcher) => LauncherMount::ConfigMap(&luggage),
            (None, _) => LauncherMount::None,
        };
        if !luggage.ears.is_empty() {
            let variables = remote_app::remote_environment(&self.spec.listen);
            let own: Vec<&String> = self.spec.environment.iter().map(|(name, _)| name).collect();
            given.environment.extend(variables.into_iter().filter(|(name, _)| !own.contains(&name)));
        }
        let own: Vec<&String> = self.spec.environment.iter().map(|(name, _)| name).collect();
        given.environment.extend(provision.environment.iter().filter(|(n, _)| !own.contains(&n)).cloned());
        given.mounts.extend(provision.mounts.iter().cloned());
        let owner = metier_device::process_owner::current_owner(
            &self.session.options().roots,
            &self.session.options().device,
        );
        let may_renew = self.cluster.is_allowed("patch", "batch", "jobs", "");
        let is_renewed = self.runtime.block_on(may_renew).unwrap_or(false);
        let object = job::build_job(&given, self.pod, self.id, &owner, &gate, is_renewed)?;
        let folder = self.session.options().runtime_dir.clone();
        if let Err(error) = job_ledger::note_job(&folder, self.pod, &self.cluster.namespace, self.id, &owner)
        {
            tracing::warn!(%error, "after a kill, only the end of its lease removes the Job");
        }
        let made_at = Instant::now();
        let created = self.runtime.block_on(self.cluster.jobs().create(&PostParams::default(), &object));
        if let Err(kube::Error::Api(status)) = &created {
            // The cluster rejected the Job: a quota, a policy or an invalid name.
            let why = format!("the cluster rejected the Job: {}", status.message);
            job_ledger::forget_job(&folder, self.id);
            let finished = self.record_unstarted(&why, None, recorder)?;
            return Ok(PodRunOutcome { finished, measured: false });
        }
        let created = created.map_err(Error::api("making the Job"))?;
        let renewing = is_renewed.then(|| {
            let (cluster, spec) = (self.cluster.clone(), self.spec.clone());
            self.runtime.spawn(job_lease::renew_lease(cluster, job::job_name(self.id), spec, made_at))
        });
        let mut made = JobGuard {
            cluster: self.cluster.clone(),
            id: self.id,
            runtime: self.runtime,
            folder,
            renewing,
            is_removed: false,
        };
        if teller == UsageReporter::Launcher
            && let Err(why) =
                self.runtime.block_on(launcher_mount::create_launcher_map(&self.cluster, &created))
        {
            made.remove();
            return Ok(PodRunOutcome {
                finished: self.record_unstarted(&why, None, recorder)?,
                measured: false,
            });
        }
        let is_elsewhere = place != PodLocation::ThisMachine;
        let trip = PodRunPlan { teller, luggage, why_not: transfer_obstacle, is_elsewhere, no_pages };
        let done = self.follow_run(door, trip, &mut made, recorder, observers);
        made.remove();
        done
    }

    /// Files and messages to transfer to and from a pod on another machine.
    fn pod_transfers(&self, teller: &UsageReporter, given: &mut RunSpec) -> PodTransfer {
        if *teller != UsageReporter::Launcher {
            return PodTransfer::default();
        }
        // A user's mount at this path takes precedence.
        let is_free = !given.mounts.iter().any(|mount| mount.target == Path::new(CONTAINER_FOLDER));
        PodTransfer {
            ears: if is_free { remote_app::source_letters(&self.spec.listen) } else { String::new() },
            has_files: !self.spec.artefacts.is_empty(),
            dataset: DatasetTransfer::from_spec(given),
            within: self.start_timeout(),
        }
    }

    /// Follows the run from the creation of the Job to the record.
    fn follow_run(
        &mut self,
        mut door: Option<SocketFolder>,
        trip: PodRunPlan,
        made: &mut JobGuard<'_>,
        recorder: &mut dyn RunRecorder,
        observers: &mut [&mut dyn RunObserver],
    ) -> Result<PodRunOutcome, Error> {
        let (tell, seen) = tokio::sync::watch::channel(ObservedPod::default());
        let following = self.runtime.spawn(pod_watch::watch_pod(self.cluster.clone(), self.id, tell));
        let log = PodLog::default();
        let out = Arc::new(Mutex::new(std::io::stdout()));
        let PodRunPlan { teller, luggage, why_not, is_elsewhere, no_pages } = trip;
        let (tell_mark, marked) = tokio::sync::watch::channel(false);
        let mark = LogEndMark {
            text: if luggage.holds_container() { job::end_mark(self.id) } else { String::new() },
            tell: tell_mark,
        };
        let logging = self.runtime.spawn(pod_watch::copy_log(
            self.cluster.clone(),
            seen.clone(),
            log.clone(),
            out,
            mark,
        ));
        let (tell_way, way) = tokio::sync::watch::channel(None);
        let sending = luggage.dataset.clone().map(|dataset| {
            self.runtime.spawn(dataset_upload::upload_when_ready(
                self.cluster.clone(),
                seen.clone(),
                dataset,
                tell_way,
            ))
        });
        let folder = artefact_download::DownloadFolder(artefact_download::download_folder(
            &self.session.options().runtime_dir,
            self.id,
        ));
        let back = match (luggage.holds_container(), &why_not) {
            (true, _) => Ok(self.start_download(&luggage, &folder, &seen, marked)),
            (false, Some(why)) => Err(why.reason.clone()),
            (false, None) => Err("it runs without the launcher, which would export them".into()),
        };
        let download =
            (!remote_app::source_letters(&self.spec.listen).is_empty()).then(|| match (&back, why_not) {
                (Ok(back), _) if !luggage.ears.is_empty() => Ok(back.clone()),
                (_, Some(why)) => Err(why),
                (_, None) => Err(MissingReason::with_fix(
                    format!("a mount is at {CONTAINER_FOLDER}, which the listener in the pod needs"),
                    "mount it at another place",
                )),
            });
        let start = match &door {
            Some(SocketFolder { door: Some(door), .. }) => self.wait_for_launcher(door, &seen),
            _ => {
                let is_carried = teller == UsageReporter::Launcher;
                without_launcher::wait_for_start(
                    self.session,
                    &seen,
                    self.start_timeout(),
                    is_carried,
                    sending.as_ref().map(|_| &way),
                )
            }
        };
        // A later connection is from another pod of the same Job, created after the first was
        // deleted.
        door.iter_mut().for_each(|folder| folder.door = None);
        let about = self.target_facts(&seen.borrow());
        let mut end = PodEndObserver {
            handle: self.runtime.handle().clone(),
            cluster: self.cluster.clone(),
            id: self.id,
            seen: seen.clone(),
            log,
            logging: Some(logging),
            memory_limit: self.spec.limits.memory,
            program: self
                .pod
                .entrypoint
                .as_ref()
                .and_then(|words| words.first().cloned())
                .unwrap_or_default(),
            teller: teller.clone(),
        };
        let finished = match start {
            PodStart::Joined(mut joined) => {
                joined.about = about;
                joined.program =
                    self.pod.entrypoint.iter().flatten().chain(&self.pod.arguments).next().cloned();
                let mut all: Vec<&mut dyn RunObserver> = vec![&mut end];
                for observer in observers.iter_mut() {
                    all.push(&mut **observer);
                }
                let finished = self.session.measure_foreign(
                    self.spec,
                    joined.into_prepared_run(),
                    recorder,
                    &mut all,
                )?;
                PodRunOutcome { finished, measured: true }
            }
            PodStart::WithoutLauncher(found) => {
                let limits = without_launcher::LauncherLimits {
                    timeout: self.spec.time_limit(),
                    grace: self.spec.grace,
                };
                let (foreign, watching) = without_launcher::measure_foreign(
                    *found,
                    (teller == UsageReporter::Launcher).then_some(limits),
                    about,
                    self.runtime,
                    self.cluster.clone(),
                    self.id,
                    seen.clone(),
                    back,
                )?;
                let mut all: Vec<&mut dyn RunObserver> = vec![&mut end];
                for observer in observers.iter_mut() {
                    all.push(&mut **observer);
                }
                // After the observers that would have listened on this machine.
                let is_heard = is_elsewhere && !self.spec.listen.is_empty();
                let mut relayed = is_heard.then(|| {
                    let (cluster, handle) = (self.cluster.clone(), self.runtime.handle().clone());
                    let pod = pod_watch::pod_name(&seen.borrow());
                    RemoteAppObserver::new(self.spec.listen.clone(), cluster, handle, pod, download, no_pages)
                });
                all.extend(relayed.iter_mut().map(|relayed| relayed as &mut dyn RunObserver));
                let finished = self.session.measure_foreign(
                    self.spec,
                    foreign.into_prepared_run(),
                    recorder,
                    &mut all,
                )?;
                watching.abort();
                PodRunOutcome { finished, measured: true }
            }
            PodStart::NotStarted(why) => PodRunOutcome {
                finished: self.record_unstarted(&why, Some(about), recorder)?,
                measured: false,
            },
            PodStart::Stopped(stop) => {
                let why = stop_reason(&seen.borrow());
                let mut finished = self.record_unstarted(&why, Some(about), recorder)?;
                finished.stop = Some(stop);
                PodRunOutcome { finished, measured: false }
            }
        };
        let uid = seen.borrow().pod.as_ref().and_then(|pod| pod.metadata.uid.clone());
        drop(seen);
        made.remove();
        if let Some(uid) = uid {
            leftovers::remove_stale_group(&self.session.options().roots, &uid);
        }
        following.abort();
        sending.iter().for_each(|sending| sending.abort());
        Ok(finished)
    }

    /// Starts the download of the run's files, which waits for the end of the run.
    fn start_download(
        &self,
        luggage: &PodTransfer,
        folder: &artefact_download::DownloadFolder,
        seen: &tokio::sync::watch::Receiver<ObservedPod>,
        marked: tokio::sync::watch::Receiver<bool>,
    ) -> ArtefactDownload {
        let request = artefact_download::DownloadRequest {
            luggage: luggage.clone(),
            patterns: self.spec.artefacts.clone(),
            folder: folder.0.clone(),
        };
        ArtefactDownload::start(self.runtime.handle(), self.cluster.clone(), seen.clone(), marked, request)
    }

    /// Waits for the launcher of the pod.
    fn wait_for_launcher(
        &self,
        door: &LauncherEndpoint,
        seen: &tokio::sync::watch::Receiver<ObservedPod>,
    ) -> PodStart {
        let until = Instant::now() + self.start_timeout();
        loop {
            let (is_there, stop) = self.session.wait_for_descriptor(door.descriptor(), POLL_INTERVAL);
            if let Some(stop) = stop {
                return PodStart::Stopped(stop);
            }
            let now = seen.borrow().clone();
            if is_there && let Some(joined) = self.accept_launcher(door, &now) {
                return PodStart::Joined(Box::new(joined));
            }
            if let Some(why) = start_failure(&now, until) {
                return PodStart::NotStarted(why);
            }
        }
    }

    /// Accepts a connection only from a process of the followed pod.
    fn accept_launcher(&self, door: &LauncherEndpoint, seen: &ObservedPod) -> Option<JoinedContainer> {
        let uid = seen.pod.as_ref()?.metadata.uid.clone()?;
        let other = uid.replace('-', "_");
        door.accept_launcher(&self.session.options().roots, &[&uid, &other])
    }

    fn start_timeout(&self) -> Duration {
        self.pod.start_within.unwrap_or(DEFAULT_START_TIMEOUT)
    }

    /// Facts about the pod before it starts.
    fn target_facts(&self, seen: &ObservedPod) -> TargetFacts {
        let mut about = TargetFacts { limits: recorded_limits(self.spec), ..TargetFacts::default() };
        let Some(pod) = &seen.pod else { return about };
        about.pod = Some(PodRef {
            namespace: self.cluster.namespace.clone(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone(),
            node: pod_state::pod_node(pod).map(str::to_string),
            extra: Default::default(),
        });
        about.image = Some(ImageUse {
            reference: self.pod.image.clone(),
            digest: None,
            engine: "Kubernetes".into(),
            container: None,
            extra: Default::default(),
        });
        about
    }

    /// Stores the record of a run that did not start.
    fn record_unstarted(
        &mut self,
        why: &str,
        about: Option<TargetFacts>,
        recorder: &mut dyn RunRecorder,
    ) -> Result<FinishedRun, Error> {
        let about = about.unwrap_or_else(|| self.target_facts(&ObservedPod::default()));
        Ok(self.session.record_unstarted(self.spec, self.id, &about, why, recorder)?)
    }
}

/// Limits by name, for the record.
fn recorded_limits(spec: &RunSpec) -> std::collections::BTreeMap<String, String> {
    let mut limits = std::collections::BTreeMap::new();
    if let Some(cores) = spec.limits.cpu {
        limits.insert("cpu".to_string(), format!("{cores} cores"));
    }
    if let Some(memory) = spec.limits.memory {
        limits.insert("memory".to_string(), memory.to_string());
    }
    limits
}

/// The source of a pod's resource use, and its transfers or the reason why there are none.
struct PodRunPlan {
    teller: UsageReporter,
    luggage: PodTransfer,
    why_not: Option<MissingReason>,
    /// Whether the pod is on another machine.
    is_elsewhere: bool,
    /// Why the application's metrics pages cannot be read.
    no_pages: Option<MissingReason>,
}

/// Result of a run, and whether its observers were notified of the end.
struct PodRunOutcome {
    finished: FinishedRun,
    measured: bool,
}

/// Folder of the launcher socket, removed on drop.
struct SocketFolder {
    /// Listening socket, until the launcher has connected.
    door: Option<LauncherEndpoint>,
    path: PathBuf,
}

impl SocketFolder {
    fn create(session: &MeasureSession, id: RunId) -> Result<Self, Error> {
        sweep_folders(session);
        // A socket path has at most 107 bytes, so the name is short.
        let path = session.options().runtime_dir.join(format!("pod-{}-{}", std::process::id(), id.short()));
        LauncherEndpoint::install_launcher(&path)?;
        let door = LauncherEndpoint::listen(&path)?;
        Ok(Self { door: Some(door), path })
    }
}

/// Removes folders of measuring programs that were killed.
fn sweep_folders(session: &MeasureSession) {
    let options = session.options();
    for entry in std::fs::read_dir(&options.runtime_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix("pod-")?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !options.roots.proc.join(pid.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A created Job, removed on drop.
struct JobGuard<'a> {
    cluster: ClusterClient,
    id: RunId,
    runtime: &'a Runtime,
    /// Folder of the ledger of Jobs.
    folder: PathBuf,
    renewing: Option<JoinHandle<()>>,
    is_removed: bool,
}

impl JobGuard<'_> {
    fn remove(&mut self) {
        if std::mem::replace(&mut self.is_removed, true) {
            return;
        }
        if let Some(renewing) = self.renewing.take() {
            renewing.abort();
        }
        match self.runtime.block_on(leftovers::remove_job(&self.cluster, self.id)) {
            Ok(()) => job_ledger::forget_job(&self.folder, self.id),
            Err(error) => tracing::warn!(%error, "a Job may have been left in the cluster"),
        }
    }
}

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
