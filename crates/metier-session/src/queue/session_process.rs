//! The measuring process of a session.
//!
//! It has its own process group, so that Ctrl-C at the worker's terminal ends it through the
//! worker. It gets TERM when the worker dies. On each signal it escalates (INT, TERM, KILL) for its
//! own workload. The escalation here is only for a measuring process that does not end: the process
//! may need twice the grace time of the run.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_types::{LockUnpoisoned, SessionRecord};

use super::log::SessionLogBuffer;
use super::{MeasuringProgram, QueueError, file, system};

/// Time between the signals INT, TERM and KILL.
const LADDER_STEP: Duration = Duration::from_secs(45);
/// How long leftover processes of the workload may write to the log after the session process
/// ended.
const OUTPUT_GRACE: Duration = Duration::from_secs(5);

/// Why a session process should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEndRequest {
    /// Its session was cancelled.
    Cancel,
    /// Its worker is stopping.
    Stop,
}

pub(super) struct SessionProcess {
    process: std::process::Child,
    log: Arc<Mutex<SessionLogBuffer>>,
    pump: JoinHandle<()>,
    wish: Option<SessionEndRequest>,
    signalled: Option<(Instant, i32)>,
}

impl SessionProcess {
    /// Starts measuring a session. The calling thread must live as long as the worker: the kernel
    /// sends TERM to the session when that thread ends.
    pub fn start(launch: &MeasuringProgram, session: &SessionRecord) -> Result<Self, QueueError> {
        let (mut reader, writer) = std::io::pipe().map_err(system("making a pipe for the session's log"))?;
        let also = writer.try_clone().map_err(system("making a pipe for the session's log"))?;
        let mut command = launch.command();
        command.args(file::arguments(session));
        command.stdin(Stdio::piped()).stdout(also).stderr(writer);
        if let Some(folder) = &session.folder {
            command.current_dir(folder);
        }
        let doing = match &session.folder {
            Some(folder) => format!("starting {} in {folder}", launch.program.display()),
            None => format!("starting {}", launch.program.display()),
        };
        let mut process = command.spawn().map_err(system(doing))?;
        if let Some(mut stdin) = process.stdin.take() {
            let text = session.file.to_string();
            // In a thread: a process that does not read stdin must not block the worker. The thread
            // ends with the pipe.
            std::thread::spawn(move || stdin.write_all(text.as_bytes()));
        }
        // Closes the parent's write ends of the pipe; the reader sees EOF when the child's are
        // closed too.
        drop(command);
        let log = Arc::new(Mutex::new(SessionLogBuffer::default()));
        let into = log.clone();
        let pump = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length) = reader.read(&mut buffer) {
                if length == 0 {
                    return;
                }
                lock(&into).push(&buffer[..length]);
            }
        });
        Ok(Self { process, log, pump, wish: None, signalled: None })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The exit status, once the process has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        // On an error the child cannot be waited for, so its status stays unknown: report 127.
        self.process.try_wait().unwrap_or_else(|_| Some(ExitStatus::from_raw(0x7f00)))
    }

    /// Requests the end of the process; the first request wins.
    pub fn request_end(&mut self, wish: SessionEndRequest) {
        self.wish.get_or_insert(wish);
    }

    /// The reason of the requested end, if any.
    pub fn end_request(&self) -> Option<SessionEndRequest> {
        self.wish
    }

    /// Sends the next signal when its time has come.
    pub fn advance_ladder(&mut self) {
        let next = match (self.wish, self.signalled) {
            (None, _) => return,
            (Some(SessionEndRequest::Cancel), None) => libc::SIGINT,
            (Some(SessionEndRequest::Stop), None) => libc::SIGTERM,
            (_, Some((at, _))) if at.elapsed() < LADDER_STEP => return,
            (_, Some((_, libc::SIGINT))) => libc::SIGTERM,
            _ => libc::SIGKILL,
        };
        // SAFETY: the child has not been reaped, so its process id is still its own.
        unsafe { libc::kill(self.process.id() as libc::pid_t, next) };
        self.signalled = Some((Instant::now(), next));
    }

    /// Output since the last call.
    pub fn printed(&self) -> Vec<u8> {
        lock(&self.log).take()
    }

    /// The remaining output and metier's last message, after the process has ended.
    pub fn finish_output(self) -> (Vec<u8>, Option<String>) {
        let until = Instant::now() + OUTPUT_GRACE;
        while !self.pump.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut log = lock(&self.log);
        (log.finish(), log.last_message())
    }
}

fn lock(log: &Mutex<SessionLogBuffer>) -> MutexGuard<'_, SessionLogBuffer> {
    log.lock_unpoisoned()
}
