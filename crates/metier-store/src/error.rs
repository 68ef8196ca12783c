//! What can go wrong with a store, said so that its reader knows what to do next.

use metier_types::{Digest, RunId};

use crate::codec::CodecError;

/// Why the store could not do what it was asked to.
///
/// `store` is always the location with the password left out.
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
        /// The version it has.
        found: i64,
        /// The latest version that this program knows.
        known: i64,
    },
    /// Not a store of metier: another program's database, or no database at all.
    #[error("{store} is not a store of metier: {why}; it was left as it was, name another file with --store")]
    Foreign {
        store: String,
        /// What it is instead.
        why: String,
    },
    /// There is no store there yet.
    #[error("there is no store at {store}; `metier run -- COMMAND` makes one")]
    Absent { store: String },
    /// The content of the file contradicts itself.
    #[error(
        "store {store} is damaged ({why}); nothing was changed: copy the file away, then restore a backup \
         or save what can be read with `sqlite3 FILE .recover`"
    )]
    Damaged {
        store: String,
        /// What the engine found.
        why: String,
    },
    /// Writing is not allowed there.
    #[error(
        "store {store} cannot be written ({why}); give yourself write permission on the file and its folder, or name another store with --store"
    )]
    ReadOnly {
        store: String,
        /// What the system said.
        why: String,
    },
    /// Reading or opening is not allowed there.
    #[error("store {store} cannot be opened: {why}")]
    CannotOpen {
        store: String,
        /// What the system said, and what would be right.
        why: String,
    },
    /// No room on the disk.
    #[error(
        "no room left on the disk of store {store}; what was stored before is intact, free some space and try again"
    )]
    Full { store: String },
    /// Others kept it locked for too long.
    #[error("store {store} was locked by another program for too long; try again, or stop that program")]
    Busy { store: String },
    /// The server does not answer.
    #[error(
        "store {store} does not answer: {why}; check the address, and that the server runs and lets you in"
    )]
    Unreachable {
        store: String,
        /// What the attempt ended with.
        why: String,
    },
    /// The location is not one.
    #[error("{got:?} is not a store: {want}")]
    BadLocation {
        /// What was given, with the password left out.
        got: String,
        /// What would be right.
        want: String,
    },
    #[error("no run {text:?} in store {store}; `metier runs` lists those there are")]
    NoRun {
        store: String,
        /// What was asked for.
        text: String,
    },
    #[error(
        "workload {workload:?} has {batches} batches, none that is {back} before the latest; `metier runs --workload {workload}` lists its runs"
    )]
    NoBatch {
        workload: String,
        /// How many it has.
        batches: usize,
        /// Which was asked for: 0 is the latest.
        back: usize,
    },
    #[error("no session {text:?} in store {store}; `metier session list` lists those there are")]
    NoSession {
        store: String,
        /// What was asked for.
        text: String,
    },
    /// Too many sessions wait.
    #[error(
        "{waiting} sessions wait already; want at most {most}; try again when some are done, or cancel one"
    )]
    QueueFull { waiting: u64, most: u64 },
    /// More than one run fits.
    #[error("{text:?} fits {} runs{}: {}; give more digits", .candidates.len(), if *.more { " and more" } else { "" }, list(.candidates))]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// Runs that fit, newest first; at most 10.
        candidates: Vec<RunId>,
        /// Whether there are more than listed.
        more: bool,
    },
    /// The id is taken by another content.
    #[error("run {run} is already in store {store} with another content; nothing was changed")]
    Conflict { store: String, run: RunId },
    #[error("no artefact {digest} in store {store}")]
    NoArtefact { store: String, digest: Digest },
    /// What is stored under a digest has another one.
    #[error("artefact {digest} in store {store} is damaged: its content has another digest or length")]
    DamagedArtefact { store: String, digest: Digest },
    /// Too large, too many, or of a wrong shape.
    #[error("{what}: {got}; want {want}")]
    Refused {
        what: &'static str,
        got: String,
        /// What would be right.
        want: String,
    },
    /// A stored series cannot be read.
    #[error("a series of run {run} in store {store} cannot be read: {source}")]
    Series {
        store: String,
        run: RunId,
        /// What is wrong with it.
        source: CodecError,
    },
    /// A stored record cannot be read.
    #[error("the {record} {key} in store {store} cannot be read: {why}")]
    Record {
        store: String,
        /// `run`, `session`, `device` or `workload`.
        record: &'static str,
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// Reading what was to be stored, or writing what was read, failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// Anything else that an engine says.
    #[error("{doing} in store {store}: {why}")]
    Engine {
        store: String,
        /// What was being done.
        doing: &'static str,
        /// What the engine said.
        why: String,
    },
}

fn list(ids: &[RunId]) -> String {
    ids.iter().map(RunId::to_string).collect::<Vec<_>>().join(", ")
}
