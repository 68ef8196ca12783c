//! Errors of reading a page.

/// Why a page cannot be read. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScrapeError {
    /// The page is larger than the limit.
    #[error("the page has {got} bytes, more than the {most} that are read")]
    TooLarge { got: usize, most: usize },
    /// The page violates the format.
    #[error("line {line}, column {column}: {what}")]
    Malformed {
        line: usize,
        /// Column in the line.
        column: usize,
        /// What was found and what was expected.
        what: String,
    },
    /// A count exceeds its limit.
    #[error("line {line}: more than {most} {what}")]
    TooMany { line: usize, what: &'static str, most: usize },
    /// An OpenMetrics page without `# EOF`: it was cut off.
    #[error("the page ends at line {line} without `# EOF`: it was cut off")]
    CutOff { line: usize },
}
