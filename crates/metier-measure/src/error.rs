//! What can go wrong while measuring, sorted by what the caller should do.

use std::path::PathBuf;

use crate::target_facts::TargetFacts;
use metier_linux::cgroup::limit::LimitRefusal;

/// What went wrong. Losing a sensor is never an error: it is an entry in the record's `missing`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command does not exist.
    #[error("{command}: not found in PATH; give the path of an executable file")]
    NotFound {
        /// As it was given.
        command: String,
    },
    /// The command exists but cannot be executed.
    #[error("{command}: cannot be executed ({reason}); is it an executable file for this machine?")]
    NotExecutable {
        /// As it was given.
        command: String,
        /// What the kernel said.
        reason: std::io::Error,
    },
    /// The control group was made, but the command could not enter it.
    #[error("cannot put the command into its control group: {reason}; `metier doctor` tells more")]
    Join {
        /// What the kernel said.
        reason: std::io::Error,
    },
    /// The launcher could not be started or went away.
    #[error("the launcher of the command failed while {doing}: {reason}")]
    Launcher {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file that the user named cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A system call of ours failed.
    #[error("{doing}: {reason}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The specification of the run makes no sense.
    #[error("{field} is {got}; want {want}")]
    Spec {
        /// The flag or field.
        field: &'static str,
        got: String,
        /// What would be right.
        want: &'static str,
    },
    /// A limit that was asked for cannot be enforced on this host.
    #[error("{limit} cannot be enforced here: {reason}; `metier doctor` tells more")]
    Limit {
        /// The flag or field.
        limit: &'static str,
        reason: String,
    },
    /// The run never started. Never seen by callers of a session: it becomes a record with that cause.
    #[error("it never started: {detail}")]
    Unstarted {
        /// Why, in words for people.
        detail: String,
        /// What was known of it by then.
        about: Box<TargetFacts>,
        /// The signal that asked us to stop meanwhile.
        stop: Option<i32>,
    },
    /// A file or folder has no digest.
    #[error(transparent)]
    Digest(#[from] metier_store::digest::DigestError),
    /// The run could not be kept.
    #[error(transparent)]
    Store(#[from] metier_store::Error),
}

impl From<LimitRefusal> for Error {
    fn from(refusal: LimitRefusal) -> Self {
        Self::Limit { limit: refusal.limit, reason: refusal.reason }
    }
}

impl Error {
    /// The exit code of `metier run` for it: 127 not found, 126 not executable, 125 our own failure.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}
