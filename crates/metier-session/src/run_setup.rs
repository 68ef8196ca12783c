//! What is around a run: its dataset, its co-runners, the probe of its readiness. Prepared before
//! the clock starts, the same for all repetitions, and taken away afterwards.

use std::path::PathBuf;
use std::process::ExitStatus;

use metier_measure::TargetFacts;
use metier_measure::spec::{Awaited, Mount, Target};
use metier_measure::{Error, Finished, Keep, Observer, Recorder, Session, Spec};
use metier_types::{Bytes, DatasetUse, Extra, PageCache, Run, RunId, Warning};

use crate::corunner::{CoRunners, CompanionLauncher, Member, Membership, ReadinessProbe, name_of};
use crate::dataset::{self, Cache, Obtained, Progress, Watch};
use crate::runfile::{Checked, DATASET_TARGET, Sign, Wanted};

/// The variable that tells where the dataset is.
pub const DATASET_VARIABLE: &str = "METIER_DATASET";
/// The word that stands for it in arguments.
pub const DATASET_WORD: &str = "{dataset}";

/// How a setup is made.
pub struct SetupOptions<'a> {
    /// Where fetched datasets are kept; `None` where there is no such place.
    pub cache: Option<PathBuf>,
    /// Files that belong to the dataset, and are as cold or warm as it: weights beside a graph.
    pub weights: Vec<PathBuf>,
    /// Most that fetched datasets may take; those that were not used for longest go.
    pub cache_limit: Option<Bytes>,
    /// Shows how far fetching has come.
    pub progress: &'a dyn Progress,
    /// How co-runners are started.
    pub launcher: CompanionLauncher<'a>,
    /// What the run is told, where it is a co-runner itself.
    pub membership: Option<Membership>,
}

/// Why a run cannot start.
#[derive(Debug)]
pub struct SetupFailure {
    /// In words for people and for the record.
    pub detail: String,
    /// Whether a stop was asked for meanwhile.
    pub is_stop: bool,
}

/// What is around the runs of a batch.
pub struct RunSetup<'a> {
    checked: &'a Checked,
    dataset: Option<(&'a Wanted, Obtained)>,
    weights: Vec<PathBuf>,
    corunners: Option<CoRunners>,
    membership: Option<Membership>,
    is_stopped: &'a dyn Fn() -> bool,
    runs: u32,
}

impl<'a> RunSetup<'a> {
    pub fn prepare(checked: &'a Checked, options: SetupOptions<'a>) -> Result<Self, SetupFailure> {
        let dataset = match &checked.dataset {
            Some(wanted) => Some((wanted, obtain(wanted, &options).map_err(failure)?)),
            None => None,
        };
        let is_stopped = options.launcher.is_stopped;
        let corunners = match checked.needs.is_empty() && checked.with.is_empty() {
            true => None,
            false => Some(
                CoRunners::start(checked, &options.launcher)
                    .map_err(|detail| SetupFailure { detail, is_stop: is_stopped() })?,
            ),
        };
        let SetupOptions { weights, membership, .. } = options;
        Ok(Self { checked, dataset, weights, corunners, membership, is_stopped, runs: 0 })
    }

    /// Runs and measures once, with all of it.
    pub fn run(
        &mut self,
        session: &mut Session,
        spec: &Spec,
        recorder: &mut dyn Recorder,
    ) -> Result<Finished, Error> {
        let mut spec = spec.clone();
        let mut notes = Notes::default();
        if let Some((wanted, obtained)) = &self.dataset {
            place(&mut spec, wanted, obtained, self.runs == 0);
            match dataset::settle(obtained, &self.weights, wanted.page_cache, self.is_stopped) {
                Ok(warning) => notes.warnings.extend(warning.map(|text| Warning::new("page-cache", text))),
                Err(error) => return unstarted(session, &spec, &failure(error).detail, recorder),
            }
        }
        self.runs += 1;
        if let Some(corunners) = &self.corunners {
            spec.company = corunners.present();
            notes.gone = corunners.gone();
            notes.corunners = Some(corunners);
            for (name, status) in &notes.gone {
                let text = format!("{name:?} had ended before the run began ({status})");
                notes.warnings.push(Warning::new("company", text));
            }
        }
        let name = name_of(self.checked);
        // It may have co-runners, and be one.
        let memberships =
            self.corunners.as_ref().map(CoRunners::membership).into_iter().chain(&self.membership);
        let mut members: Vec<Member<'_>> =
            memberships.map(|membership| Member::new(membership, name.clone())).collect();
        let ready = self.checked.ready.as_ref();
        let awaited = ready.and_then(|ready| await_output(&mut spec, &ready.sign));
        // A co-runner tells when it is ready; the run itself only notes it.
        let mut probe =
            ready.map(|ready| ReadinessProbe::new(ready, awaited, self.membership.as_ref(), name.clone()));
        let mut observers: Vec<&mut dyn Observer> = vec![&mut notes];
        observers.extend(probe.iter_mut().map(|probe| probe as &mut dyn Observer));
        observers.extend(members.iter_mut().map(|member| member as &mut dyn Observer));
        match &spec.target {
            Target::Command(_) | Target::Container(_) => session.run_with(&spec, recorder, &mut observers),
            Target::Pod(_) => metier_cluster::run_with(session, &spec, recorder, &mut observers).or_else(
                |error| match error {
                    metier_cluster::Error::Measure(error) => Err(error),
                    metier_cluster::Error::Spec { field, got, want } => Err(Error::Spec { field, got, want }),
                    // A cluster that cannot be asked is why the run never started.
                    other => unstarted(session, &spec, &other.to_string(), recorder),
                },
            ),
        }
    }
}

