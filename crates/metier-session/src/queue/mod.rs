//! The queue: sessions that were asked for wait in the store, and workers take them one at a time.
//!
//! ```text
//! a door (command line, API, Jenkins-shaped) → ask → store ← worker → `metier run` as a child → runs, log
//! ```
//!
//! - A device measures one session at a time, however many workers there are: the store lets only one be taken, and a
//!   lock in the runtime folder keeps workers of different stores apart. A `metier run` from a terminal is not held up.
//! - Each session is a process of its own, which dies with its worker and walks the signal ladder by itself.
//! - What a killed worker left is settled by the next: its session is over as interrupted, or waits again once where its
//!   run had not begun. Sessions that wait go on waiting.
//!
//! Limits: 1000 sessions wait at most; of what a session prints, the first MiB and the last 64 KiB are kept.

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

/// Why the queue could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The store could not.
    #[error(transparent)]
    Store(#[from] metier_store::Error),
    /// Measuring could not be prepared.
    #[error(transparent)]
    Measure(#[from] metier_measure::Error),
    /// The system did not let us.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The run file is not one.
    #[error(transparent)]
    File(#[from] crate::runfile::RunFileFaults),
}

fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> QueueError {
    let doing = doing.into();
    move |source| QueueError::System { doing, source }
}
