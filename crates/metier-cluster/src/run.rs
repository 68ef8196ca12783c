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
use metier_measure::app::listening::INSIDE;
use metier_measure::app::relayed;
use metier_measure::observer::{Observer, Provision};
use metier_measure::runner::joined::{Door, Joined};
use metier_measure::spec::{PodSpec, Target};
use metier_measure::{Finished, Recorder, Session, Spec};
use metier_types::{ImageUse, Missing, PodRef, RunId};
use tokio::runtime::{Builder, Runtime};

use crate::brought;
use crate::cluster::Cluster;
use crate::end::{PodEnd, Teller};
use crate::fetched::{self, Back};
use crate::follow::{self, Log, Mark, Seen, why_never};
use crate::heard::Relayed;
use crate::job::Gate;
use crate::node::{self, Whereabouts};
use crate::outside::PodStart;
use crate::state;
use crate::transfer::{DatasetTransfer, PodTransfer};
use crate::{Error, carried, job, leftovers, outside};

/// How long a pod may take to start where nothing is said about it.
const START_WITHIN: Duration = Duration::from_secs(300);
/// How often the state of a pod that has not started is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs a pod and measures it.
pub fn run(session: &mut Session, spec: &Spec, recorder: &mut dyn Recorder) -> Result<Finished, Error> {
    run_with(session, spec, recorder, &mut [])
}

/// The same, with observers beside those that the specification asks for.
pub fn run_with(
    session: &mut Session,
    spec: &Spec,
    recorder: &mut dyn Recorder,
    observers: &mut [&mut dyn Observer],
) -> Result<Finished, Error> {
    spec.check()?;
    let Target::Pod(pod) = &spec.target else {
        return Err(Error::Spec { field: "target", got: spec.target.words().join(" "), want: "a pod" });
    };
    let id = spec.id.unwrap_or_else(RunId::new);
    let spec = Spec { id: Some(id), ..spec.clone() };
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("metier-cluster")
        .enable_all()
        .build()
        .map_err(|reason| Error::File { path: "a runtime".into(), reason })?;
    let cluster = runtime.block_on(Cluster::connect(pod))?;
    runtime.block_on(cluster.check_rights())?;
    let host = session.options().device.id.as_str().to_string();
    match runtime.block_on(leftovers::sweep(&cluster, &session.options().roots, &host)) {
        Ok(swept) if !swept.is_empty() => tracing::info!(jobs = ?swept, "removed Jobs of a predecessor"),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "could not look for Jobs of a predecessor"),
    }
    let mut own = session.observers(&spec);
    let mut all: Vec<&mut dyn Observer> =
        own.iter_mut().map(|observer| &mut **observer as &mut dyn Observer).collect();
    all.extend(observers.iter_mut().map(|observer| &mut **observer as &mut dyn Observer));
    let asked = Asked { session, spec: &spec, pod, id, cluster, runtime: &runtime };
    asked.run(recorder, &mut all)
}

/// A run that was asked for.
struct Asked<'a> {
    session: &'a mut Session,
    spec: &'a Spec,
    pod: &'a PodSpec,
    id: RunId,
    cluster: Cluster,
    runtime: &'a Runtime,
}

/// That somebody stopped it before it had started, and what it was waiting for then.
fn stopped_while(seen: &Seen) -> String {
    let waited = seen.pod.as_ref().map(state::of).and_then(|state| match state {
        state::State::Waiting { why, .. } => Some(format!(": {why}")),
        _ => None,
    });
    format!("it was stopped before it had started{}", waited.unwrap_or_default())
}

