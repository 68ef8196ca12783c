//! Errors of queries.

use std::path::PathBuf;
use std::time::Duration;

/// Why a query failed or could not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The address is invalid.
    #[error("the address of Prometheus is {got:?}; want {want}")]
    BadAddress {
        /// The given address, without secrets.
        got: String,
        /// The expected form.
        want: &'static str,
    },
    /// The certificate file cannot be used.
    #[error("cannot use {} as certificate authority: {reason}; want a file of PEM certificates", path.display())]
    BadAuthority { path: PathBuf, reason: String },
    /// Another setting of the endpoint cannot be used.
    #[error("cannot query {url}: {reason}")]
    BadEndpoint { url: String, reason: String },
    /// The range is invalid; no request was sent.
    #[error(
        "the range from {start} to {end} by {step:?} is invalid; want an end that is not before its start, and 1 to {most} steps"
    )]
    BadRange {
        start: metier_types::UtcTimestamp,
        end: metier_types::UtcTimestamp,
        step: Duration,
        /// Maximum number of steps that Prometheus allows.
        most: u64,
    },
    /// The query was sent and failed.
    #[error("{url}: {asked}: {trouble}")]
    NoAnswer { url: String, asked: String, trouble: QueryFailure },
}

impl QueryError {
    /// The failure of a query that was sent.
    pub const fn failure(&self) -> Option<&QueryFailure> {
        match self {
            Self::NoAnswer { trouble, .. } => Some(trouble),
            _ => None,
        }
    }

    /// Whether a retry may succeed.
    pub const fn is_retryable(&self) -> bool {
        match self.failure() {
            Some(trouble) => trouble.is_retryable(),
            None => false,
        }
    }
}

/// How a query failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryFailure {
    /// The server could not be reached.
    #[error("cannot be reached: {reason} (tried {tries} times)")]
    Unreachable {
        reason: String,
        /// Number of attempts.
        tries: u32,
    },
    /// The server's certificate is not trusted.
    #[error("its certificate is not accepted: {reason}; name the authority that signed it")]
    Untrusted { reason: String },
    /// The time limit was reached.
    #[error("no answer within {} s", after.as_secs_f64())]
    TimedOut {
        /// The time limit.
        after: Duration,
    },
    #[error("answered {status}{}{answer} (tried {tries} times)", if answer.is_empty() { "" } else { ": " })]
    Refused {
        status: u16,
        /// The server's message, truncated.
        answer: String,
        /// Number of attempts.
        tries: u32,
    },
    /// The response is larger than the limit.
    #[error("the answer is larger than {most} bytes; query less, or raise the limit")]
    TooLarge { most: u64 },
    #[error("the response is not from the Prometheus API: {what}")]
    Malformed {
        /// What was found and what was expected.
        what: String,
    },
}

impl QueryFailure {
    /// Whether a retry may succeed.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => is_retryable_status(*status),
            _ => false,
        }
    }
}

/// Whether an HTTP status means a temporary error.
pub(super) const fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502..=504)
}
