//! The measuring process of a session.
//!
//! It has a process group of its own, so that Ctrl-C at the worker's terminal ends it by way of the worker; it gets TERM when
//! the worker dies; and on each signal it walks the ladder for what it measures by itself. The ladder here is only for a
//! measuring process that does not come to its end: it may need twice the grace of the run before it is given up.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_types::{LockUnpoisoned, SessionRecord};

use super::log::SessionLogBuffer;
use super::{MeasuringProgram, QueueError, file, system};

/// Between the steps of the ladder.
const LADDER_STEP: Duration = Duration::from_secs(45);
/// How long what it measured may go on writing to its log after it has ended.
const OUTPUT_GRACE: Duration = Duration::from_secs(5);

/// Why a child should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEndRequest {
    /// Nobody wants its session any more.
    Cancel,
    /// Its worker is to end.
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
    /// Starts measuring a session. The thread that calls must live as long as the worker: the kernel takes its end for
    /// the worker's.
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
            // Beside us: one that does not read must not hold up the worker. It ends with the pipe.
            std::thread::spawn(move || stdin.write_all(text.as_bytes()));
        }
        // Our copies of the pipe's end go with the command: its end comes when the others have closed theirs.
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

    /// How it ended, once it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        // An error means that it is not ours to wait for: nothing more can be learnt of it.
        self.process.try_wait().unwrap_or_else(|_| Some(ExitStatus::from_raw(0x7f00)))
    }

    /// That it should end; the first wish stays.
    pub fn request_end(&mut self, wish: SessionEndRequest) {
        self.wish.get_or_insert(wish);
    }

    /// Why it was asked to end, if it was.
    pub fn end_request(&self) -> Option<SessionEndRequest> {
        self.wish
    }

    /// Goes a step on the ladder where it is time to.
    pub fn advance_ladder(&mut self) {
        let next = match (self.wish, self.signalled) {
            (None, _) => return,
            (Some(SessionEndRequest::Cancel), None) => libc::SIGINT,
            (Some(SessionEndRequest::Stop), None) => libc::SIGTERM,
            (_, Some((at, _))) if at.elapsed() < LADDER_STEP => return,
            (_, Some((_, libc::SIGINT))) => libc::SIGTERM,
            _ => libc::SIGKILL,
        };
        // SAFETY: a signal to a child that has not been waited for, so that its number is its own.
        unsafe { libc::kill(self.process.id() as libc::pid_t, next) };
        self.signalled = Some((Instant::now(), next));
    }

    /// What it printed since the last call.
    pub fn printed(&self) -> Vec<u8> {
        lock(&self.log).take()
    }

    /// The rest of what it printed, and the last that metier said; once it has ended.
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
