//! A worker: takes sessions from the queue of a store and measures each in its own process.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use metier_device::process_owner;
use metier_linux::KernelRoots;
use metier_measure::leftovers;
use metier_store::{OwnerProcess, RecordStore, RunSpool, SessionEnd, SessionFilter, SpoolDelivery};
use metier_types::{Device, ExitCause, RunId, SessionRecord, SessionState};

use super::lock::DeviceLock;
use super::session_process::{SessionEndRequest, SessionProcess};
use super::{MeasuringProgram, QueueError};
use metier_linux::stop_request::StopRequest;

/// Interval between polls of an idle queue.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Interval between polls of a running session.
const SESSION_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between saving the log and checking for a cancel request. Each is a store call during
/// the measurement.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);
/// Delay after a failed store call.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Most attempts to record the end of a session that cannot be spooled either.
const MAX_END_TRIES: u32 = 30;

/// When a worker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkUntil {
    /// On a stop request.
    Asked,
    /// On a stop request, or when no session waits for this worker.
    Empty,
}

/// Processes the queue of a store on a device.
pub struct QueueWorker {
    store: RecordStore,
    device: Device,
    roots: KernelRoots,
    launch: MeasuringProgram,
    runtime: PathBuf,
    spool: Option<RunSpool>,
    owner: OwnerProcess,
}

impl QueueWorker {
    /// The store must be writable; `runtime` is the folder for files of a session's lifetime. Ends
    /// of sessions go to the spool while the store is away.
    pub fn new(
        store: RecordStore,
        device: Device,
        roots: KernelRoots,
        launch: MeasuringProgram,
        runtime: PathBuf,
        spool: Option<RunSpool>,
    ) -> Self {
        let owner = process_owner::current_owner(&roots, &device);
        Self { store, device, roots, launch, runtime, spool, owner }
    }