impl Asked<'_> {
    fn run(
        mut self,
        recorder: &mut dyn Recorder,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Finished, Error> {
        let nodes = self.runtime.block_on(self.cluster.nodes())?;
        // An unknown boot is that of no node.
        let boot = match self.pod.as_elsewhere {
            true => String::new(),
            false => node::own_boot(&self.session.options().roots),
        };
        let place = match nodes {
            Some(nodes) => node::choose(&nodes, self.pod.node.as_deref(), &self.pod.node_labels, &boot),
            // Who may not see nodes leaves it to the scheduler.
            None => Ok(Whereabouts::Elsewhere),
        };
        let place = match place {
            Ok(place) => place,
            Err(why) => return self.never(&why, None, recorder),
        };
        let mut provision = Provision::default();
        if place == Whereabouts::Here {
            observers.iter_mut().for_each(|o| o.prepare(self.id, self.spec, &mut provision));
        }
        let result = self.start(place, &provision, recorder, observers);
        if !matches!(result, Ok(Done { measured: true, .. })) {
            observers.iter_mut().for_each(|observer| observer.cancelled());
        }
        result.map(|done| done.finished)
    }

    fn start(
        &mut self,
        place: Whereabouts,
        provision: &Provision,
        recorder: &mut dyn Recorder,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Done, Error> {
        let is_known = self.pod.entrypoint.as_ref().is_some_and(|words| !words.is_empty());
        let door = match place {
            Whereabouts::Here if is_known => Some(Folder::make(self.session, self.id)?),
            _ => None,
        };
        let teller = match place {
            Whereabouts::Here => Teller::Us,
            place => match self.runtime.block_on(carried::why_not(&self.cluster, place, is_known)) {
                None => Teller::Launcher,
                Some(why) => Teller::Nobody(why),
            },
        };
        let mut given = self.spec.clone();
        let mut luggage = self.luggage(&teller, &mut given);
        let no_pages = match place != Whereabouts::Here && !self.spec.listen.scrape.is_empty() {
            true => self.runtime.block_on(carried::why_no_pages(&self.cluster)),
            false => None,
        };
        let no_luggage = match luggage.holds() || luggage.dataset.is_some() {
            true => self.runtime.block_on(carried::why_no_luggage(&self.cluster)),
            false => None,
        };
        let nobody = match &teller {
            Teller::Nobody(why) => Some(why.clone()),
            _ => no_luggage,
        };
        if let Some(why) = &nobody {
            // Without its dataset it would do something else.
            if place != Whereabouts::Here && self.spec.dataset_path.is_some() {
                let why = format!("its dataset cannot be brought to the pod's node: {}", why.reason);
                return Ok(Done { finished: self.never(&why, None, recorder)?, measured: false });
            }
            luggage = PodTransfer::default();
        }
        let gate = match (&door, &teller) {
            (Some(door), _) => Gate::Here(&door.path),
            (None, Teller::Launcher) => Gate::Carried(&luggage),
            (None, _) => Gate::None,
        };
        if !luggage.ears.is_empty() {
            let told = relayed::environment(&self.spec.listen);
            let own: Vec<&String> = self.spec.environment.iter().map(|(name, _)| name).collect();
            given.environment.extend(told.into_iter().filter(|(name, _)| !own.contains(&name)));
        }
        let own: Vec<&String> = self.spec.environment.iter().map(|(name, _)| name).collect();
        given.environment.extend(provision.environment.iter().filter(|(n, _)| !own.contains(&n)).cloned());
        given.mounts.extend(provision.mounts.iter().cloned());
        let owner = metier_device::process_owner::owner(
            &self.session.options().roots,
            &self.session.options().device,
        );
        let object = job::make(&given, self.pod, self.id, &owner, &gate)?;
        let created = self.runtime.block_on(self.cluster.jobs().create(&PostParams::default(), &object));
        if let Err(kube::Error::Api(status)) = &created {
            // The cluster understood and will not: a quota, a policy, a name that is none.
            let why = format!("the cluster does not take the Job: {}", status.message);
            let finished = self.never(&why, None, recorder)?;
            return Ok(Done { finished, measured: false });
        }
        let created = created.map_err(Error::api("making the Job"))?;
        let mut made =
            Made { cluster: self.cluster.clone(), id: self.id, runtime: self.runtime, is_removed: false };
        if teller == Teller::Launcher
            && let Err(why) = self.runtime.block_on(carried::bring(&self.cluster, &created))
        {
            made.remove();
            return Ok(Done { finished: self.never(&why, None, recorder)?, measured: false });
        }
        let is_elsewhere = place != Whereabouts::Here;
        let trip = Trip { teller, luggage, why_not: nobody, is_elsewhere, no_pages };
        let done = self.follow(door, trip, &mut made, recorder, observers);
        made.remove();
        done
    }

    /// What goes to the pod and comes back, where that is another machine.
    fn luggage(&self, teller: &Teller, given: &mut Spec) -> PodTransfer {
        if *teller != Teller::Launcher {
            return PodTransfer::default();
        }
        // A mount of the user's own in that place stays.
        let is_free = !given.mounts.iter().any(|mount| mount.target == Path::new(INSIDE));
        PodTransfer {
            ears: if is_free { relayed::letters(&self.spec.listen) } else { String::new() },
            has_files: !self.spec.artefacts.is_empty(),
            dataset: DatasetTransfer::of(given),
            within: self.within(),
        }
    }

    /// From the Job's making to the record.
    fn follow(
        &mut self,
        mut door: Option<Folder>,
        trip: Trip,
        made: &mut Made<'_>,
        recorder: &mut dyn Recorder,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Done, Error> {
        let (tell, seen) = tokio::sync::watch::channel(Seen::default());
        let following = self.runtime.spawn(follow::pod(self.cluster.clone(), self.id, tell));
        let log = Log::default();
        let out = Arc::new(Mutex::new(std::io::stdout()));
        let Trip { teller, luggage, why_not, is_elsewhere, no_pages } = trip;
        let (tell_mark, marked) = tokio::sync::watch::channel(false);
        let mark =
            Mark { text: if luggage.holds() { job::mark(self.id) } else { String::new() }, tell: tell_mark };
        let logging =
            self.runtime.spawn(follow::log(self.cluster.clone(), seen.clone(), log.clone(), out, mark));
        let (tell_way, way) = tokio::sync::watch::channel(None);
        let sending = luggage.dataset.clone().map(|dataset| {
            self.runtime.spawn(brought::send(self.cluster.clone(), seen.clone(), dataset, tell_way))
        });
        let folder = fetched::Folder(fetched::folder(&self.session.options().runtime_dir, self.id));
        let back = match (luggage.holds(), &why_not) {
            (true, _) => Ok(self.fetching(&luggage, &folder, &seen, marked)),
            (false, Some(why)) => Err(why.reason.clone()),
            (false, None) => Err("it runs as its image is, so nobody there hands them out".into()),
        };
        let said = (!relayed::letters(&self.spec.listen).is_empty()).then(|| match (&back, why_not) {
            (Ok(back), _) if !luggage.ears.is_empty() => Ok(back.clone()),
            (_, Some(why)) => Err(why),
            (_, None) => Err(Missing::fixable(
                format!("a mount is at {INSIDE}, where what listens to the pod has to be"),
                "mount it at another place",
            )),
        });
        let start = match &door {
            Some(Folder { door: Some(door), .. }) => self.wait_at(door, &seen),
            _ => {
                let is_carried = teller == Teller::Launcher;
                outside::wait(self.session, &seen, self.within(), is_carried, sending.as_ref().map(|_| &way))
            }
        };
        // Whoever comes now is another pod of the same Job, made because somebody deleted the first.
        door.iter_mut().for_each(|folder| folder.door = None);
        let about = self.about(&seen.borrow());
        let mut end = PodEnd {
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
                let mut all: Vec<&mut dyn Observer> = vec![&mut end];
                for observer in observers.iter_mut() {
                    all.push(&mut **observer);
                }
                let finished = self.session.measure(self.spec, joined.prepared(), recorder, &mut all)?;
                Done { finished, measured: true }
            }
            PodStart::Alone(found) => {
                let limits = outside::Limits { timeout: self.spec.time_limit(), grace: self.spec.grace };
                let (foreign, watching) = outside::measure(
                    *found,
                    (teller == Teller::Launcher).then_some(limits),
                    about,
                    self.runtime,
                    self.cluster.clone(),
                    self.id,
                    seen.clone(),
                    back,
                )?;
                let mut all: Vec<&mut dyn Observer> = vec![&mut end];
                for observer in observers.iter_mut() {
                    all.push(&mut **observer);
                }
                // After those who would have listened here.
                let is_heard = is_elsewhere && !self.spec.listen.is_empty();
                let mut relayed = is_heard.then(|| {
                    let (cluster, handle) = (self.cluster.clone(), self.runtime.handle().clone());
                    let pod = follow::name_of(&seen.borrow());
                    Relayed::new(self.spec.listen.clone(), cluster, handle, pod, said, no_pages)
                });
                all.extend(relayed.iter_mut().map(|relayed| relayed as &mut dyn Observer));
                let finished = self.session.measure(self.spec, foreign.prepared(), recorder, &mut all)?;
                watching.abort();
                Done { finished, measured: true }
            }
            PodStart::Never(why) => {
                Done { finished: self.never(&why, Some(about), recorder)?, measured: false }
            }
            PodStart::Stopped(stop) => {
                let why = stopped_while(&seen.borrow());
                let mut finished = self.never(&why, Some(about), recorder)?;
                finished.stop = Some(stop);
                Done { finished, measured: false }
            }
        };
        let uid = seen.borrow().pod.as_ref().and_then(|pod| pod.metadata.uid.clone());
        drop(seen);
        made.remove();
        if let Some(uid) = uid {
            leftovers::clear_group(&self.session.options().roots, &uid);
        }
        following.abort();
        sending.iter().for_each(|sending| sending.abort());
        Ok(finished)
    }

    /// Fetches what the run leaves, when it is over.
    fn fetching(
        &self,
        luggage: &PodTransfer,
        folder: &fetched::Folder,
        seen: &tokio::sync::watch::Receiver<Seen>,
        marked: tokio::sync::watch::Receiver<bool>,
    ) -> Back {
        let wanted = fetched::Wanted {
            luggage: luggage.clone(),
            patterns: self.spec.artefacts.clone(),
            folder: folder.0.clone(),
        };
        Back::start(self.runtime.handle(), self.cluster.clone(), seen.clone(), marked, wanted)
    }

    /// Waits for the launcher of the pod.
    fn wait_at(&self, door: &Door, seen: &tokio::sync::watch::Receiver<Seen>) -> PodStart {
        let until = Instant::now() + self.within();
        loop {
            let (is_there, stop) = self.session.wait_for(door.descriptor(), LOOK_EVERY);
            if let Some(stop) = stop {
                return PodStart::Stopped(stop);
            }
            let now = seen.borrow().clone();
            if is_there && let Some(joined) = self.let_in(door, &now) {
                return PodStart::Joined(Box::new(joined));
            }
            if let Some(why) = why_never(&now, until) {
                return PodStart::Never(why);
            }
        }
    }

    /// Only a process of the pod that we follow may come in.
    fn let_in(&self, door: &Door, seen: &Seen) -> Option<Joined> {
        let uid = seen.pod.as_ref()?.metadata.uid.clone()?;
        let other = uid.replace('-', "_");
        door.let_in(&self.session.options().roots, &[&uid, &other])
    }

    fn within(&self) -> Duration {
        self.pod.start_within.unwrap_or(START_WITHIN)
    }

    /// What is known of the pod before it starts.
    fn about(&self, seen: &Seen) -> TargetFacts {
        let mut about = TargetFacts { limits: limits(self.spec), ..TargetFacts::default() };
        let Some(pod) = &seen.pod else { return about };
        about.pod = Some(PodRef {
            namespace: self.cluster.namespace.clone(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone(),
            node: state::node(pod).map(str::to_string),
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
    fn never(
        &mut self,
        why: &str,
        about: Option<TargetFacts>,
        recorder: &mut dyn Recorder,
    ) -> Result<Finished, Error> {
        let about = about.unwrap_or_else(|| self.about(&Seen::default()));
        Ok(self.session.unstarted(self.spec, self.id, &about, why, recorder)?)
    }
}

/// Limits for the record, by name.
fn limits(spec: &Spec) -> std::collections::BTreeMap<String, String> {
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
struct Trip {
    teller: Teller,
    luggage: PodTransfer,
    why_not: Option<Missing>,
    /// Whether it is on another machine.
    is_elsewhere: bool,
    /// Why its pages cannot be read there.
    no_pages: Option<Missing>,
}

/// How a run went, and whether its observers were told of its end.
struct Done {
    finished: Finished,
    measured: bool,
}

/// A folder for one door, which goes with it.
struct Folder {
    /// Until the one who is waited for has come.
    door: Option<Door>,
    path: PathBuf,
}

impl Folder {
    fn make(session: &Session, id: RunId) -> Result<Self, Error> {
        sweep_folders(session);
        // The path of a socket has at most 107 bytes, so the short name.
        let path = session.options().runtime_dir.join(format!("pod-{}-{}", std::process::id(), id.short()));
        Door::prepare(&path)?;
        let door = Door::open(&path)?;
        Ok(Self { door: Some(door), path })
    }
}

/// Removes folders of measuring programs that were killed.
fn sweep_folders(session: &Session) {
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

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A Job that was made and is to be removed, whatever happens.
struct Made<'a> {
    cluster: Cluster,
    id: RunId,
    runtime: &'a Runtime,
    is_removed: bool,
}

impl Made<'_> {
    fn remove(&mut self) {
        if !std::mem::replace(&mut self.is_removed, true)
            && let Err(error) = self.runtime.block_on(leftovers::remove(&self.cluster, self.id))
        {
            tracing::warn!(%error, "a Job may have been left in the cluster");
        }
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
