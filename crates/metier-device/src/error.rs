//! What can go wrong while a device is identified or benchmarked.

/// Losing a sensor is never an error: it is an entry in the record's `missing`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call of ours failed.
    #[error("{doing}: {reason}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A value that makes no sense.
    #[error("{field} is {got}; want {want}")]
    Value {
        /// The flag or field.
        field: &'static str,
        got: String,
        /// What would be right.
        want: &'static str,
    },
}
