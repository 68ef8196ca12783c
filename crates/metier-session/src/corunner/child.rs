//! The process of a co-runner: its own measuring process with its own record.
//!
//! It ends with its parent: the kernel sends it TERM, and it escalates (INT, TERM, KILL) for its
//! own workload. It has its own process group, so that the terminal's Ctrl-C reaches it only
//! through the parent, after the main run.

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

/// Bytes of a co-runner's output that are shown.
const MAX_SHOWN_BYTES: usize = 1 << 20;
/// Most restarts of a neighbour.
const MAX_RESTARTS: u32 = 100_000;
/// Time between TERM and KILL, added to the escalation time of the run itself.
const LADDER_STEP: Duration = Duration::from_secs(10);

pub struct CoRunnerProcess {
    process: std::process::Child,
    /// Display name.
    pub name: String,
    /// Id of its (first) run.
    pub run: RunId,
    /// Role of the run in the group.
    pub part: RunGroupRole,
    grace: Duration,
    pumps: Vec<JoinHandle<()>>,
    last_words: Arc<Mutex<String>>,
    file: PathBuf,
}

impl CoRunnerProcess {
    /// Starts the process. It ends when the calling thread ends.
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
        // This process reads the co-runner's output, so it detects an output sign here.
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
        // Closes the parent's write ends, so that the readers see EOF when the child's are closed.
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

    /// The exit status, once the process has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// The last message of its measuring process, to explain a failed start.
    pub fn last_message(&self) -> String {
        self.last_words.lock_unpoisoned().clone()
    }

    /// Sends INT.
    pub fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child has not been reaped, so its process id is still its own.
        unsafe { libc::kill(self.process.id() as libc::pid_t, signal) };
    }

    /// Waits for the end of the process, with TERM and then KILL if it does not end.
    pub fn wait(&mut self) {
        // The process itself escalates in three steps: INT, TERM, KILL.
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
        // Leftover processes may still hold the pipes; their output is not needed.
        let until = Instant::now() + Duration::from_secs(1);
        while self.pumps.iter().any(|pump| !pump.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The text in the output that marks readiness, and the log line to write for it.
struct OutputReadiness {
    text: String,
    log: CoRunLog,
    run: RunId,
    name: String,
    part: RunGroupRole,
}

/// Copies the output to stderr, each line prefixed with the name, and looks for the readiness text.
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
        // Long lines are processed in pieces of at most 64 KiB.
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

/// Display name of a run.
pub fn run_name(checked: &CheckedRun) -> String {
    if let Some(name) = &checked.spec.name {
        return name.to_string();
    }
    let word = checked.spec.target.words().swap_remove(0);
    word.rsplit('/').next().unwrap_or(&word).to_string()
}
