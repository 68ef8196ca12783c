//! Errors of the statistics.

use metier_types::RunId;

/// Why there is no result. Each message gives the value and what is accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A side of a comparison has no runs.
    #[error("compare: side {side} has no run; name at least one finished run")]
    NoRuns {
        /// `a` or `b`.
        side: &'static str,
    },
    /// All runs of a side are excluded.
    #[error(
        "compare: none of the {given} runs of side {side} can be compared ({because}); name finished, successful runs that are no warm-up"
    )]
    AllLeftOut {
        /// `a` or `b`.
        side: &'static str,
        /// Number of given runs.
        given: usize,
        /// Number of excluded runs by reason.
        because: String,
    },
    /// Too many runs for a bounded time.
    #[error("compare: side {side} has {given} runs; want at most {most}")]
    TooManyRuns {
        /// `a` or `b`.
        side: &'static str,
        /// Number of given runs.
        given: usize,
        /// Maximum number of runs.
        most: usize,
    },
    /// A run is given twice, which would overstate the certainty.
    #[error("compare: run {run} is named twice; name each run once, on one side")]
    NamedTwice { run: RunId },
    /// A run record has an invalid number.
    #[error("run {run}: summary.{field} is {got}; want a finite number from 0")]
    WrongValue {
        run: RunId,
        /// The field of the run's summary.
        field: crate::SummaryField,
        got: f64,
    },
    /// A fault that the signal analysis found.
    #[error(transparent)]
    Signal(metier_signal::Error),
    /// An option is outside its range.
    #[error("{option} is {got}; want {want}")]
    WrongOption {
        option: &'static str,
        got: String,
        /// The accepted range.
        want: &'static str,
    },
    /// A word that is not a field.
    #[error("{got:?} is not a comparable field; want one of {want}")]
    WrongField { got: String, want: String },
    /// A series whose columns and times are inconsistent.
    #[error("cannot downsample an inconsistent series: {defect}")]
    BrokenSeries {
        /// The inconsistency.
        defect: String,
    },
    /// Too few points for the extremes of each gauge.
    #[error(
        "series {series:?}: {points} points are too few for its {gauges} gauges; want at least {want}, or fewer columns"
    )]
    TooFewPoints {
        series: String,
        /// Requested number of points.
        points: usize,
        /// Number of gauges.
        gauges: usize,
        /// Minimum number of points.
        want: usize,
    },
}

impl From<metier_signal::Error> for Error {
    fn from(error: metier_signal::Error) -> Self {
        match error {
            metier_signal::Error::WrongOption { option, got, want } => {
                Self::WrongOption { option, got, want }
            }
            other => Self::Signal(other),
        }
    }
}
