//! `metier run`: measures a command, a container or a pod without standing in its way.
//!
//! A command keeps stdin, stdout, stderr and its exit code; what we have to say goes to stderr, after it.
//! What could stop us (the run file, the settings, the store, the file for `--save-json`) is tried before it starts.

mod effective;
pub mod fetching;
pub mod flags;
pub mod graph;
mod progress;
mod save;
pub mod source;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use metier_device::identity;
use metier_linux::Roots;
use metier_measure::spec::Target;
use metier_measure::{Error, NoRecorder, Options, Recorder, Session, Spec, StoreRecorder, leftovers};
use metier_session::company::log::{Log, Part};
use metier_session::company::{Means, Membership};
use metier_session::queue::Launch;
use metier_session::runfile::{Checked, Origins, RunFile, quantity};
use metier_session::{Surroundings, Ways};
use metier_types::{BatchId, Cause, GraphUse, Run as Record, RunId};

use super::Room;
use crate::config::{Origin, Typed, data_folder, dataset_folder, runtime_folder};
use crate::console::complain;
use crate::exit::{Code, Usage, code_of, one_line, usage};
use crate::output::Destination;

const EXAMPLES: &str = "Examples:
  metier run -- make -j2                                 measure a command
  metier run detector.yaml                               measure what a run file says; --check only looks at it
  metier run --name sort --repeat 10 --warmup 1 -- sort big.txt
  metier run --timeout 60s --tag nightly -- ./train.sh
  metier run --interval 10ms --save-json run.json -- ./burst
  metier run --image python:3.12 --limit-cpu 0.5 --limit-memory 1.5Gi --mount .:/app:ro -- python3 /app/x.py";

const AFTER: &str = "Without `--`, a word that ends in .yaml or .yml, a .json that is there, or - for stdin is a run file; flags may follow it, \
and words after `--` are its arguments. Flags go before its fields, and its fields before settings; docs/reference/run-file.md has every field.

A command keeps stdin, stdout, stderr and its exit code (with --repeat the first one that is not 0). \
Other exit codes: 124 time limit, 125 metier itself failed, 126 not executable, 127 not found, 128+n ended by signal n, 130 interrupted.";

/// Measure a command, a container or a pod
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = AFTER)]
pub struct Run {
    /// What to run and how, in YAML or JSON; - is stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Check everything and show what would run, but run nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    measuring: flags::Measuring,
    #[command(flatten)]
    surroundings: flags::Surroundings,
    #[command(flatten)]
    datasets: flags::Datasets,
    #[command(flatten)]
    images: flags::Images,
    #[command(flatten)]
    keeping: flags::Keeping,
    /// The identity that whoever starts us has given to the run
    #[arg(long, hide = true, value_name = "ID")]
    run_id: Option<RunId>,
    /// The batch of its runs, for whoever has to find them
    #[arg(long, hide = true, value_name = "ID")]
    batch: Option<BatchId>,
    /// What it is there for, where it keeps another run company
    #[arg(long, hide = true, value_name = "ROLE", requires = "company_log")]
    company: Option<CompanyRole>,
    /// Where runs that keep each other company talk
    #[arg(long, hide = true, value_name = "FILE", requires = "company")]
    company_log: Option<PathBuf>,
    /// Where relative paths of the run file are meant from, instead of where it is
    #[arg(long, hide = true, value_name = "FOLDER")]
    paths_from: Option<PathBuf>,
    /// The graph that the command computes, where it does
    #[arg(skip)]
    graph: Option<GraphUse>,
    /// Files that belong to the dataset: weights beside that graph
    #[arg(skip)]
    beside: Vec<PathBuf>,
    /// The command and its arguments
    #[arg(required_unless_present_any = ["file", "image", "pod"], trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Why a run keeps another one company.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompanyRole {
    Companion,
    Neighbour,
}

impl Run {
    /// What of it is a setting.
    pub fn typed(&self) -> Typed {
        vec![
            ("run.timeout", self.surroundings.timeout.clone()),
            ("run.grace", self.surroundings.grace.clone()),
            ("run.linger", self.surroundings.linger.clone()),
            ("run.interval", self.measuring.interval.clone()),
            ("run.dataset_cache_limit", self.datasets.dataset_cache_limit.clone()),
        ]
    }

    /// What was typed with the run file behind its flag, where the first word is one; what follows it is then flags.
    pub fn with_file(&self, typed: &[OsString]) -> Option<Vec<OsString>> {
        let is_otherwise = self.file.is_some() || self.images.image.is_some() || self.images.pod.is_some();
        let first = self.command.first().filter(|word| !is_otherwise && source::is_run_file(word))?;
        let (before, words) = typed.split_at(typed.len().checked_sub(self.command.len())?);
        if before.last().is_some_and(|word| word == "--") {
            return None;
        }
        Some([before, &["--file".into(), first.clone()], &words[1..]].concat())
    }

