//! `metier run`: measures a command, a container or a pod without disturbing it.
//!
//! A command keeps stdin, stdout, stderr and its exit code. Messages of metier go to stderr, after
//! it. Possible failures (run file, settings, store, file of `--save-json`) are checked before it
//! starts.

mod by_turns;
mod check_output;
pub mod fetch_progress;
pub mod flags;
pub mod inference_run;
mod progress;
mod save_json;
mod summary;
mod under_advice;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use metier_device::identity;
use metier_linux::{KernelRoots, signals};
use metier_measure::{
    Error, MeasureOptions, MeasureSession, NoRecorder, RunRecorder, StoreRecorder, leftovers,
};
use metier_session::corunner::log::{CoRunLog, RunGroupRole};
use metier_session::corunner::{CoRunMembership, CompanionLauncher};
use metier_session::queue::MeasuringProgram;
use metier_session::runfile::{self, CheckedRun, FieldOrigins, GivenFlag, RunFile, RunFileFaults};
use metier_session::{BatchEvent, BatchIdentity, BatchResult, SetupOptions, measure_batch};
use metier_store::SpoolNotice;
use metier_types::{BatchId, RunId};

use super::CommandContext;
use crate::config::{FlagSettings, data_folder, dataset_folder, runtime_folder};
use crate::console::print_error;
use crate::exit::{CliExitCode, UsageError, error_line, exit_code_of, usage_error};
use crate::output::OutputFile;
use under_advice::AdvisedRuns;

const EXAMPLES: &str = "Examples:
  metier run -- make -j2                                 measure a command
  metier run detector.yaml                               measure what a run file says; --check only looks at it
  metier run --name sort --repeat 10 --warmup 1 -- sort big.txt
  metier run --alternate --name before,after -- ./old/bench --- ./new/bench      by turns, then compared
  metier run --timeout 60s --tag nightly -- ./train.sh
  metier run --under-advice last -- ./train.sh           again, under what was advised for the latest run
  metier run --interval 10ms --save-json run.json -- ./burst
  metier run --image python:3.12 --limit-cpu 0.5 --limit-memory 1.5Gi --mount .:/app:ro -- python3 /app/x.py";

const AFTER: &str = "Without `--`, a word that ends in .yaml or .yml, a .json that is there, or - for stdin is a run file; flags may follow it, \
and words after `--` are its arguments. Flags go before its fields, and its fields before settings; docs/reference/run-file.md has every field.

A command keeps stdin, stdout, stderr and its exit code (with --repeat the first one that is not 0). \
Other exit codes: 124 time limit, 125 metier itself failed, 126 not executable, 127 not found, 128+n ended by signal n, 130 interrupted.";

/// Measure a command, a container or a pod
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = AFTER)]
pub struct RunArgs {
    /// Run file in YAML or JSON; - is stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Check everything and show what would run, but run nothing
    #[arg(long)]
    check: bool,
    /// Run under the limits advised for earlier runs, and say what that cost
    #[arg(long, value_name = "RUN")]
    under_advice: Option<String>,
    /// Measure two commands or run files by turns, A --- B, and compare them; 10 pairs without
    /// --repeat
    #[arg(long, conflicts_with_all = ["check", "run_id", "batch", "company"])]
    alternate: bool,
    #[command(flatten)]
    flags: flags::RunFileFlags<flags::AllFlagGroups>,
    #[command(flatten)]
    cache: flags::DatasetCacheArgs,
    #[command(flatten)]
    keeping: flags::RecordKeepingArgs,
    /// Id of the run, chosen by the caller
    #[arg(long, hide = true, value_name = "ID")]
    run_id: Option<RunId>,
    /// Id of the batch, chosen by the caller
    #[arg(long, hide = true, value_name = "ID")]
    batch: Option<BatchId>,
    /// Role of this run as a co-runner of another run
    #[arg(long, hide = true, value_name = "ROLE", requires = "company_log")]
    company: Option<CoRunnerRole>,
    /// File through which co-runners exchange events
    #[arg(long, hide = true, value_name = "FILE", requires = "company")]
    company_log: Option<PathBuf>,
    /// Base folder of relative paths in the run file [default: the file's folder]
    #[arg(long, hide = true, value_name = "FOLDER")]
    paths_from: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required_unless_present_any = ["file", "image", "pod"], trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Role of a co-runner.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CoRunnerRole {
    Companion,
    Neighbour,
}

impl RunArgs {
    /// The settings that these flags set.
    pub fn setting_values(&self) -> FlagSettings {
        vec![("run.dataset_cache_limit", self.cache.dataset_cache_limit.clone())]
    }

