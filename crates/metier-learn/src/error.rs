//! Why something cannot be learned or read.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table that does not fit together.
    #[error("table: {why}")]
    Table {
        /// What does not fit.
        why: String,
    },
    /// A setting that makes no sense.
    #[error("{field} is {got}; want {want}")]
    Setting {
        field: &'static str,
        got: String,
        /// What would be right.
        want: &'static str,
    },
    /// Too little to learn from.
    #[error("{got} {what} are too few to {purpose}; want at least {want}")]
    TooLittle {
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many are needed.
        want: usize,
        purpose: &'static str,
    },
    /// A predictor file that is not one.
    #[error("predictor file: {field} {why}")]
    File {
        /// The field, by its path.
        field: String,
        /// What is wrong with it.
        why: String,
    },
}