    /// A flag that only means something for a run that begins at once.
    pub fn unfit_for_later(&self) -> Option<&'static str> {
        let given = [
            ("--check", self.check),
            ("--no-store", self.keeping.no_store),
            ("--save-json", self.keeping.save_json.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Measures; gives the command's own exit code.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let done = match self.check {
            true => {
                self.checked(room).and_then(|checked| effective::print(room, &checked)).map(|()| Code::OK)
            }
            false => self.measure(room),
        };
        done.or_else(source::complained).or_else(|error| {
            if self.check {
                return Err(error);
            }
            complain(&one_line(&error));
            Ok(failure(&error))
        })
    }

    /// The run file, what was typed over it, and settings for what neither says: checked as a whole.
    pub fn checked(&self, room: &Room) -> anyhow::Result<Checked> {
        let (name, mut file, mut origins) = match &self.file {
            Some(path) => {
                let (name, file, origins) = source::load(path, self.paths_from.as_deref())?;
                (Some(name), file, origins)
            }
            None => (None, RunFile::default(), Origins::default()),
        };
        let has_target = self.file.is_some() || self.images.image.is_some() || self.images.pod.is_some();
        let words = || self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        match has_target {
            true if self.command.is_empty() => {}
            true => file.arguments = words(),
            false if self.command.first().is_some_and(|program| program.is_empty()) => {
                return Err(usage("the command is empty; want a program to run after `--`"));
            }
            false => file.command = words(),
        }
        self.images.lay_over(&mut file, &mut origins)?;
        self.surroundings.lay_over(&mut file, &mut origins)?;
        self.datasets.lay_over(&mut file, &mut origins)?;
        self.measuring.lay_over(&mut file, &mut origins)?;
        self.keeping.lay_over(&mut file, &mut origins);
        let checked = if self.check { file.check_dry(&origins) } else { file.check(&origins) };
        let mut checked = checked.map_err(|faults| source::Faulty { name, faults })?;
        if !has_target && let Target::Command(command) = &mut checked.spec.target {
            // To the last byte: what is not UTF-8 would be changed by the way through text.
            let wrapped = command.arguments.len() + 1 - self.command.len();
            let all = std::iter::once(command.program.clone()).chain(command.arguments.clone());
            let mut all = all.take(wrapped).chain(self.command.iter().cloned());
            command.program = all.next().unwrap_or_default();
            command.arguments = all.collect();
        }
        self.settle(room, &mut checked)?;
        checked.spec.graph = self.graph.clone();
        Ok(checked)
    }

    /// Times that were typed go before the file's, and the file's before other settings.
    fn settle(&self, room: &Room, checked: &mut Checked) -> anyhow::Result<()> {
        let (spec, file) = (&mut checked.spec, &mut checked.file);
        let setting = |name: &str, is_in_file: bool| -> anyhow::Result<Option<Duration>> {
            let is_typed = room.settings.get(name).is_some_and(|s| matches!(s.origin, Origin::Flag(_)));
            if is_in_file && !is_typed { Ok(None) } else { room.settings.duration(name) }
        };
        if let Some(timeout) = setting("run.timeout", file.timeout.is_some())? {
            spec.timeout = Some(timeout);
        }
        spec.grace = setting("run.grace", file.grace.is_some())?.unwrap_or(spec.grace);
        spec.linger = setting("run.linger", file.linger.is_some())?.unwrap_or(spec.linger);
        spec.interval = setting("run.interval", file.interval.is_some())?.unwrap_or(spec.interval);
        // Told before anything is fetched.
        room.settings.size("run.dataset_cache_limit")?;
        spec.check().map_err(|error| flagged(room, error))?;
        file.timeout = spec.timeout.map(quantity::duration_text);
        file.duration = spec.duration.map(quantity::duration_text);
        file.grace = Some(quantity::duration_text(spec.grace));
        file.linger = Some(quantity::duration_text(spec.linger));
        file.interval = Some(quantity::duration_text(spec.interval));
        Ok(())
    }

    fn measure(&self, room: &Room) -> anyhow::Result<Code> {
        let checked = self.checked(room)?;
        let batch = self.batch(room, &checked)?;
        if !room.console.quiet {
            let kept = !self.keeping.no_store && !batch.is_unkept;
            let text = match batch.runs.as_slice() {
                [run] if checked.repeats == 1 => summary::single(run, kept, room.console.paint_err),
                runs => summary::batch(runs, &batch.warmups, checked.repeats, kept, room.console.paint_err)?,
            };
            room.console.say(&text);
        }
        Ok(batch.code())
    }

