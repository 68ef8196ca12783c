//! Errors of reports.

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No runs are given.
    #[error("report: no run is given; name at least one")]
    Empty,
    /// Too many subjects to distinguish in one picture.
    #[error("report: {given} subjects are given; want at most {most}")]
    TooMany { given: usize, most: usize },
    /// The runs hold invalid data.
    #[error(transparent)]
    Signal(#[from] metier_stats::Error),
    /// The page cannot be rendered.
    #[error("report: the page cannot be written: {0}")]
    Page(#[from] askama::Error),
}
