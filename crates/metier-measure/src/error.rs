//! Errors of measuring, sorted by the caller's remedy.

use std::path::PathBuf;

use crate::target_facts::TargetFacts;
use metier_linux::cgroup::limit::LimitRefusal;

/// An error of measuring. A lost sensor is never an error: it is an entry in the record's
/// `missing`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command does not exist.
    #[error("{command}: not found in PATH; give the path of an executable file")]
    NotFound {
        /// As given.
        command: String,
    },
    /// The command exists but cannot be executed.
    #[error("{command}: cannot be executed ({reason}); is it an executable file for this machine?")]
    NotExecutable {
        /// As given.
        command: String,
        /// The kernel's error.
        reason: std::io::Error,
    },
    /// The control group exists, but the command could not enter it.
    #[error("cannot put the command into its control group: {reason}; `metier doctor` tells more")]
    Join {
        /// The kernel's error.
        reason: std::io::Error,
    },
    /// The launcher could not be started or has ended.
    #[error("the launcher of the command failed while {doing}: {reason}")]
    Launcher {
        /// The failed step.
        doing: &'static str,
        /// The system's error.
        reason: std::io::Error,
    },
    /// A file that the user named cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        path: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    /// A system call of metier failed.
    #[error("{doing}: {reason}")]
    System {
        /// The failed step.
        doing: &'static str,
        /// The system's error.
        reason: std::io::Error,
    },
    /// The specification of the run is invalid.
    #[error("{field} is {got}; want {want}")]
    Spec {
        /// The flag or field.
        field: &'static str,
        got: String,
        /// The accepted values.
        want: &'static str,
    },
    /// A requested limit cannot be enforced on this host.
    #[error("{limit} cannot be enforced here: {reason}; `metier doctor` tells more")]
    Limit {
        /// The flag or field.
        limit: &'static str,
        reason: String,
    },
    /// The run never started. A session's callers never see this error: it becomes a record with
    /// that cause.
    #[error("it never started: {detail}")]
    Unstarted {
        /// The reason, for people.
        detail: String,
        /// The facts known by then.
        about: Box<TargetFacts>,
        /// The signal that interrupted the start.
        stop: Option<i32>,
    },
    /// A file or folder has no digest.
    #[error(transparent)]
    Digest(#[from] metier_store::digest::DigestError),
    /// The run could not be stored.
    #[error(transparent)]
    Store(#[from] metier_store::Error),
}

impl From<LimitRefusal> for Error {
    fn from(refusal: LimitRefusal) -> Self {
        Self::Limit { limit: refusal.limit, reason: refusal.reason }
    }
}

impl Error {
    /// The exit code of `metier run` for this error: 127 not found, 126 not executable, 125
    /// metier's own failure.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}
