//! A run that keeps another one company: a measuring process of its own, with a record of its own.
//!
//! It dies with us: the kernel sends it TERM when we are gone, and it walks the ladder for what it measures. It has a process
//! group of its own, so that the terminal's Ctrl-C reaches it only by way of us, after the main run.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::wakeup::monotonic_ns;
use metier_types::{LockUnpoisoned, RunId};

use super::CompanionLauncher;
use super::log::{CoRunEvent, CoRunLog, CoRunLogLine, RunGroupRole};
use crate::runfile::{CheckedRun, ReadinessSign};

/// What is shown of one's output.
const MAX_SHOWN_BYTES: usize = 1 << 20;
/// Times that a neighbour is started again.
const MAX_RESTARTS: u32 = 100_000;
/// Between the steps of our own ladder, beyond what the run's own takes.
const LADDER_STEP: Duration = Duration::from_secs(10);

pub struct CoRunnerProcess {
    process: std::process::Child,
    /// What people call it.
    pub name: String,
    /// Its (first) run.
    pub run: RunId,
    /// What it is there for.
    pub part: RunGroupRole,
    grace: Duration,
    pumps: Vec<JoinHandle<()>>,
    last_words: Arc<Mutex<String>>,
    file: PathBuf,
}

impl CoRunnerProcess {
    /// Starts it. The thread that calls must live as long as it should.
    pub fn start(
        launcher: &CompanionLauncher<'_>,
        checked: &CheckedRun,
        part: RunGroupRole,
        log: &CoRunLog,
    ) -> std::io::Result<Self> {
        let run = RunId::new();
        let name = run_name(checked);
        let file = launcher.folder.join(format!("company-{run}.json"));
        let mut own = checked.file.clone();
        // Its output comes to us: we look at it.
        own.ready = own.ready.filter(|ready| ready.output.is_none());
        let text = serde_json::to_vec_pretty(&own)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?.write_all(&text)?;
        let (reader, writer) = std::io::pipe()?;
        let (error_reader, error_writer) = std::io::pipe()?;
        let mut command = launcher.launch.command();
        command.args(["--quiet", "run", "--run-id"]).arg(run.to_string());
        let role = if part == RunGroupRole::Companion { "companion" } else { "neighbour" };
        command.arg("--company").arg(role).arg("--company-log").arg(log.path());
        if part == RunGroupRole::Neighbour {
            command.arg("--stop-on-failure").arg("--repeat").arg(MAX_RESTARTS.to_string());
        }
        if !launcher.has_store {
            command.arg("--no-store");
        }
        command.arg("--file").arg(&file);
        command.stdin(Stdio::null()).stdout(writer).stderr(error_writer);
        let is_quiet = launcher.is_quiet;
        let process = command.spawn().inspect_err(|_| {
            let _ = std::fs::remove_file(&file);
        })?;
        // The pipes end when the others have closed their ends.
        drop(command);
        let last_words = Arc::new(Mutex::new(String::new()));
        let sign = checked.ready.as_ref().and_then(|ready| match &ready.sign {
            ReadinessSign::Output(text) => Some(text.clone()),
            _ => None,
        });
        let found =
            sign.map(|text| OutputReadiness { text, log: log.clone(), run, name: name.clone(), part });
        let found = Arc::new(Mutex::new(found));
        let pump = |source: std::io::PipeReader| {
            let (name, last_words, found) = (name.clone(), last_words.clone(), found.clone());
            std::thread::spawn(move || forward_output(source, &name, is_quiet, &last_words, &found))
        };
        let pumps = vec![pump(reader), pump(error_reader)];
        Ok(Self { process, name, run, part, grace: checked.spec.grace, pumps, last_words, file })
    }

    /// How it ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// The last that its measuring process said, for why it did not come up.
    pub fn last_message(&self) -> String {
        self.last_words.lock_unpoisoned().clone()
    }

    /// Asks it to end.
    pub fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child that has not been waited for, so that its number is its own.
        unsafe { libc::kill(self.process.id() as libc::pid_t, signal) };
    }

    /// Waits for its end; goes up the ladder where it does not come.
    pub fn wait(&mut self) {
        // Its own ladder has three rungs.
        let patience = self.grace * 3 + LADDER_STEP;
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            let until = Instant::now() + patience;
            while Instant::now() < until {
                if self.exit_status().is_some() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            self.signal(signal);
        }
        let _ = self.process.wait();
    }
}

impl Drop for CoRunnerProcess {
    fn drop(&mut self) {
        if self.exit_status().is_none() {
            self.interrupt();
            self.wait();
        }
        // What it left behind may still hold the pipes; its output is of no interest any more.
        let until = Instant::now() + Duration::from_secs(1);
        while self.pumps.iter().any(|pump| !pump.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

/// What shows in the output that it is ready, and whom to tell.
struct OutputReadiness {
    text: String,
    log: CoRunLog,
    run: RunId,
    name: String,
    part: RunGroupRole,
}

/// Shows its output on our stderr, each line with its name; looks for the line that shows that it is ready.
fn forward_output(
    source: std::io::PipeReader,
    name: &str,
    is_quiet: bool,
    last_words: &Mutex<String>,
    found: &Mutex<Option<OutputReadiness>>,
) {
    let mut shown = 0;
    let mut reader = BufReader::new(source);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without an end is taken in pieces.
        match std::io::Read::take(&mut reader, 64 << 10).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let mut readiness = found.lock_unpoisoned();
        if readiness.as_ref().is_some_and(|found| text.contains(&found.text))
            && let Some(OutputReadiness { log, run, name, part, .. }) = readiness.take()
        {
            let _ = log.append_line(&CoRunLogLine {
                run,
                name,
                part,
                event: CoRunEvent::Ready,
                at_ns: monotonic_ns(),
            });
        }
        drop(readiness);
        if let Some(name_text) = text.strip_prefix("metier: ") {
            *last_words.lock_unpoisoned() = name_text.to_string();
        }
        if !is_quiet && shown < MAX_SHOWN_BYTES {
            shown += line.len();
            let rest = if shown >= MAX_SHOWN_BYTES {
                format!("\n[{name}] (what follows is left out)")
            } else {
                String::new()
            };
            let _ = writeln!(std::io::stderr().lock(), "[{name}] {text}{rest}");
        }
    }
}

/// What people call a run.
pub fn run_name(checked: &CheckedRun) -> String {
    if let Some(name) = &checked.spec.name {
        return name.to_string();
    }
    let word = checked.spec.target.words().swap_remove(0);
    word.rsplit('/').next().unwrap_or(&word).to_string()
}
