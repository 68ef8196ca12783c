//! Why a question has no answer.

use std::path::PathBuf;
use std::time::Duration;

/// Why a question has no answer, or cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is none.
    #[error("the address of Prometheus is {got:?}; want {want}")]
    BadAddress {
        /// What was given, without secrets.
        got: String,
        /// What would be right.
        want: &'static str,
    },
    /// A file of certificates that cannot be used.
    #[error("cannot use {} as certificate authority: {reason}; want a file of PEM certificates", path.display())]
    BadAuthority { path: PathBuf, reason: String },
    /// Something else of the endpoint cannot be used.
    #[error("cannot ask {url}: {reason}")]
    BadEndpoint { url: String, reason: String },
    /// A range that makes no sense; nobody was asked.
    #[error(
        "the range from {start} to {end} by {step:?} cannot be asked for: want an end that is not before its start, and 1 to {most} steps"
    )]
    BadRange {
        start: metier_types::Timestamp,
        end: metier_types::Timestamp,
        step: Duration,
        /// Most steps that Prometheus gives.
        most: u64,
    },
    /// The question was put and came to nothing.
    #[error("{url}: {asked}: {trouble}")]
    NoAnswer { url: String, asked: String, trouble: Trouble },
}

impl Error {
    /// What came of a question that was put.
    pub const fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::NoAnswer { trouble, .. } => Some(trouble),
            _ => None,
        }
    }

    /// Whether the same question may have an answer later.
    pub const fn may_pass(&self) -> bool {
        match self.trouble() {
            Some(trouble) => trouble.may_pass(),
            None => false,
        }
    }
}

/// What came instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// Nobody could be reached.
    #[error("cannot be reached: {reason} (tried {tries} times)")]
    Unreachable {
        reason: String,
        /// How often it was tried.
        tries: u32,
    },
    /// It cannot prove who it is.
    #[error("its certificate is not accepted: {reason}; name the authority that signed it")]
    Untrusted { reason: String },
    /// The time is over.
    #[error("no answer within {} s", after.as_secs_f64())]
    Late {
        /// How long it had.
        after: Duration,
    },
    #[error("answered {status}{}{said} (tried {tries} times)", if said.is_empty() { "" } else { ": " })]
    Refused {
        status: u16,
        /// In its own words, cut.
        said: String,
        /// How often it was tried.
        tries: u32,
    },
    /// More came than is read.
    #[error("the answer is larger than {most} bytes; ask for less, or allow more")]
    TooLarge { most: u64 },
    #[error("the answer is not Prometheus': {what}")]
    Malformed {
        /// What was found and what would be right.
        what: String,
    },
}

impl Trouble {
    /// Whether the same question may have an answer later.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Late { .. } => true,
            Self::Refused { status, .. } => is_passing(*status),
            _ => false,
        }
    }
}

/// Whether a status says "not now" rather than "no".
pub(super) const fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502..=504)
}
