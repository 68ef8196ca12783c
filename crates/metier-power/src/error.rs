//! What can go wrong with power, and what would be right.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A word that is in none of our lists.
    #[error("{field} is {got:?}; want {want}")]
    Word {
        field: &'static str,
        got: String,
        /// What would be right.
        want: String,
    },
    /// Weights that cannot be used.
    #[error("weights: {field} {why}")]
    Weights {
        /// The field, by its path.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// A table that does not fit together.
    #[error("table: {why}")]
    Table {
        /// What does not fit.
        why: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A pipeline that could not be had from its address.
    #[error("{address}: {why}")]
    Download {
        /// Where it is, without secrets.
        address: String,
        why: String,
    },
    /// Prometheus did not answer.
    #[error(transparent)]
    Prometheus(#[from] metier_prom::query::QueryError),
    /// Somebody ended it before it was done.
    #[error(
        "stopped after {done} of {of} predictors; they are kept, and the same command goes on from there"
    )]
    Stopped { done: usize, of: usize },
    /// A pipeline that the store does not keep or give.
    #[error(transparent)]
    Lifecycle(#[from] metier_predict::lifecycle::LifecycleError),
    /// What was learned from cannot be learned from.
    #[error(transparent)]
    Learn(#[from] metier_learn::Error),
}

impl Error {
    /// A file that cannot be read or written.
    pub fn file(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::File { path: path.into(), why: why.to_string() }
    }

    /// A table that does not fit together.
    pub fn table(why: impl Into<String>) -> Self {
        Self::Table { why: why.into() }
    }

    /// Weights that cannot be used.
    pub fn weights(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Weights { field: field.into(), why: why.into() }
    }
}
