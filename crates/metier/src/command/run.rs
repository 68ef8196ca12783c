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
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use metier_device::identity;
use metier_linux::{Roots, signals};
use metier_measure::{Error, NoRecorder, Options, Recorder, Session, StoreRecorder, leftovers};
use metier_session::corunner::log::{Log, Part};
use metier_session::corunner::{CompanionLauncher, Membership};
use metier_session::queue::Launch;
use metier_session::runfile::{self, Checked, Faults, Origins, RunFile};
use metier_session::{BatchEvent, BatchOrder, BatchResult, SetupOptions, measure_batch};
use metier_types::{BatchId, RunId};

use super::Room;
use crate::config::{Typed, data_folder, dataset_folder, runtime_folder};
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
    flags: flags::RunFlags<flags::EveryGroup>,
    #[command(flatten)]
    cache: flags::DatasetCache,
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
        vec![("run.dataset_cache_limit", self.cache.dataset_cache_limit.clone())]
    }

    fn has_target(&self) -> bool {
        self.file.is_some() || self.flags.has("image") || self.flags.has("pod")
    }

    /// What was typed with the run file behind its flag, where the first word is one; what follows it is then flags.
    pub fn with_file(&self, typed: &[OsString]) -> Option<Vec<OsString>> {
        let first = self.command.first().filter(|word| !self.has_target() && runfile::is_run_file(word))?;
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
        done.or_else(complain_of_faults).or_else(|error| {
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
                let (name, file, origins) = runfile::load(path, self.paths_from.as_deref())?;
                (Some(name), file, origins)
            }
            None => (None, RunFile::default(), Origins::default()),
        };
        match self.has_target() {
            true if self.command.is_empty() => {}
            true => file.arguments.clone_from(&self.command),
            false => file.command.clone_from(&self.command),
        }
        file.lay_over(&self.flags.given, &mut origins);
        settle_times(room, &mut file, &mut origins)?;
        // Told before anything is fetched.
        room.settings.size("run.dataset_cache_limit")?;
        let checked = if self.check { file.check_dry(&origins) } else { file.check(&origins) };
        Ok(checked.map_err(|faults| match &name {
            Some(name) => faults.of(name),
            None => faults,
        })?)
    }

    fn measure(&self, room: &Room) -> anyhow::Result<Code> {
        let checked = self.checked(room)?;
        let part = |role| match role {
            CompanyRole::Companion => Part::Companion,
            CompanyRole::Neighbour => Part::Neighbour,
        };
        let job = MeasureJob {
            checked: &checked,
            order: BatchOrder { id: self.batch, run: self.run_id },
            cache: self.cache.dataset_cache.clone(),
            weights: Vec::new(),
            membership: self
                .company
                .zip(self.company_log.as_deref())
                .map(|(role, log)| Membership { part: part(role), log: Log::at(log) }),
            keeping: &self.keeping,
        };
        let batch = job.measure(room)?;
        if !room.console.quiet {
            let kept = !self.keeping.no_store && !batch.is_unkept;
            let text = match batch.runs.as_slice() {
                [run] if checked.repeats == 1 => summary::single(run, kept, room.console.paint_err),
                runs => summary::batch(runs, &batch.warmups, checked.repeats, kept, room.console.paint_err)?,
            };
            room.console.say(&text);
        }
        Ok(Code::of(batch.failure.unwrap_or(0)))
    }
}

/// Times that neither a flag nor the file says come from the settings.
fn settle_times(room: &Room, file: &mut RunFile, origins: &mut Origins) -> anyhow::Result<()> {
    for (field, time) in [
        ("timeout", &mut file.timeout),
        ("grace", &mut file.grace),
        ("linger", &mut file.linger),
        ("interval", &mut file.interval),
    ] {
        let name = format!("run.{field}");
        if time.is_none() {
            *time = room.settings.duration(&name)?;
            origins.flag(field, room.settings.source_of(&name));
        }
    }
    Ok(())
}

/// A checked run, and what else its measuring takes.
struct MeasureJob<'a> {
    checked: &'a Checked,
    order: BatchOrder,
    /// Where fetched datasets are kept, if not where they usually are.
    cache: Option<PathBuf>,
    /// Files beside the dataset that are as cold or warm as it.
    weights: Vec<PathBuf>,
    membership: Option<Membership>,
    keeping: &'a flags::Keeping,
}

impl MeasureJob<'_> {
    /// Measures, keeps and saves, and says nothing of it.
    fn measure(self, room: &Room) -> anyhow::Result<BatchResult> {
        let repeats = self.checked.repeats;
        let save = self.keeping.save_json.as_deref();
        let save = save.map(|path| Destination::open("--save-json", path)).transpose()?;
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
        let batch = self.measure_in(room, &mut session, recorder.as_mut())?;
        if let Some(save) = save {
            save::write(save, &batch.runs, repeats > 1)
                .context("the command ran, but its record was not saved")?;
        }
        Ok(batch)
    }

    fn measure_in(
        self,
        room: &Room,
        session: &mut Session,
        recorder: &mut dyn Recorder,
    ) -> anyhow::Result<BatchResult> {
        let (runtime, launch) = (runtime_folder(), launch(room, self.keeping)?);
        let fetching = fetching::Fetching::new(&room.console);
        let mut progress = progress::Progress::new(&room.console, self.checked.warmup + self.checked.repeats);
        let options = SetupOptions {
            cache: self.cache.or_else(dataset_folder),
            weights: self.weights,
            cache_limit: room.settings.size("run.dataset_cache_limit")?,
            progress: &fetching,
            launcher: CompanionLauncher {
                launch: &launch,
                folder: &runtime,
                is_quiet: room.console.quiet,
                has_store: !self.keeping.no_store,
                is_stopped: &signals::is_stop_pending,
            },
            membership: self.membership,
        };
        let mut on_event = |event: BatchEvent<'_>| match event {
            BatchEvent::Prepared => fetching.end(),
            BatchEvent::Finished(run, took) => progress.finished(run, took),
            BatchEvent::Unkept(error) => {
                complain(&format!("the command ran, but its run was not kept: {}", one_line(&error.into())));
            }
            BatchEvent::Failed { repetition, repetitions, error } => {
                let error = one_line(&error.into());
                complain(&format!("repetition {repetition} of {repetitions}: {error}"));
            }
            // The summary says it too.
            BatchEvent::Unstarted(detail) if room.console.quiet => {
                complain(&format!("it was not started: {detail}"));
            }
            BatchEvent::Unstarted(_) => {}
        };
        measure_batch(self.checked, options, &self.order, session, recorder, &mut on_event).map_err(flagged)
    }
}

/// How this program starts itself for co-runners.
fn launch(room: &Room, keeping: &flags::Keeping) -> anyhow::Result<Launch> {
    match keeping.no_store {
        true => {
            let program = std::env::current_exe().context("cannot tell which program this is")?;
            Ok(Launch { program, flags: Vec::new(), hidden: Vec::new() })
        }
        false => super::session::work::launch(room, &room.settings.store()?),
    }
}

/// Says what is wrong in what was typed, a line each; any other error is given back.
pub fn complain_of_faults(error: anyhow::Error) -> anyhow::Result<Code> {
    let faults = error.downcast::<Faults>()?;
    faults.iter().for_each(|fault| complain(&fault.to_string()));
    Ok(Code::USAGE)
}

/// A specification that makes no sense came from what was typed.
fn flagged(error: Error) -> anyhow::Error {
    match error {
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