    fn has_target(&self) -> bool {
        self.file.is_some() || self.flags.has("image") || self.flags.has("pod")
    }

    /// The arguments with `--file` before a run file that is the first word. Later words are then
    /// parsed as flags.
    pub fn with_file_flag(&self, typed: &[OsString]) -> Option<Vec<OsString>> {
        let first = self.command.first().filter(|_| !self.alternate);
        let first = first.filter(|word| !self.has_target() && runfile::is_run_file(word))?;
        let (before, words) = typed.split_at(typed.len().checked_sub(self.command.len())?);
        if before.last().is_some_and(|word| word == "--") {
            return None;
        }
        Some([before, &["--file".into(), first.clone()], &words[1..]].concat())
    }

    /// A flag that only applies to a run that starts at once.
    pub fn flag_unfit_for_session(&self) -> Option<&'static str> {
        let given = [
            ("--check", self.check),
            ("--under-advice", self.under_advice.is_some()),
            ("--alternate", self.alternate),
            ("--no-store", self.keeping.no_store),
            ("--save-json", self.keeping.save_json.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Measures the command; returns its exit code.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let done = match self.check {
            true => self
                .load_advice(context)
                .and_then(|advised| {
                    let limits = advised.as_ref().map(AdvisedRuns::limit_flags).unwrap_or_default();
                    self.check_with_flags(context, &limits)
                })
                .and_then(|checked| check_output::print_checked(context, &checked))
                .map(|()| CliExitCode::OK),
            false if self.alternate => by_turns::measure_and_compare(self, context),
            false => self.measure_and_print(context),
        };
        done.or_else(report_faults).or_else(|error| {
            if self.check {
                return Err(error);
            }
            print_error(&error_line(&error));
            Ok(failure_code(&error))
        })
    }

    /// The run file with flags over it and settings under it, checked as a whole.
    pub fn check_run_file(&self, context: &CommandContext) -> anyhow::Result<CheckedRun> {
        self.check_with_flags(context, &[])
    }

    /// The same with the limits of the advice over the flags.
    fn check_with_flags(
        &self,
        context: &CommandContext,
        advised: &[GivenFlag],
    ) -> anyhow::Result<CheckedRun> {
        let flags = [&self.flags.given, advised].concat();
        self.check_target(context, self.file.as_deref(), &self.command, &flags)
    }

    fn check_target(
        &self,
        context: &CommandContext,
        path: Option<&Path>,
        words: &[OsString],
        given: &[GivenFlag],
    ) -> anyhow::Result<CheckedRun> {
        let (name, mut file, mut origins) = match path {
            Some(path) => {
                let (name, file, origins) = runfile::load(path, self.paths_from.as_deref())?;
                (Some(name), file, origins)
            }
            None => (None, RunFile::default(), FieldOrigins::default()),
        };
        match path.is_some() || self.has_target() {
            true if words.is_empty() => {}
            true => file.arguments = words.to_vec(),
            false => file.command = words.to_vec(),
        }
        file.apply_flags(given, &mut origins);
        apply_time_settings(context, &mut file, &mut origins)?;
        // Checked before anything is fetched.
        context.settings.size("run.dataset_cache_limit")?;
        let checked = if self.check { file.check_dry(&origins) } else { file.check(&origins) };
        Ok(checked.map_err(|faults| match &name {
            Some(name) => faults.in_file(name),
            None => faults,
        })?)
    }

    /// The advice of `--under-advice`.
    fn load_advice(&self, context: &CommandContext) -> anyhow::Result<Option<AdvisedRuns>> {
        let Some(text) = &self.under_advice else { return Ok(None) };
        if let Some(name) = AdvisedRuns::contradicted_flag(|name| self.flags.has(name)) {
            return Err(usage_error(format!(
                "--{name} is given with --under-advice, which sets it; want one of them"
            )));
        }
        AdvisedRuns::load(context, text).map(Some)
    }

    fn measure_and_print(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let advised = self.load_advice(context)?;
        let limits = advised.as_ref().map(AdvisedRuns::limit_flags).unwrap_or_default();
        let checked = self.check_with_flags(context, &limits)?;
        let part = |role| match role {
            CoRunnerRole::Companion => RunGroupRole::Companion,
            CoRunnerRole::Neighbour => RunGroupRole::Neighbour,
        };
        let job = MeasureJob {
            checked: &checked,
            order: BatchIdentity { id: self.batch, run: self.run_id },
            cache: self.cache.dataset_cache.clone(),
            weights: Vec::new(),
            membership: self
                .company
                .zip(self.company_log.as_deref())
                .map(|(role, log)| CoRunMembership { part: part(role), log: CoRunLog::at(log) }),
            keeping: &self.keeping,
        };
        let batch = job.measure(context)?;
        self.print_batch(context, &batch, checked.repeats)?;
        if let Some(advised) = advised.filter(|_| !context.console.quiet) {
            context.console.print_stderr(&format!("  {}\n", advised.cost_text(&batch.runs)?));
        }
        Ok(CliExitCode::from_raw(batch.failure.unwrap_or(0)))
    }

    fn print_batch(&self, context: &CommandContext, batch: &BatchResult, repeats: u32) -> anyhow::Result<()> {
        if context.console.quiet {
            return Ok(());
        }
        let (flag, paint) = (!self.keeping.no_store && !batch.is_unkept, context.console.paint_err);
        let text = match batch.runs.as_slice() {
            [run] if repeats == 1 => summary::single_summary(run, flag, paint),
            runs => summary::batch_summary(runs, &batch.warmups, repeats, flag, paint)?,
        };
        context.console.print_stderr(&text);
        Ok(())
    }
}

/// Fills durations that neither a flag nor the file gives from the settings.
fn apply_time_settings(
    context: &CommandContext,
    file: &mut RunFile,
    origins: &mut FieldOrigins,
) -> anyhow::Result<()> {
    for (field, time) in [
        ("timeout", &mut file.timeout),
        ("grace", &mut file.grace),
        ("linger", &mut file.linger),
        ("interval", &mut file.interval),
    ] {
        let name = format!("run.{field}");
        if time.is_none() {
            *time = context.settings.duration(&name)?;
            origins.flag(field, context.settings.source_of(&name));
        }
    }
    Ok(())
}

/// A checked run with its measuring options.
struct MeasureJob<'a> {
    checked: &'a CheckedRun,
    order: BatchIdentity,
    /// Cache folder of datasets, if not the default.
    cache: Option<PathBuf>,
    /// Further files whose page-cache state follows the dataset's.
    weights: Vec<PathBuf>,
    membership: Option<CoRunMembership>,
    keeping: &'a flags::RecordKeepingArgs,
}

impl MeasureJob<'_> {
    /// Measures, stores and saves the runs, without a summary.
    fn measure(self, context: &CommandContext) -> anyhow::Result<BatchResult> {
        let repeats = self.checked.repeats;
        let save = self.keeping.save_json.as_deref();
        let save = save.map(|path| OutputFile::open("--save-json", path)).transpose()?;
        let checked = self.checked;
        let (mut batch, is_spooled) = self.with_session(context, 1, |measuring| {
            let MeasuringSetup { mut options, order, session, recorder, on_event } = measuring;
            let options = options.pop().context("no setup options")?;
            measure_batch(checked, options, order, session, recorder, on_event).map_err(name_flag_in_error)
        })?;
        batch.is_unkept |= is_spooled;
        if let Some(save) = save {
            save_json::write_json(save, &batch.runs, repeats > 1)
                .context("the command ran, but its record was not saved")?;
        }
        Ok(batch)
    }

