//! Reasons why training or reading fails.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An inconsistent table.
    #[error("table: {why}")]
    Table {
        /// The inconsistency.
        why: String,
    },
    /// An invalid setting.
    #[error("{field} is {got}; want {want}")]
    Setting {
        field: &'static str,
        got: String,
        /// Description of valid values.
        want: &'static str,
    },
    /// Too few items to learn from.
    #[error("{got} {what} are too few to {purpose}; want at least {want}")]
    TooFewItems {
        what: &'static str,
        /// Number of items.
        got: usize,
        /// Required number.
        want: usize,
        purpose: &'static str,
    },
    /// An invalid predictor file.
    #[error("predictor file: {field} {why}")]
    File {
        /// Path of the field.
        field: String,
        /// The fault.
        why: String,
    },
}