    /// Measures, keeps and saves, and says nothing of it.
    fn batch(&self, room: &Room, checked: &Checked) -> anyhow::Result<Batch> {
        let repeats = checked.repeats;
        let save = self
            .keeping
            .save_json
            .as_deref()
            .map(|path| Destination::open("--save-json", path))
            .transpose()?;
        let roots = Roots::default();
        let device = identity::this(&roots, data_folder().as_deref())?;
        // The session takes over signals first: threads that a store starts must not be ended by them.
        let options = Options { roots: roots.clone(), runtime_dir: runtime_folder(), device: device.clone() };
        let mut session = Session::open(options)?;
        let mut recorder: Box<dyn Recorder> = match self.keeping.no_store {
            true => Box::new(NoRecorder),
            false => {
                let store = room.writable_store()?;
                leftovers::sweep(&roots, &store, &device)?;
                Box::new(StoreRecorder::new(store, &device))
            }
        };
        let batch = self.batch_of(room, checked, &mut session, recorder.as_mut())?;
        if let Some(save) = save {
            save::write(save, &batch.runs, repeats > 1)
                .context("the command ran, but its record was not saved")?;
        }
        Ok(batch)
    }

    /// Gets ready what is around the runs, and measures them; what cannot be had is why they never started.
    fn batch_of(
        &self,
        room: &Room,
        checked: &Checked,
        session: &mut Session,
        recorder: &mut dyn Recorder,
    ) -> anyhow::Result<Batch> {
        let (runtime, launch) = (runtime_folder(), self.launch(room)?);
        let fetching = fetching::Fetching::new(&room.console);
        let part = |role| match role {
            CompanyRole::Companion => Part::Companion,
            CompanyRole::Neighbour => Part::Neighbour,
        };
        let ways = Ways {
            cache: self.datasets.dataset_cache.clone().or_else(dataset_folder),
            beside: self.beside.clone(),
            cache_limit: room.settings.size("run.dataset_cache_limit")?,
            progress: &fetching,
            means: Means {
                launch: &launch,
                folder: &runtime,
                is_quiet: room.console.quiet,
                has_store: !self.keeping.no_store,
                is_stopped: &signals_wait,
            },
            membership: self
                .company
                .zip(self.company_log.as_deref())
                .map(|(role, log)| Membership { part: part(role), log: Log::at(log) }),
        };
        let prepared = Surroundings::prepare(checked, ways);
        fetching.end();
        match prepared {
            Ok(mut surroundings) => self.repetitions(room, checked, &mut surroundings, session, recorder),
            Err(obstacle) => {
                let mut spec = checked.spec.clone();
                (spec.id, spec.repetitions) = (self.run_id, checked.repeats);
                spec.is_company = self.company.is_some();
                spec.batch = self.batch.unwrap_or_else(BatchId::new);
                let finished = metier_session::unstarted(session, &spec, &obstacle.detail, recorder)?;
                tell_unstarted(room, &finished.run);
                let code = if take_waiting_signals() || obstacle.is_stop {
                    Code::of(130)
                } else {
                    Code::OWN_FAILURE
                };
                Ok(Batch {
                    runs: vec![finished.run],
                    is_unkept: finished.unkept.is_some(),
                    failed: Some(code),
                    ..Batch::default()
                })
            }
        }
    }

    /// How this program starts itself for company.
    fn launch(&self, room: &Room) -> anyhow::Result<Launch> {
        match self.keeping.no_store {
            true => {
                let program = std::env::current_exe().context("cannot tell which program this is")?;
                Ok(Launch { program, flags: Vec::new(), hidden: Vec::new() })
            }
            false => super::session::work::launch(room, &room.settings.store()?),
        }
    }

