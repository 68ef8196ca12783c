//! Why a page cannot be read.

/// Why a page cannot be read. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The page is larger than allowed.
    #[error("the page has {got} bytes, more than the {most} that are read")]
    TooLarge { got: usize, most: usize },
    /// Something is not as the format wants it.
    #[error("line {line}, column {column}: {what}")]
    Malformed {
        line: usize,
        /// Which character of it.
        column: usize,
        /// What was found and what would be right.
        what: String,
    },
    /// More than is kept.
    #[error("line {line}: more than {most} {what}")]
    TooMany { line: usize, what: &'static str, most: usize },
    /// An OpenMetrics page without its end: it was cut off.
    #[error("the page ends at line {line} without `# EOF`: it was cut off")]
    CutOff { line: usize },
}
