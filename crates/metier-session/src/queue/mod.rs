//! The queue: submitted sessions wait in the store, and workers take them one at a time.
//!
//! ```text
//! command line, API, Jenkins API → submit → store ← worker → `metier run` as a child → runs, log
//! ```
//!
//! - A device measures one session at a time, with any number of workers. The store hands out only
//!   one session per device, and a lock in the runtime folder separates workers of different
//!   stores. A `metier run` from a terminal does not wait for the queue.
//! - Each session is its own process. It ends with its worker, and escalates signals (INT, TERM,
//!   KILL) for its own workload.
//! - The next worker settles the session of a killed worker. A session with a run becomes
//!   interrupted; a session without one is queued once more. Waiting sessions keep waiting.
//!
//! Limits: at most 1000 waiting sessions. The log holds the first MiB and the last 64 KiB.

mod file;
mod lock;
mod log;
mod measuring_program;
mod session_process;
mod submission;
mod worker;

pub use file::read_file;
pub use measuring_program::MeasuringProgram;
pub use submission::{MAX_WAITING_SESSIONS, SessionSubmission, submit_session};
pub use worker::{QueueWorker, WorkUntil};

/// Error of a queue operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] metier_store::Error),
    /// The measurement could not be prepared.
    #[error(transparent)]
    Measure(#[from] metier_measure::Error),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The run file is invalid.
    #[error(transparent)]
    File(#[from] crate::runfile::RunFileFaults),
}

fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> QueueError {
    let doing = doing.into();
    move |source| QueueError::System { doing, source }
}