    fn repetitions(
        &self,
        room: &Room,
        checked: &Checked,
        surroundings: &mut Surroundings<'_>,
        session: &mut Session,
        recorder: &mut dyn Recorder,
    ) -> anyhow::Result<Batch> {
        let mut batch = Batch::default();
        let mut progress = progress::Progress::new(&room.console, checked.warmup + checked.repeats);
        let id = self.batch.unwrap_or_else(BatchId::new);
        let plan = (1..=checked.warmup).map(|n| (true, n)).chain((1..=checked.repeats).map(|n| (false, n)));
        for (warmup, repetition) in plan {
            let repetitions = if warmup { checked.warmup } else { checked.repeats };
            let mut spec = Spec { repetition, repetitions, warmup, batch: id, ..checked.spec.clone() };
            spec.is_company = self.company.is_some();
            if let Some(CompanyRole::Neighbour) = self.company {
                // It goes on for as long as it is wanted: nobody knows of how many this is one.
                spec.repetitions = repetition;
            }
            spec.id = self.run_id.filter(|_| !warmup && repetition == 1);
            let started = Instant::now();
            let finished = match surroundings.run(session, &spec, recorder) {
                Ok(finished) => finished,
                // What was measured so far is not lost to a later failure.
                Err(error) if !batch.runs.is_empty() => {
                    complain(&format!(
                        "repetition {repetition} of {repetitions}: {}",
                        one_line(&error.into())
                    ));
                    batch.failed = Some(Code::OWN_FAILURE);
                    break;
                }
                Err(error) => return Err(flagged(room, error)),
            };
            let code = code_for(&finished.run);
            progress.finished(&finished.run, started.elapsed());
            batch.is_unkept = finished.unkept.is_some();
            if let Some(error) = finished.unkept {
                complain(&format!("the command ran, but its run was not kept: {}", one_line(&error.into())));
                batch.failed = Some(Code::OWN_FAILURE);
            }
            match warmup {
                true => batch.warmups.push(finished.run),
                false => batch.runs.push(finished.run),
            }
            if batch.failed.is_none() && code != Code::OK {
                batch.failed = Some(code);
            }
            // What could not start once cannot the next time either.
            let last = if warmup { batch.warmups.last() } else { batch.runs.last() };
            if let Some(run) = last.filter(|run| is_unstarted(run)) {
                tell_unstarted(room, run);
                if take_waiting_signals() {
                    batch.failed = Some(Code::of(130));
                }
                break;
            }
            if batch.is_unkept
                || finished.stop.is_some()
                || (checked.file.stop_on_failure && code != Code::OK)
            {
                break;
            }
        }
        Ok(batch)
    }
}

#[derive(Default)]
struct Batch {
    warmups: Vec<Record>,
    runs: Vec<Record>,
    /// The first exit code that was not 0.
    failed: Option<Code>,
    /// The last one is not in the store.
    is_unkept: bool,
}

impl Batch {
    fn code(&self) -> Code {
        self.failed.unwrap_or(Code::OK)
    }
}

/// Why a run never started, for those who want no summary, which says it.
fn tell_unstarted(room: &Room, run: &Record) {
    if room.console.quiet {
        let detail = run.exit.as_ref().and_then(|exit| exit.detail.as_deref());
        complain(&format!("it was not started: {}", detail.unwrap_or("nobody knows why")));
    }
}

/// Whether a signal waits that asks us to stop. The session takes them as it measures; before that they wait.
fn signals_wait() -> bool {
    // SAFETY: the set is plain data that the call fills.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut set) == 0
            && [libc::SIGINT, libc::SIGTERM, libc::SIGHUP]
                .iter()
                .any(|signal| libc::sigismember(&set, *signal) == 1)
    }
}

/// Takes signals that wait, so that they do not end us where their turn would come; says whether there was one.
fn take_waiting_signals() -> bool {
    let is_waiting = signals_wait();
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set is plain data that the calls fill; only signals that wait and are blocked are taken.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        while is_waiting && libc::sigtimedwait(&set, std::ptr::null_mut(), &now) > 0 {}
    }
    is_waiting
}

fn is_unstarted(run: &Record) -> bool {
    run.exit.as_ref().is_some_and(|exit| exit.cause == Cause::Unstarted)
}

/// The exit code that a run stands for.
fn code_for(run: &Record) -> Code {
    let Some(exit) = &run.exit else { return Code::OWN_FAILURE };
    let own = exit.code.or(exit.signal.map(|signal| 128 + signal));
    Code::of(match exit.cause {
        _ if exit.planned => 0,
        Cause::Timeout => 124,
        Cause::Interrupted => 130,
        Cause::Oom => own.filter(|code| *code != 0).unwrap_or(137),
        Cause::Exited | Cause::Signalled => own.unwrap_or(125),
        Cause::Lost | Cause::Unstarted => 125,
    })
}

/// A specification that makes no sense came from a flag or a setting: say who set it.
fn flagged(room: &Room, error: Error) -> anyhow::Error {
    match error {
        Error::Spec { field, want, .. } if room.settings.get(&format!("run.{field}")).is_some() => {
            room.settings.wrong(&format!("run.{field}"), want)
        }
        Error::Spec { field: "command", got, want } => usage(format!("the command is {got}; want {want}")),
        Error::Spec { field, got, want } => usage(format!("--{field} is {got}; want {want}")),
        other => other.into(),
    }
}

/// The exit code of our own failure: usage stays usage, the rest must not look like the command's own.
fn failure(error: &anyhow::Error) -> Code {
    match error.downcast_ref::<Error>() {
        Some(measuring) => Code::of(measuring.exit_code()),
        None if error.is::<Usage>() => code_of(error),
        None => Code::OWN_FAILURE,
    }
}
