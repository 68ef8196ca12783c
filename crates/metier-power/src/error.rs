//! Errors of the power crate, each with the accepted alternative.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A word outside Kepler's vocabulary.
    #[error("{field} is {got:?}; want {want}")]
    Word {
        field: &'static str,
        got: String,
        /// The accepted values.
        want: String,
    },
    /// Invalid weights.
    #[error("weights: {field} {why}")]
    Weights {
        /// The field, by its path.
        field: String,
        /// The reason.
        why: String,
    },
    /// An inconsistent table.
    #[error("table: {why}")]
    Table {
        /// The reason.
        why: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A pipeline could not be downloaded.
    #[error("{address}: {why}")]
    Download {
        /// The address without secrets.
        address: String,
        why: String,
    },
    /// A Prometheus query failed.
    #[error(transparent)]
    Prometheus(#[from] metier_prom::query::QueryError),
    /// The training run was stopped before its end.
    #[error(
        "stopped after {done} of {of} predictors; they are kept, and the same command goes on from there"
    )]
    Stopped { done: usize, of: usize },
    /// The store rejected or could not return a pipeline.
    #[error(transparent)]
    Lifecycle(#[from] metier_predict::lifecycle::LifecycleError),
    /// Training failed on the given data.
    #[error(transparent)]
    Learn(#[from] metier_learn::Error),
}

impl Error {
    /// An error for a file that cannot be read or written.
    pub fn file(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::File { path: path.into(), why: why.to_string() }
    }

    /// An error for an inconsistent table.
    pub fn table(why: impl Into<String>) -> Self {
        Self::Table { why: why.into() }
    }

    /// An error for invalid weights.
    pub fn weights(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Weights { field: field.into(), why: why.into() }
    }
}
