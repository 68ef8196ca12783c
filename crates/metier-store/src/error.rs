//! Errors of the store; each message says what to do next.

use metier_types::{ContentDigest, RunId};

use crate::codec::CodecError;

/// Error of a store operation.
///
/// `store` is always the location without the password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Written by a later version of metier.
    #[error(
        "store {store} has schema version {found}, this program knows versions up to {known}; \
         use the newer metier that wrote it, or name another store with --store"
    )]
    Newer {
        store: String,
        /// Schema version of the store.
        found: i64,
        /// Latest version that this program supports.
        known: i64,
    },
    /// Not a store of metier: another program's database, or no database at all.
    #[error("{store} is not a store of metier: {why}; it was left as it was, name another file with --store")]
    Foreign {
        store: String,
        /// What the file is instead.
        why: String,
    },
    /// No store exists at this location.
    #[error("there is no store at {store}; `metier run -- COMMAND` makes one")]
    Absent { store: String },
    /// The content of the file is inconsistent.
    #[error(
        "store {store} is damaged ({why}); nothing was changed: copy the file away, then restore a backup \
         or save what can be read with `sqlite3 FILE .recover`"
    )]
    Damaged {
        store: String,
        /// The engine's finding.
        why: String,
    },
    /// The store is not writable.
    #[error(
        "store {store} cannot be written ({why}); give yourself write permission on the file and its folder, or name another store with --store"
    )]
    ReadOnly {
        store: String,
        /// The system's error.
        why: String,
    },
    /// The store cannot be opened or read.
    #[error("store {store} cannot be opened: {why}")]
    CannotOpen {
        store: String,
        /// The system's error and the fix.
        why: String,
    },
    /// The disk is full.
    #[error(
        "no room left on the disk of store {store}; what was stored before is intact, free some space and try again"
    )]
    Full { store: String },
    /// Another program held the lock for too long.
    #[error("store {store} was locked by another program for too long; try again, or stop that program")]
    Busy { store: String },
    /// The server does not answer.
    #[error(
        "store {store} does not answer: {why}; check the address, and that the server runs and lets you in"
    )]
    Unreachable {
        store: String,
        /// How the attempt failed.
        why: String,
        /// Whether the server answered and refused, as for an unknown database or password.
        /// Waiting does not mend that.
        is_refusal: bool,
    },
    /// The location is not valid.
    #[error("{got:?} is not a store: {want}")]
    BadLocation {
        /// The given location, without the password.
        got: String,
        /// What a valid location is.
        want: String,
    },
    #[error("no run {text:?} in store {store}; `metier runs` lists those there are")]
    NoRun {
        store: String,
        /// The given text.
        text: String,
    },
    #[error(
        "workload {workload:?} has {batches} batches, none that is {back} before the latest; `metier runs --workload {workload}` lists its runs"
    )]
    NoBatch {
        workload: String,
        /// Number of batches of the workload.
        batches: usize,
        /// The requested batch, counted back; 0 is the latest.
        back: usize,
    },
    #[error("no session {text:?} in store {store}; `metier session list` lists those there are")]
    NoSession {
        store: String,
        /// The given text.
        text: String,
    },
    /// The queue is full.
    #[error(
        "{waiting} sessions wait already; want at most {most}; try again when some are done, or cancel one"
    )]
    QueueFull { waiting: u64, most: u64 },
    /// More than one run matches.
    #[error("{text:?} fits {} runs{}: {}; give more digits", .candidates.len(), if *.more { " and more" } else { "" }, list(.candidates))]
    Ambiguous {
        /// The given text.
        text: String,
        /// Matching runs, newest first; at most 10.
        candidates: Vec<RunId>,
        /// Whether more runs match than are listed.
        more: bool,
    },
    /// The id is used by a run with other content.
    #[error("run {run} is already in store {store} with another content; nothing was changed")]
    Conflict { store: String, run: RunId },
    #[error("no artefact {digest} in store {store}")]
    NoArtefact { store: String, digest: ContentDigest },
    /// The stored content does not match its digest.
    #[error("artefact {digest} in store {store} is damaged: its content has another digest or length")]
    DamagedArtefact { store: String, digest: ContentDigest },
    /// A value that is too large, too many or malformed.
    #[error("{what}: {got}; want {want}")]
    Refused {
        what: &'static str,
        got: String,
        /// What is accepted.
        want: String,
    },
    /// A stored series cannot be read.
    #[error("a series of run {run} in store {store} cannot be read: {source}")]
    Series {
        store: String,
        run: RunId,
        /// The decoder's error.
        source: CodecError,
    },
    /// A stored record cannot be read.
    #[error("the {record} {key} in store {store} cannot be read: {why}")]
    Record {
        store: String,
        /// `run`, `session`, `device` or `workload`.
        record: &'static str,
        key: String,
        /// The parser's error.
        why: String,
    },
    /// Reading the input or writing the output failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation in progress.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// Any other error of an engine.
    #[error("{doing} in store {store}: {why}")]
    Engine {
        store: String,
        /// The operation in progress.
        doing: &'static str,
        /// The engine's error.
        why: String,
    },
}

impl Error {
    /// Whether the store may accept the same data later, or elsewhere: the data are fine, the store
    /// is not.
    pub fn is_store_failure(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Full { .. }
                | Self::Busy { .. }
                | Self::ReadOnly { .. }
                | Self::CannotOpen { .. }
                | Self::Absent { .. }
                | Self::Damaged { .. }
                | Self::Engine { .. }
        )
    }

    /// Whether the store's server is away: stopped, starting, or not reached.
    pub fn is_server_away(&self) -> bool {
        matches!(self, Self::Unreachable { is_refusal: false, .. })
    }
}

fn list(ids: &[RunId]) -> String {
    ids.iter().map(RunId::to_string).collect::<Vec<_>>().join(", ")
}
