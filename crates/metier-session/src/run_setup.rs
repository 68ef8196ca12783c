//! The setup of a run: its dataset, its co-runners and its readiness probe. The setup is prepared
//! before the measured time starts, shared by all repetitions, and removed afterwards.

use std::path::PathBuf;
use std::process::ExitStatus;

use metier_measure::TargetFacts;
use metier_measure::spec::{AwaitedOutput, BindMount, RunTarget};
use metier_measure::{ArtefactKeeper, Error, FinishedRun, MeasureSession, RunObserver, RunRecorder, RunSpec};
use metier_types::{Bytes, DatasetUse, ExtraFields, PageCacheState, Run, RunId, RunWarning};

use crate::corunner::{
    CoRunMembership, CoRunObserver, CoRunnerGroup, CompanionLauncher, ReadinessObserver, run_name,
};
use crate::dataset::{self, DatasetCacheFolder, DatasetProgress, FetchWatch, ObtainedDataset};
use crate::runfile::{CheckedDataset, CheckedRun, DATASET_TARGET, ReadinessSign};

/// Environment variable with the path of the dataset.
pub const DATASET_VARIABLE: &str = "METIER_DATASET";
/// Placeholder of the path in arguments.
pub const DATASET_WORD: &str = "{dataset}";

/// Options of a setup.
pub struct SetupOptions<'a> {
    /// Folder of the dataset cache; `None` if there is none.
    pub cache: Option<PathBuf>,
    /// Files with the same page-cache state as the dataset: external weights of a graph.
    pub weights: Vec<PathBuf>,
    /// Size limit of the dataset cache; least recently used datasets are removed first.
    pub cache_limit: Option<Bytes>,
    /// Display of the fetch progress.
    pub progress: &'a dyn DatasetProgress,
    /// Options to start co-runners with.
    pub launcher: CompanionLauncher<'a>,
    /// Group membership, if the run is a co-runner itself.
    pub membership: Option<CoRunMembership>,
}

/// Why a run cannot start.
#[derive(Debug)]
pub struct SetupFailure {
    /// The reason, for the user and the record.
    pub detail: String,
    /// Whether a stop was requested during the preparation.
    pub is_stop: bool,
}

/// Dataset and co-runners of the runs of a batch.
pub struct RunSetup<'a> {
    checked: &'a CheckedRun,
    dataset: Option<(&'a CheckedDataset, ObtainedDataset)>,
    weights: Vec<PathBuf>,
    corunners: Option<CoRunnerGroup>,
    membership: Option<CoRunMembership>,
    is_stopped: &'a dyn Fn() -> bool,
    runs: u32,
}

impl<'a> RunSetup<'a> {
    pub fn prepare(checked: &'a CheckedRun, options: SetupOptions<'a>) -> Result<Self, SetupFailure> {
        let dataset = match &checked.dataset {
            Some(dataset) => Some((dataset, obtain(dataset, &options).map_err(failure)?)),
            None => None,
        };
        let is_stopped = options.launcher.is_stopped;
        let corunners = match checked.needs.is_empty() && checked.with.is_empty() {
            true => None,
            false => Some(
                CoRunnerGroup::start(checked, &options.launcher)
                    .map_err(|detail| SetupFailure { detail, is_stop: is_stopped() })?,
            ),
        };
        let SetupOptions { weights, membership, .. } = options;
        Ok(Self { checked, dataset, weights, corunners, membership, is_stopped, runs: 0 })
    }

    /// Runs and measures once with this setup.
    pub fn run(
        &mut self,
        session: &mut MeasureSession,
        spec: &RunSpec,
        recorder: &mut dyn RunRecorder,
    ) -> Result<FinishedRun, Error> {
        let mut spec = spec.clone();
        let mut notes = SetupNotes::default();
        if let Some((dataset, obtained)) = &self.dataset {
            set_dataset(&mut spec, dataset, obtained, self.runs == 0);
            match dataset::prepare_page_cache(obtained, &self.weights, dataset.page_cache, self.is_stopped) {
                Ok(warning) => notes.warnings.extend(warning.map(|text| RunWarning::new("page-cache", text))),
                Err(error) => return record_unstarted(session, &spec, &failure(error).detail, recorder),
            }
        }
        self.runs += 1;
        if let Some(corunners) = &self.corunners {
            spec.company = corunners.present();
            notes.gone = corunners.ended_early();
            notes.corunners = Some(corunners);
            for (name, status) in &notes.gone {
                let text = format!("{name:?} had ended before the run began ({status})");
                notes.warnings.push(RunWarning::new("company", text));
            }
        }
        let name = run_name(self.checked);
        // A run may have co-runners and be a co-runner itself.
        let memberships =
            self.corunners.as_ref().map(CoRunnerGroup::membership).into_iter().chain(&self.membership);
        let mut members: Vec<CoRunObserver<'_>> =
            memberships.map(|membership| CoRunObserver::new(membership, name.clone())).collect();
        let ready = self.checked.ready.as_ref();
        let awaited = ready.and_then(|ready| await_output(&mut spec, &ready.sign));
        // Only a co-runner logs its readiness for the group; a main run just records it.
        let mut probe =
            ready.map(|ready| ReadinessObserver::new(ready, awaited, self.membership.as_ref(), name.clone()));
        let mut observers: Vec<&mut dyn RunObserver> = vec![&mut notes];
        observers.extend(probe.iter_mut().map(|probe| probe as &mut dyn RunObserver));
        observers.extend(members.iter_mut().map(|member| member as &mut dyn RunObserver));
        match &spec.target {
            RunTarget::Command(_) | RunTarget::Container(_) => {
                session.run_with_observers(&spec, recorder, &mut observers)
            }
            RunTarget::Pod(_) => metier_cluster::run_pod_with(session, &spec, recorder, &mut observers)
                .or_else(|error| match error {
                    metier_cluster::Error::Measure(error) => Err(error),
                    metier_cluster::Error::Spec { field, got, want } => Err(Error::Spec { field, got, want }),
                    // An unreachable cluster is recorded as the reason why the run never started.
                    other => record_unstarted(session, &spec, &other.to_string(), recorder),
                }),
        }
    }
}

