//! Why there is no report.

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing to report on.
    #[error("report: no run is given; name at least one")]
    Empty,
    /// More than can be told apart in one picture.
    #[error("report: {given} subjects are given; want at most {most}")]
    TooMany { given: usize, most: usize },
    /// The runs hold something that cannot be.
    #[error(transparent)]
    Signal(#[from] metier_stats::Error),
    /// The page could not be put together.
    #[error("report: the page cannot be written: {0}")]
    Page(#[from] askama::Error),
}
