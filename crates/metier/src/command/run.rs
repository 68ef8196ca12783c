//! `metier run`: measures a command without standing in its way.
//!
//! The command keeps stdin, stdout, stderr and its exit code; what we have to say goes to stderr, after it.
//! What could stop us (the settings, the store, the file for `--save-json`) is tried before it starts.

mod progress;
mod save;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use metier_measure::{
    Error, NoRecorder, Options, Recorder, Roots, Session, Spec, StoreRecorder, device, leftovers,
};
use metier_types::{BatchId, Cause, Run as Record, WorkloadId};

use super::Room;
use crate::config::{Typed, data_folder, runtime_folder};
use crate::console::complain;
use crate::exit::{Code, Usage, code_of, one_line, usage};
use crate::output::Destination;

const EXAMPLES: &str = "Examples:
  metier run -- make -j2                                 measure a command
  metier run --name sort --repeat 10 --warmup 1 -- sort big.txt
  metier run --timeout 60s --tag nightly -- ./train.sh
  metier run --interval 10ms --save-json run.json -- ./burst";

const AFTER: &str = "The command keeps stdin, stdout, stderr and its exit code (with --repeat the first one that is not 0). \
Other exit codes: 124 time limit, 125 metier itself failed, 126 not executable, 127 not found, 128+n ended by signal n, 130 interrupted.";

/// Measure a command
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = AFTER)]
pub struct Run {
    /// Name of the workload; runs of one name belong together
    #[arg(long)]
    name: Option<WorkloadId>,
    /// A word to find the run by; may be given again
    #[arg(long, value_name = "WORD")]
    tag: Vec<String>,
    /// Measure so many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    /// Run so many times before, without counting those
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    warmup: u32,
    /// With --repeat, end at the first repetition that fails
    #[arg(long)]
    stop_on_failure: bool,
    /// Longest time it may take: 250ms, 1.5s, 2m, 1h [METIER_RUN_TIMEOUT; default none]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Time between INT, TERM and KILL when its time is up [METIER_RUN_GRACE; default 5s]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// How long processes that it leaves behind may go on [METIER_RUN_LINGER; default 10s]
    #[arg(long, value_name = "TIME")]
    linger: Option<String>,
    /// Time between samples of the time line, 1ms to 10s [METIER_RUN_INTERVAL; default 100ms]
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// File or folder that it works on; its content's digest is recorded
    #[arg(long, value_name = "PATH")]
    input: Option<PathBuf>,
    /// Write the record to this file too (metier.run/1; with --repeat metier.runs/1)
    #[arg(long, value_name = "FILE")]
    save_json: Option<PathBuf>,
    /// Keep nothing in the store
    #[arg(long)]
    no_store: bool,
    /// The batch of its runs, for whoever has to find them
    #[arg(long, hide = true, value_name = "ID")]
    batch: Option<BatchId>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    /// What of it is a setting.
    pub fn typed(&self) -> Typed {
        vec![
            ("run.timeout", self.timeout.clone()),
            ("run.grace", self.grace.clone()),
            ("run.linger", self.linger.clone()),
            ("run.interval", self.interval.clone()),
        ]
    }

    /// Measures; gives the command's own exit code.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        match self.measure(room) {
            Ok(code) => Ok(code),
            Err(error) => {
                complain(&one_line(&error));
                Ok(failure(&error))
            }
        }
    }

    fn spec(&self, room: &Room) -> anyhow::Result<Spec> {
        let mut words = self.command.iter().cloned();
        let program = words.next().ok_or_else(|| usage("nothing to run; want a command after `--`"))?;
        let mut spec = Spec::new(metier_measure::Command { program, arguments: words.collect() });
        spec.name = self.name.clone();
        spec.tags = self.tag.clone();
        spec.input = self.input.clone();
        spec.timeout = room.settings.duration("run.timeout")?;
        let or = |name, otherwise| anyhow::Ok(room.settings.duration(name)?.unwrap_or(otherwise));
        spec.grace = or("run.grace", spec.grace)?;
        spec.linger = or("run.linger", spec.linger)?;
        spec.interval = or("run.interval", spec.interval)?;
        spec.batch = self.batch.unwrap_or_else(BatchId::new);
        spec.check().map_err(|error| flagged(room, error))?;
        Ok(spec)
    }

    fn measure(&self, room: &Room) -> anyhow::Result<Code> {
        let spec = self.spec(room)?;
        let save =
            self.save_json.as_deref().map(|path| Destination::open("--save-json", path)).transpose()?;
        let roots = Roots::default();
        let device = device::this(&roots, data_folder().as_deref())?;
        // The session takes over signals first: threads that a store starts must not be ended by them.
        let options = Options { roots: roots.clone(), runtime_dir: runtime_folder(), device: device.clone() };
        let mut session = Session::open(options)?;
        let mut recorder: Box<dyn Recorder> = match self.no_store {
            true => Box::new(NoRecorder),
            false => {
                let store = room.writable_store()?;
                leftovers::sweep(&roots, &store, &device)?;
                Box::new(StoreRecorder::new(store, &device))
            }
        };
        let batch = self.repetitions(room, &spec, &mut session, recorder.as_mut())?;
        if let Some(save) = save {
            save::write(save, &batch.runs, self.repeat > 1)
                .context("the command ran, but its record was not saved")?;
        }
        if !room.console.quiet {
            let kept = !self.no_store && !batch.is_unkept;
            let text = match batch.runs.as_slice() {
                [run] if self.repeat == 1 => summary::single(run, kept, room.console.paint_err),
                runs => summary::batch(runs, &batch.warmups, self.repeat, kept, room.console.paint_err)?,
            };
            room.console.say(&text);
        }
        Ok(batch.code())
    }

    fn repetitions(
        &self,
        room: &Room,
        spec: &Spec,
        session: &mut Session,
        recorder: &mut dyn Recorder,
    ) -> anyhow::Result<Batch> {
        let mut batch = Batch::default();
        let mut progress = progress::Progress::new(&room.console, self.warmup + self.repeat);
        let plan = (1..=self.warmup).map(|n| (true, n)).chain((1..=self.repeat).map(|n| (false, n)));
        for (warmup, repetition) in plan {
            let repetitions = if warmup { self.warmup } else { self.repeat };
            let spec = Spec { repetition, repetitions, warmup, ..spec.clone() };
            let started = Instant::now();
            let finished = match session.run(&spec, recorder) {
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
            if batch.is_unkept || finished.stop.is_some() || (self.stop_on_failure && code != Code::OK) {
                break;
            }
        }
        Ok(batch)
    }
}

/// What was measured.
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

/// The exit code that a run stands for.
fn code_for(run: &Record) -> Code {
    let Some(exit) = &run.exit else { return Code::OWN_FAILURE };
    let own = exit.code.or(exit.signal.map(|signal| 128 + signal));
    Code::of(match exit.cause {
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