/// Obtains the dataset and trims the cache to its limit.
fn obtain(
    dataset: &CheckedDataset,
    options: &SetupOptions<'_>,
) -> Result<ObtainedDataset, dataset::DatasetError> {
    let watch = FetchWatch::new(&dataset.source, options.progress, options.launcher.is_stopped);
    let cache = || match &options.cache {
        Some(folder) => DatasetCacheFolder::open(folder),
        None => Err(dataset::DatasetError::Unfit {
            source_name: dataset::display_source(&dataset.source),
            what: "has no place to go: neither XDG_CACHE_HOME nor HOME is an absolute path".into(),
            want: "--dataset-cache FOLDER",
        }),
    };
    let obtained = dataset::obtain(dataset, &cache, &watch)?;
    if let Some(limit) = options.cache_limit.filter(|_| !obtained.was_cached) {
        let removed = cache()?.trim(limit);
        if removed.bytes.get() > 0 {
            options.progress.note(&removed.to_string());
        }
    }
    Ok(obtained)
}

/// Registers the readiness text with the reader of a container's output.
fn await_output(spec: &mut RunSpec, sign: &ReadinessSign) -> Option<AwaitedOutput> {
    match (&mut spec.target, sign) {
        (RunTarget::Container(container), ReadinessSign::Output(text)) => {
            Some(container.awaits.insert(AwaitedOutput::new(text)).clone())
        }
        _ => None,
    }
}

/// Stores the record of a run that cannot start.
pub(crate) fn record_unstarted(
    session: &mut MeasureSession,
    spec: &RunSpec,
    detail: &str,
    recorder: &mut dyn RunRecorder,
) -> Result<FinishedRun, Error> {
    let id = spec.id.unwrap_or_else(RunId::new);
    session.record_unstarted(spec, id, &TargetFacts::default(), detail, recorder)
}

fn failure(error: dataset::DatasetError) -> SetupFailure {
    let is_stop = matches!(error, dataset::DatasetError::Interrupted { .. });
    SetupFailure { detail: error.to_string(), is_stop }
}

/// Passes the dataset's path to the run and its identity to the record.
fn set_dataset(spec: &mut RunSpec, dataset: &CheckedDataset, obtained: &ObtainedDataset, is_first: bool) {
    spec.dataset = Some(DatasetUse {
        source: obtained.source.clone(),
        digest: obtained.digest,
        size_bytes: obtained.size,
        was_cached: obtained.was_cached || !is_first,
        fetch_seconds: obtained.fetched_in.filter(|_| is_first),
        page_cache: dataset.page_cache,
        extra: ExtraFields::new(),
    });
    spec.dataset_path = Some(obtained.path.clone());
    let seen = match &spec.target {
        RunTarget::Command(_) => obtained.path.display().to_string(),
        RunTarget::Container(_) | RunTarget::Pod(_) => dataset.target.clone(),
    };
    debug_assert!(DATASET_TARGET.starts_with('/'));
    spec.environment.push((DATASET_VARIABLE.into(), seen.clone()));
    let replace = |word: &mut String| {
        if word == DATASET_WORD {
            *word = seen.clone();
        }
    };
    match &mut spec.target {
        RunTarget::Command(command) => {
            for word in command.arguments.iter_mut().filter(|word| *word == DATASET_WORD) {
                *word = obtained.path.clone().into_os_string();
            }
        }
        RunTarget::Container(container) => container.arguments.iter_mut().for_each(replace),
        RunTarget::Pod(pod) => pod.arguments.iter_mut().for_each(replace),
    }
    if spec.target.image().is_some() {
        spec.mounts.push(BindMount {
            source: obtained.path.clone(),
            target: dataset.target.clone().into(),
            read_only: true,
        });
    }
}

/// Warnings from before the run, and co-runners that ended during it.
#[derive(Default)]
struct SetupNotes<'a> {
    warnings: Vec<RunWarning>,
    corunners: Option<&'a CoRunnerGroup>,
    /// Co-runners that had ended before the run.
    gone: Vec<(String, ExitStatus)>,
}

impl RunObserver for SetupNotes<'_> {
    fn on_finish(&mut self, run: &mut Run, _: &mut ArtefactKeeper<'_>) {
        let gone = self.corunners.map(CoRunnerGroup::ended_early).unwrap_or_default();
        for (name, status) in gone.into_iter().filter(|ended| !self.gone.contains(ended)) {
            let text = format!(
                "{name:?} ended while the run went on ({status}): only a part of the run had this co-runner"
            );
            self.warnings.push(RunWarning::new("company", text));
        }
        if let Some(dataset) =
            run.context.dataset.as_mut().filter(|_| self.warnings.iter().any(|w| w.code == "page-cache"))
        {
            // The warning names the requested state. The real one was neither cold nor warm.
            dataset.page_cache = PageCacheState::Untouched;
        }
        run.warnings.append(&mut self.warnings);
    }
}