    /// Processes sessions until the end condition holds. Returns the number of processed sessions.
    /// Call it from a thread that lives until all work is done: measuring processes end with it.
    pub fn run(&self, stop: &StopRequest, until: WorkUntil) -> Result<u64, QueueError> {
        let mut worked = 0;
        while !stop.is_requested() {
            match self.work_next(stop) {
                Ok(true) => worked += 1,
                Ok(false) if until == WorkUntil::Empty && self.is_empty()? => break,
                Ok(false) => stop.wait(IDLE_POLL_INTERVAL),
                Err(error) if until == WorkUntil::Empty => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "the queue cannot be worked now; trying again");
                    stop.wait(STORE_RETRY_DELAY);
                }
            }
        }
        Ok(worked)
    }

    /// Whether no session waits for this device or runs on it.
    fn is_empty(&self) -> Result<bool, QueueError> {
        let (id, name) = (self.device.id.as_str(), self.device.name.as_str());
        let is_ours =
            |session: &SessionRecord| session.device.as_deref().is_none_or(|want| want == id || want == name);
        let filter = |state| SessionFilter { state: Some(state), limit: 1000, ..SessionFilter::default() };
        let waits = self.store.sessions(&filter(SessionState::Queued))?.iter().any(is_ours);
        Ok(!waits && self.store.claimed_sessions(id)?.is_empty())
    }

    /// Processes the next session if the device is free. Returns false if there was none.
    fn work_next(&self, stop: &StopRequest) -> Result<bool, QueueError> {
        let Some(lock) = DeviceLock::try_take(&self.runtime)? else { return Ok(false) };
        if !self.settle_abandoned()? {
            return Ok(false);
        }
        let Some(session) = self.store.claim_session(&self.device.reference(), &self.owner)? else {
            return Ok(false);
        };
        self.work(&session, stop)?;
        drop(lock);
        Ok(true)
    }

    /// Delivers what was spooled, before sessions are settled: a spooled end is the true one.
    fn deliver_spooled(&self) -> Result<(), QueueError> {
        let Some(spool) = &self.spool else { return Ok(()) };
        let delivered = leftovers::deliver_spool(&self.roots, spool, &self.store, &self.device)?;
        if delivered != SpoolDelivery::default() {
            let SpoolDelivery { runs, sessions } = delivered;
            tracing::info!(runs, sessions, "delivered what was spooled while the store was away");
        }
        Ok(())
    }

    /// Settles the sessions of dead workers. Returns `false` while any of their processes still
    /// runs.
    fn settle_abandoned(&self) -> Result<bool, QueueError> {
        if self.store.claimed_sessions(self.device.id.as_str())?.is_empty() {
            return Ok(true);
        }
        self.deliver_spooled()?;
        let held = self.store.claimed_sessions(self.device.id.as_str())?;
        let is_there = |owner: &OwnerProcess| process_owner::is_owner_alive(&self.roots, owner);
        for claimed_session in held {
            // A claim of this worker was abandoned too: no session is in progress at this point.
            let is_worked =
                claimed_session.owner.as_ref().is_some_and(|owner| *owner != self.owner && is_there(owner));
            if is_worked || claimed_session.child.as_ref().is_some_and(is_there) {
                return Ok(false);
            }
            leftovers::sweep_leftovers(&self.roots, &self.store, &self.device)?;
            let runs = self.store.runs_of_session(&claimed_session.session)?;
            self.store.set_session_runs(claimed_session.session.id, &runs)?;
            if self
                .store
                .release_session(&claimed_session, claimed_session.child.is_some() || !runs.is_empty())?
            {
                tracing::info!(
                    session = claimed_session.session.number,
                    "settled a session whose worker is gone"
                );
            }
        }
        Ok(true)
    }

    fn work(&self, session: &SessionRecord, stop: &StopRequest) -> Result<(), QueueError> {
        tracing::info!(session = session.number, name = session.name, "session begins");
        let mut notes = SessionProgress { part: 0, unkept: Vec::new(), runs: Vec::new(), at: Instant::now() };
        let end = match SessionProcess::start(&self.launch, session) {
            Ok(child) => self.watch(session, child, stop, &mut notes),
            Err(error) => SessionEnd {
                state: SessionState::Failed,
                exit_code: None,
                reason: Some(format!("it could not be started: {error}")),
            },
        };
        tracing::info!(session = session.number, state = end.state.word(), "session ends");
        self.record_end(session, &end, &notes)
    }

    fn watch(
        &self,
        session: &SessionRecord,
        mut child: SessionProcess,
        stop: &StopRequest,
        notes: &mut SessionProgress,
    ) -> SessionEnd {
        let process = process_owner::owner_of_process(&self.roots, &self.device, child.id());
        if let Err(error) = self.store.begin_session(session.id, &self.owner, &process) {
            tracing::warn!(%error, "the process of a session could not be recorded");
        }
        let status = loop {
            if let Some(status) = child.exit_status() {
                break status;
            }
            if stop.is_requested() {
                child.request_end(SessionEndRequest::Stop);
            }
            if notes.at.elapsed() >= SAVE_INTERVAL {
                notes.at = Instant::now();
                notes.unkept.extend(child.printed());
                self.save_progress(session, notes);
                if self.store.is_cancel_requested(session.id).unwrap_or(false) {
                    child.request_end(SessionEndRequest::Cancel);
                }
            }
            child.advance_ladder();
            std::thread::sleep(SESSION_POLL_INTERVAL);
        };
        let wish = child.end_request();
        let (rest, words) = child.finish_output();
        notes.unkept.extend(rest);
        self.save_progress(session, notes);
        let end = session_end(status, wish, words);
        match (end.state, self.failure_reason(&notes.runs)) {
            (SessionState::Failed, Some(reason)) => SessionEnd { reason: Some(reason), ..end },
            _ => end,
        }
    }

    /// The cause of failure in the record of the first failed run. Without it the application's
    /// exit code could be mistaken for one of metier's own.
    fn failure_reason(&self, runs: &[RunId]) -> Option<String> {
        let exit = runs.iter().find_map(|id| {
            let exit = self.store.run(*id).ok().flatten()?.exit?;
            (!exit.is_complete()).then_some(exit)
        })?;
        match (exit.cause, exit.detail) {
            (ExitCause::Exited, _) => Some(format!("it ended with exit code {}", exit.code?)),
            (ExitCause::Unstarted, Some(detail)) => Some(format!("it was not started: {detail}")),
            (ExitCause::Lost, Some(detail)) => Some(format!("it was lost sight of: {detail}")),
            (ExitCause::Oom, Some(detail)) => {
                Some(format!("the kernel killed it for want of memory: {detail}"))
            }
            (ExitCause::Oom, None) => Some("the kernel killed it for want of memory".to_string()),
            _ => None,
        }
    }

    /// Saves the log and the runs so far. A failed save is repeated at the next call.
    fn save_progress(&self, session: &SessionRecord, notes: &mut SessionProgress) {
        if !notes.unkept.is_empty() {
            match self.store.append_session_log(session.id, notes.part, &notes.unkept) {
                Ok(()) => {
                    notes.part += 1;
                    notes.unkept.clear();
                }
                Err(error) => tracing::warn!(%error, "a session's log could not be saved"),
            }
        }
        match self.store.runs_of_session(session) {
            Ok(runs) if runs != notes.runs => {
                if self.store.set_session_runs(session.id, &runs).is_ok() {
                    notes.runs = runs;
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a session's runs could not be read"),
        }
    }

    /// Records the end of a session: in the store, else in the spool, else with retries.
    fn record_end(
        &self,
        session: &SessionRecord,
        end: &SessionEnd,
        notes: &SessionProgress,
    ) -> Result<(), QueueError> {
        let mut tries = 0;
        loop {
            match self.store.end_session(session.id, &self.owner, end) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_store_failure() && self.spool_end(session, end, notes) => {
                    tracing::warn!(%error, "the end of a session is spooled until the store is back");
                    return Ok(());
                }
                Err(error) if tries >= MAX_END_TRIES => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "the end of a session could not be recorded; trying again")
                }
            }
            tries += 1;
            std::thread::sleep(STORE_RETRY_DELAY);
        }
    }

    fn spool_end(&self, session: &SessionRecord, end: &SessionEnd, notes: &SessionProgress) -> bool {
        let rest = (!notes.unkept.is_empty()).then_some((notes.part, notes.unkept.as_slice()));
        self.spool
            .as_ref()
            .is_some_and(|spool| spool.keep_session_end(session, &self.owner, end, rest).is_ok())
    }
}