/// Fetches the dataset, and keeps the cache below its limit.
fn obtain(wanted: &Wanted, options: &SetupOptions<'_>) -> Result<Obtained, dataset::Error> {
    let watch = Watch::new(&wanted.source, options.progress, options.launcher.is_stopped);
    let cache = || match &options.cache {
        Some(folder) => Cache::open(folder),
        None => Err(dataset::Error::Unfit {
            source_name: dataset::name_of(&wanted.source),
            what: "has no place to go: neither XDG_CACHE_HOME nor HOME is an absolute path".into(),
            want: "--dataset-cache FOLDER",
        }),
    };
    let obtained = dataset::obtain(wanted, &cache, &watch)?;
    if let Some(limit) = options.cache_limit.filter(|_| !obtained.was_cached) {
        let removed = cache()?.trim(limit);
        if removed.bytes.get() > 0 {
            options.progress.note(&removed.to_string());
        }
    }
    Ok(obtained)
}

/// Has a container's output, which goes through us, looked through for the sign.
fn await_output(spec: &mut Spec, sign: &Sign) -> Option<Awaited> {
    match (&mut spec.target, sign) {
        (Target::Container(container), Sign::Output(text)) => {
            Some(container.awaits.insert(Awaited::new(text)).clone())
        }
        _ => None,
    }
}

/// Keeps the record of a run that cannot start.
pub(crate) fn unstarted(
    session: &mut Session,
    spec: &Spec,
    detail: &str,
    recorder: &mut dyn Recorder,
) -> Result<Finished, Error> {
    let id = spec.id.unwrap_or_else(RunId::new);
    session.unstarted(spec, id, &TargetFacts::default(), detail, recorder)
}

fn failure(error: dataset::Error) -> SetupFailure {
    let is_stop = matches!(error, dataset::Error::Interrupted { .. });
    SetupFailure { detail: error.to_string(), is_stop }
}

/// Tells the run where its dataset is, and the record what it is.
fn place(spec: &mut Spec, wanted: &Wanted, obtained: &Obtained, is_first: bool) {
    spec.dataset = Some(DatasetUse {
        source: obtained.source.clone(),
        digest: obtained.digest,
        size_bytes: obtained.size,
        was_cached: obtained.was_cached || !is_first,
        fetch_seconds: obtained.fetched_in.filter(|_| is_first),
        page_cache: wanted.page_cache,
        extra: Extra::new(),
    });
    spec.dataset_path = Some(obtained.path.clone());
    let seen = match &spec.target {
        Target::Command(_) => obtained.path.display().to_string(),
        Target::Container(_) | Target::Pod(_) => wanted.target.clone(),
    };
    debug_assert!(DATASET_TARGET.starts_with('/'));
    spec.environment.push((DATASET_VARIABLE.into(), seen.clone()));
    let replace = |word: &mut String| {
        if word == DATASET_WORD {
            *word = seen.clone();
        }
    };
    match &mut spec.target {
        Target::Command(command) => {
            for word in command.arguments.iter_mut().filter(|word| *word == DATASET_WORD) {
                *word = obtained.path.clone().into_os_string();
            }
        }
        Target::Container(container) => container.arguments.iter_mut().for_each(replace),
        Target::Pod(pod) => pod.arguments.iter_mut().for_each(replace),
    }
    if spec.target.image().is_some() {
        spec.mounts.push(Mount {
            source: obtained.path.clone(),
            target: wanted.target.clone().into(),
            read_only: true,
        });
    }
}

/// Warnings that were known before the run began, and co-runners that ended while it ran.
#[derive(Default)]
struct Notes<'a> {
    warnings: Vec<Warning>,
    corunners: Option<&'a CoRunners>,
    /// Those that had ended before.
    gone: Vec<(String, ExitStatus)>,
}

impl Observer for Notes<'_> {
    fn finish(&mut self, run: &mut Run, _: &mut Keep<'_>) {
        let gone = self.corunners.map(CoRunners::gone).unwrap_or_default();
        for (name, status) in gone.into_iter().filter(|one| !self.gone.contains(one)) {
            let text =
                format!("{name:?} ended while the run went on ({status}): not all of it had this company");
            self.warnings.push(Warning::new("company", text));
        }
        if let Some(dataset) =
            run.context.dataset.as_mut().filter(|_| self.warnings.iter().any(|w| w.code == "page-cache"))
        {
            // What was asked for is in the warning; what really was is not known as one of the two.
            dataset.page_cache = PageCache::Untouched;
        }
        run.warnings.append(&mut self.warnings);
    }
}
