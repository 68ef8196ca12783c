//! Errors of device identification and benchmarks.

/// A lost sensor is never an error: it is an entry in the record's `missing`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{doing}: {reason}")]
    System {
        /// The failed action.
        doing: &'static str,
        /// The operating system's error.
        reason: std::io::Error,
    },
    /// An invalid value.
    #[error("{field} is {got}; want {want}")]
    Value {
        /// Name of the flag or field.
        field: &'static str,
        got: String,
        /// Description of valid values.
        want: &'static str,
    },
}