/// Progress of a running session: what the store does not have yet begins with `part`.
struct SessionProgress {
    part: u32,
    unkept: Vec<u8>,
    runs: Vec<RunId>,
    at: Instant,
}

/// Derives the end of a session from its exit status and the requested end.
fn session_end(status: ExitStatus, wish: Option<SessionEndRequest>, words: Option<String>) -> SessionEnd {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    let detail = || words.clone().map(|words| format!(": {words}")).unwrap_or_default();
    let (state, reason) = match (wish, code) {
        // The session finished before the request reached it.
        (_, Some(0)) => (SessionState::Finished, None),
        (Some(SessionEndRequest::Cancel), _) => {
            (SessionState::Cancelled, Some("cancelled while it ran".to_string()))
        }
        (Some(SessionEndRequest::Stop), _) => {
            (SessionState::Interrupted, Some("its worker was stopped while it ran".to_string()))
        }
        (None, Some(124)) => (SessionState::Failed, Some("the time limit ended it".to_string())),
        (None, Some(2 | 125)) => {
            (SessionState::Failed, Some(format!("it could not be measured{}", detail())))
        }
        (None, Some(126)) => {
            (SessionState::Failed, Some(format!("its command cannot be executed{}", detail())))
        }
        (None, Some(127)) => (SessionState::Failed, Some(format!("its command was not found{}", detail()))),
        (None, Some(code)) if code > 128 => {
            (SessionState::Failed, Some(format!("signal {} ended it", code - 128)))
        }
        (None, Some(code)) => (SessionState::Failed, Some(format!("it ended with exit code {code}"))),
        (None, None) => (SessionState::Failed, Some("how it ended is not known".to_string())),
    };
    SessionEnd { state, exit_code: code, reason }
}
