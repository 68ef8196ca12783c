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
    BadAuthority {
        /// Which file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Something else of the endpoint cannot be used.
    #[error("cannot ask {url}: {reason}")]
    BadEndpoint {
        /// Where.
        url: String,
        /// Why not.
        reason: String,
    },
    /// A range that makes no sense; nobody was asked.
    #[error(
        "the range from {start} to {end} by {step:?} cannot be asked for: want an end that is not before its start, and 1 to {most} steps"
    )]
    BadRange {
        /// From.
        start: metier_types::Timestamp,
        /// To.
        end: metier_types::Timestamp,
        /// By.
        step: Duration,
        /// Most steps that Prometheus gives.
        most: u64,
    },
    /// The question was put and came to nothing.
    #[error("{url}: {asked}: {trouble}")]
    NoAnswer {
        /// Where, without secrets.
        url: String,
        /// What was asked.
        asked: String,
        /// What came instead.
        trouble: Trouble,
    },
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
        /// Why.
        reason: String,
        /// How often it was tried.
        tries: u32,
    },
    /// It cannot prove who it is.
    #[error("its certificate is not accepted: {reason}; name the authority that signed it")]
    Untrusted {
        /// Why.
        reason: String,
    },
    /// The time is over.
    #[error("no answer within {} s", after.as_secs_f64())]
    Late {
        /// How long it had.
        after: Duration,
    },
    /// It said no.
    #[error("answered {status}{}{said} (tried {tries} times)", if said.is_empty() { "" } else { ": " })]
    Refused {
        /// With which status.
        status: u16,
        /// In its own words, cut.
        said: String,
        /// How often it was tried.
        tries: u32,
    },
    /// More came than is read.
    #[error("the answer is larger than {most} bytes; ask for less, or allow more")]
    TooLarge {
        /// The bound.
        most: u64,
    },
    /// Something else came.
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