    /// Opens the measuring session and the recorder, and measures with them. Also returns whether
    /// runs were spooled, because the store could not take them.
    fn with_session<R>(
        self,
        context: &CommandContext,
        batches: u32,
        measure: impl FnOnce(MeasuringSetup<'_>) -> anyhow::Result<R>,
    ) -> anyhow::Result<(R, bool)> {
        let roots = KernelRoots::default();
        let device = identity::identify_device(&roots, data_folder().as_deref())?;
        // The session blocks signals first: threads of a store must not receive them.
        let options =
            MeasureOptions { roots: roots.clone(), runtime_dir: runtime_folder(), device: device.clone() };
        let mut session = MeasureSession::open(options)?;
        super::sweep_jobs();
        let sink = if self.keeping.no_store { None } else { Some(context.run_sink()?) };
        let mut recorder: Box<dyn RunRecorder> = match &sink {
            None => {
                leftovers::sweep_groups(&roots);
                Box::new(NoRecorder)
            }
            Some(sink) => {
                match sink.store() {
                    Some(store) => drop(leftovers::sweep_leftovers(&roots, &store, &device)?),
                    None => drop(leftovers::sweep_groups(&roots)),
                }
                Box::new(StoreRecorder::new(sink.clone(), &device))
            }
        };
        let (runtime, launch) = (runtime_folder(), launch_spec(context, self.keeping)?);
        let fetching = fetch_progress::FetchProgress::new(&context.console);
        let each = self.checked.warmup + self.checked.repeats;
        let mut progress = progress::RepetitionProgress::new(&context.console, each * batches);
        let cache_limit = context.settings.size("run.dataset_cache_limit")?;
        let setup_options = || SetupOptions {
            cache: self.cache.clone().or_else(dataset_folder),
            weights: self.weights.clone(),
            cache_limit,
            progress: &fetching,
            launcher: CompanionLauncher {
                launch: &launch,
                folder: &runtime,
                is_quiet: context.console.quiet,
                has_store: !self.keeping.no_store,
                is_stopped: &signals::is_stop_pending,
            },
            membership: self.membership.clone(),
        };
        let mut on_event = |event: BatchEvent<'_>| match event {
            BatchEvent::Prepared => fetching.finish(),
            BatchEvent::Finished(run, took) => progress.report_finished(run, took),
            BatchEvent::Unkept(error) => {
                print_error(&format!(
                    "the command ran, but its run was not kept: {}",
                    error_line(&error.into())
                ));
            }
            BatchEvent::Failed { repetition, repetitions, error } => {
                let error = error_line(&error.into());
                print_error(&format!("repetition {repetition} of {repetitions}: {error}"));
            }
            // Without quiet, the summary includes it.
            BatchEvent::Unstarted(detail) if context.console.quiet => {
                print_error(&format!("it was not started: {detail}"));
            }
            BatchEvent::Unstarted(_) => {}
        };
        let measured = measure(MeasuringSetup {
            options: (0..batches).map(|_| setup_options()).collect(),
            order: &self.order,
            session: &mut session,
            recorder: recorder.as_mut(),
            on_event: &mut on_event,
        });
        let notice = sink.and_then(|sink| sink.take_notice());
        notice.iter().for_each(|notice| warn_spooled(context, notice));
        Ok((measured?, notice.is_some()))
    }
}

