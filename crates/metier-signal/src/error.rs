//! Errors of the signal analysis.

/// Why there is no result. Each message gives the value and what is accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is outside its range.
    #[error("{option} is {got}; want {want}")]
    WrongOption {
        option: &'static str,
        got: String,
        /// The accepted range.
        want: &'static str,
    },
    /// Times and values differ in number.
    #[error("a series has {times} times and {values} values; want one value for each time")]
    UnequalLengths { times: usize, values: usize },
    /// More samples than the analysis accepts.
    #[error("a series has {got} samples; want at most {most}, for example a shorter range or a larger step")]
    TooManySamples { got: usize, most: usize },
    /// Too few usable samples.
    #[error("a series has {got} usable samples; want at least {want}")]
    TooFewSamples { got: usize, want: usize },
}
