//! What is around a run: its dataset, its company, who looks whether it is ready. Got ready before the clock starts, the same
//! for all repetitions, and taken away afterwards.

use std::path::PathBuf;
use std::process::ExitStatus;

use metier_measure::TargetFacts;
use metier_measure::spec::{Awaited, Mount, Target};
use metier_measure::{Error, Finished, Keep, Observer, Recorder, Session, Spec};
use metier_types::{Bytes, DatasetUse, Extra, PageCache, Run, RunId, Warning};

use crate::company::{Company, Means, Member, Membership, Probe, name_of};
use crate::dataset::{self, Cache, Obtained, Progress, Watch};
use crate::runfile::{Checked, DATASET_TARGET, Sign, Wanted};

/// The variable that tells where the dataset is.
pub const DATASET_VARIABLE: &str = "METIER_DATASET";
/// The word that stands for it in arguments.
pub const DATASET_WORD: &str = "{dataset}";

/// How surroundings are made.
pub struct Ways<'a> {
    /// Where fetched datasets are kept; `None` where there is no such place.
    pub cache: Option<PathBuf>,
    /// Files that belong to the dataset, and are as cold or warm as it: weights beside a graph.
    pub beside: Vec<PathBuf>,
    /// Most that fetched datasets may take; those that were not used for longest go.
    pub cache_limit: Option<Bytes>,
    /// Who shows how far fetching has come.
    pub progress: &'a dyn Progress,
    /// How company is started.
    pub means: Means<'a>,
    /// What the run is told, where it is somebody's company itself.
    pub membership: Option<Membership>,
}

/// Why a run cannot start.
#[derive(Debug)]
pub struct Obstacle {
    /// In words for people and for the record.
    pub detail: String,
    /// Whether somebody asked us to stop.
    pub is_stop: bool,
}

/// What is around the runs of a batch.
pub struct Surroundings<'a> {
    checked: &'a Checked,
    dataset: Option<(&'a Wanted, Obtained)>,
    beside: Vec<PathBuf>,
    company: Option<Company>,
    membership: Option<Membership>,
    is_stopped: &'a dyn Fn() -> bool,
    runs: u32,
}

impl<'a> Surroundings<'a> {
    pub fn prepare(checked: &'a Checked, ways: Ways<'a>) -> Result<Self, Obstacle> {
        let dataset = match &checked.dataset {
            Some(wanted) => {
                let watch = Watch::new(&wanted.source, ways.progress, ways.means.is_stopped);
                let cache = || match &ways.cache {
                    Some(folder) => Cache::open(folder),
                    None => Err(dataset::Error::Unfit {
                        source_name: dataset::name_of(&wanted.source),
                        what: "has no place to go: neither XDG_CACHE_HOME nor HOME is an absolute path"
                            .into(),
                        want: "--dataset-cache FOLDER",
                    }),
                };
                let obtained = dataset::obtain(wanted, &cache, &watch).map_err(obstacle)?;
                if let Some(limit) = ways.cache_limit.filter(|_| !obtained.was_cached) {
                    let removed = cache().map_err(obstacle)?.trim(limit);
                    if removed.bytes.get() > 0 {
                        ways.progress.note(&removed.to_string());
                    }
                }
                Some((wanted, obtained))
            }
            None => None,
        };
        let has_company = !checked.needs.is_empty() || !checked.with.is_empty();
        let company = match has_company {
            true => Some(Company::start(checked, &ways.means).map_err(|detail| {
                let is_stop = (ways.means.is_stopped)();
                Obstacle { detail, is_stop }
            })?),
            false => None,
        };
        Ok(Self {
            checked,
            dataset,
            beside: ways.beside,
            company,
            membership: ways.membership,
            is_stopped: ways.means.is_stopped,
            runs: 0,
        })
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
            match dataset::settle(obtained, &self.beside, wanted.page_cache, self.is_stopped) {
                Ok(warning) => notes.warnings.extend(warning.map(|text| Warning::new("page-cache", text))),
                Err(error) => return unstarted(session, &spec, &obstacle(error).detail, recorder),
            }
        }
        self.runs += 1;
        if let Some(company) = &self.company {
            spec.company = company.present();
            notes.gone = company.gone();
            notes.company = Some(company);
            for (name, status) in &notes.gone {
                let text = format!("{name:?} had ended before the run began ({status})");
                notes.warnings.push(Warning::new("company", text));
            }
        }
        let name = name_of(self.checked);
        // It may have company, and be somebody's.
        let memberships = self.company.as_ref().map(Company::membership).into_iter().chain(&self.membership);
        let mut members: Vec<Member<'_>> =
            memberships.map(|membership| Member::new(membership, name.clone())).collect();
        let ready = self.checked.ready.as_ref();
        let awaited = ready.and_then(|ready| await_output(&mut spec, &ready.sign));
        // Somebody's company tells when it is ready; the run itself only notes it.
        let mut probe = ready.map(|ready| Probe::new(ready, awaited, self.membership.as_ref(), name.clone()));
        let mut observers: Vec<&mut dyn Observer> = vec![&mut notes];
        observers.extend(probe.iter_mut().map(|probe| probe as &mut dyn Observer));
        observers.extend(members.iter_mut().map(|member| member as &mut dyn Observer));
        crate::start(session, &spec, recorder, &mut observers)
    }
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
pub fn unstarted(
    session: &mut Session,
    spec: &Spec,
    detail: &str,
    recorder: &mut dyn Recorder,
) -> Result<Finished, Error> {
    let id = spec.id.unwrap_or_else(RunId::new);
    session.unstarted(spec, id, &TargetFacts::default(), detail, recorder)
}

fn obstacle(error: dataset::Error) -> Obstacle {
    let is_stop = matches!(error, dataset::Error::Interrupted { .. });
    Obstacle { detail: error.to_string(), is_stop }
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

/// Warnings that were known before the run began, and who left it while it ran.
#[derive(Default)]
struct Notes<'a> {
    warnings: Vec<Warning>,
    company: Option<&'a Company>,
    /// Those who had left before.
    gone: Vec<(String, ExitStatus)>,
}

impl Observer for Notes<'_> {
    fn finish(&mut self, run: &mut Run, _: &mut Keep<'_>) {
        let gone = self.company.map(Company::gone).unwrap_or_default();
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