/// Says where runs wait that the store could not take, and what delivers them.
fn warn_spooled(context: &CommandContext, notice: &SpoolNotice) {
    let SpoolNotice { runs, spool, cause } = notice;
    context.console.warn(format!(
        "{runs} run(s) spooled in {}: {cause}; the next command that opens the store delivers them, and so does `metier up`",
        spool.display()
    ));
}

/// What batches are measured with.
struct MeasuringSetup<'a> {
    /// One for each batch.
    options: Vec<SetupOptions<'a>>,
    order: &'a BatchIdentity,
    session: &'a mut MeasureSession,
    recorder: &'a mut dyn RunRecorder,
    on_event: &'a mut dyn FnMut(BatchEvent<'_>),
}

/// The command line of this program for co-runners.
fn launch_spec(
    context: &CommandContext,
    keeping: &flags::RecordKeepingArgs,
) -> anyhow::Result<MeasuringProgram> {
    match keeping.no_store {
        true => {
            let program = std::env::current_exe().context("cannot tell which program this is")?;
            Ok(MeasuringProgram { program, flags: Vec::new(), hidden: Vec::new() })
        }
        false => super::session::work::launch_spec(context, &context.settings.store()?),
    }
}

/// Prints the faults of the run file, one per line; returns any other error.
pub fn report_faults(error: anyhow::Error) -> anyhow::Result<CliExitCode> {
    let faults = error.downcast::<RunFileFaults>()?;
    faults.iter().for_each(|fault| print_error(&fault.to_string()));
    Ok(CliExitCode::USAGE)
}

/// An invalid specification comes from the command line: names its flag.
fn name_flag_in_error(error: Error) -> anyhow::Error {
    match error {
        Error::Spec { field: "command", got, want } => {
            usage_error(format!("the command is {got}; want {want}"))
        }
        Error::Spec { field, got, want } => usage_error(format!("--{field} is {got}; want {want}")),
        other => other.into(),
    }
}

/// The exit code of metier's own failure. Usage errors keep 2; others differ from codes of the
/// command.
fn failure_code(error: &anyhow::Error) -> CliExitCode {
    match error.downcast_ref::<Error>() {
        Some(measuring) => CliExitCode::from_raw(measuring.exit_code()),
        None if error.is::<UsageError>() => exit_code_of(error),
        None => CliExitCode::OWN_FAILURE,
    }
}
