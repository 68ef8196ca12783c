//! One run as a pod, from the first question to the cluster to the last removed object.
//!
//! The cluster is spoken to by a small runtime with one thread; the run itself is watched by the session's loop in the
//! calling thread. What can be refused is refused before anything is made; what goes wrong after that is a record
//! with the cause `unstarted` or `lost`, and a reason in words.

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
use crate::{Error, job, launcher_mount, leftovers, without_launcher};

/// How long a pod may take to start where nothing is said about it.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(300);
/// How often the state of a pod that has not started is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a pod and measures it.
pub fn run_pod(
    session: &mut MeasureSession,
    spec: &RunSpec,
    recorder: &mut dyn RunRecorder,
) -> Result<FinishedRun, Error> {
    run_pod_with(session, spec, recorder, &mut [])
}

/// The same, with observers beside those that the specification asks for.
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
    let mut own = session.requested_observers(&spec);
    let mut all: Vec<&mut dyn RunObserver> =
        own.iter_mut().map(|observer| &mut **observer as &mut dyn RunObserver).collect();
    all.extend(observers.iter_mut().map(|observer| &mut **observer as &mut dyn RunObserver));
    let asked = PodRun { session, spec: &spec, pod, id, cluster, runtime: &runtime };
    asked.execute(recorder, &mut all)
}

/// A run that was asked for.
struct PodRun<'a> {
    session: &'a mut MeasureSession,
    spec: &'a RunSpec,
    pod: &'a PodSpec,
    id: RunId,
    cluster: ClusterClient,
    runtime: &'a Runtime,
}

/// That somebody stopped it before it had started, and what it was waiting for then.
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
        // An unknown boot is that of no node.
        let boot = match self.pod.as_elsewhere {
            true => String::new(),
            false => node_choice::own_boot_id(&self.session.options().roots),
        };
        let place = match nodes {
            Some(nodes) => {
                node_choice::choose_location(&nodes, self.pod.node.as_deref(), &self.pod.node_labels, &boot)
            }
            // Who may not see nodes leaves it to the scheduler.
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
        let nobody = match &teller {
            UsageReporter::Unavailable(why) => Some(why.clone()),
            _ => no_luggage,
        };
        if let Some(why) = &nobody {
            // Without its dataset it would do something else.
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
            let told = remote_app::remote_environment(&self.spec.listen);
            let own: Vec<&String> = self.spec.environment.iter().map(|(name, _)| name).collect();
            given.environment.extend(told.into_iter().filter(|(name, _)| !own.contains(&name)));
        }
        let own: Vec<&String> = self.spec.environment.iter().map(|(name, _)| name).collect();
        given.environment.extend(provision.environment.iter().filter(|(n, _)| !own.contains(&n)).cloned());
        given.mounts.extend(provision.mounts.iter().cloned());
        let owner = metier_device::process_owner::current_owner(
            &self.session.options().roots,
            &self.session.options().device,
        );
        let object = job::build_job(&given, self.pod, self.id, &owner, &gate)?;
        let created = self.runtime.block_on(self.cluster.jobs().create(&PostParams::default(), &object));
        if let Err(kube::Error::Api(status)) = &created {
            // The cluster understood and will not: a quota, a policy, a name that is none.
            let why = format!("the cluster does not take the Job: {}", status.message);
            let finished = self.record_unstarted(&why, None, recorder)?;
            return Ok(PodRunOutcome { finished, measured: false });
        }
        let created = created.map_err(Error::api("making the Job"))?;
        let mut made =
            JobGuard { cluster: self.cluster.clone(), id: self.id, runtime: self.runtime, is_removed: false };
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
        let trip = PodRunPlan { teller, luggage, why_not: nobody, is_elsewhere, no_pages };
        let done = self.follow_run(door, trip, &mut made, recorder, observers);
        made.remove();
        done
    }

    /// What goes to the pod and comes back, where that is another machine.
    fn pod_transfers(&self, teller: &UsageReporter, given: &mut RunSpec) -> PodTransfer {
        if *teller != UsageReporter::Launcher {
            return PodTransfer::default();
        }
        // A mount of the user's own in that place stays.
        let is_free = !given.mounts.iter().any(|mount| mount.target == Path::new(CONTAINER_FOLDER));
        PodTransfer {
            ears: if is_free { remote_app::source_letters(&self.spec.listen) } else { String::new() },
            has_files: !self.spec.artefacts.is_empty(),
            dataset: DatasetTransfer::from_spec(given),
            within: self.start_timeout(),
        }
    }

    /// From the Job's making to the record.
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
            (false, None) => Err("it runs as its image is, so nobody there hands them out".into()),
        };
        let download =
            (!remote_app::source_letters(&self.spec.listen).is_empty()).then(|| match (&back, why_not) {
                (Ok(back), _) if !luggage.ears.is_empty() => Ok(back.clone()),
                (_, Some(why)) => Err(why),
                (_, None) => Err(MissingReason::with_fix(
                    format!("a mount is at {CONTAINER_FOLDER}, where what listens to the pod has to be"),
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
        // Whoever comes now is another pod of the same Job, made because somebody deleted the first.
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
                // After those who would have listened here.
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

    /// Fetches what the run leaves, when it is over.
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

    /// Only a process of the pod that we follow may come in.
    fn accept_launcher(&self, door: &LauncherEndpoint, seen: &ObservedPod) -> Option<JoinedContainer> {
        let uid = seen.pod.as_ref()?.metadata.uid.clone()?;
        let other = uid.replace('-', "_");
        door.accept_launcher(&self.session.options().roots, &[&uid, &other])
    }

    fn start_timeout(&self) -> Duration {
        self.pod.start_within.unwrap_or(DEFAULT_START_TIMEOUT)
    }

    /// What is known of the pod before it starts.
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

    /// Keeps a record of a run that did not start.
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

/// Limits for the record, by name.
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

/// Who tells what a pod used, and what goes to it and comes back, or why nothing does.
struct PodRunPlan {
    teller: UsageReporter,
    luggage: PodTransfer,
    why_not: Option<MissingReason>,
    /// Whether it is on another machine.
    is_elsewhere: bool,
    /// Why its pages cannot be read there.
    no_pages: Option<MissingReason>,
}

/// How a run went, and whether its observers were told of its end.
struct PodRunOutcome {
    finished: FinishedRun,
    measured: bool,
}

/// A folder for one door, which goes with it.
struct SocketFolder {
    /// Until the one who is waited for has come.
    door: Option<LauncherEndpoint>,
    path: PathBuf,
}

impl SocketFolder {
    fn create(session: &MeasureSession, id: RunId) -> Result<Self, Error> {
        sweep_folders(session);
        // The path of a socket has at most 107 bytes, so the short name.
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

/// A Job that was made and is to be removed, whatever happens.
struct JobGuard<'a> {
    cluster: ClusterClient,
    id: RunId,
    runtime: &'a Runtime,
    is_removed: bool,
}

impl JobGuard<'_> {
    fn remove(&mut self) {
        if !std::mem::replace(&mut self.is_removed, true)
            && let Err(error) = self.runtime.block_on(leftovers::remove_job(&self.cluster, self.id))
        {
            tracing::warn!(%error, "a Job may have been left in the cluster");
        }
    }
}

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
