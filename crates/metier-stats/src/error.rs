//! Why there is no answer.

use metier_types::RunId;

/// Why there is no answer. Each says what was given and what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A side of a comparison has no run.
    #[error("compare: side {side} has no run; name at least one finished run")]
    NoRuns {
        /// `a` or `b`.
        side: &'static str,
    },
    /// A side has runs, but none that can be compared.
    #[error(
        "compare: none of the {given} runs of side {side} can be compared ({because}); name finished, successful runs that are no warm-up"
    )]
    AllLeftOut {
        /// `a` or `b`.
        side: &'static str,
        /// How many runs were named.
        given: usize,
        /// How many were left out for which reason.
        because: String,
    },
    /// More runs than can be compared in bounded time.
    #[error("compare: side {side} has {given} runs; want at most {most}")]
    TooManyRuns {
        /// `a` or `b`.
        side: &'static str,
        /// How many runs were named.
        given: usize,
        /// How many can be taken.
        most: usize,
    },
    /// One run is named twice, which would make it look more certain than it is.
    #[error("compare: run {run} is named twice; name each run once, on one side")]
    NamedTwice { run: RunId },
    /// A run's record holds a number that cannot be.
    #[error("run {run}: summary.{field} is {got}; want a finite number from 0")]
    WrongValue {
        run: RunId,
        /// The field of its summary.
        field: crate::Field,
        got: f64,
    },
    /// An option is outside its range.
    #[error("{option} is {got}; want {want}")]
    WrongOption {
        option: &'static str,
        got: String,
        /// What would be right.
        want: &'static str,
    },
    /// A word that names no field.
    #[error("{got:?} is no field to compare; want one of {want}")]
    WrongField { got: String, want: String },
    /// A series whose columns and times do not fit together.
    #[error("cannot thin a series that is broken: {defect}")]
    BrokenSeries {
        /// What is wrong with it.
        defect: String,
    },
    /// So few points that the extremes of each gauge do not fit.
    #[error(
        "series {series:?}: {points} points are too few for its {gauges} gauges; want at least {want}, or fewer columns"
    )]
    TooFewPoints {
        series: String,
        /// How many points were asked for.
        points: usize,
        /// How many gauges it has.
        gauges: usize,
        /// The fewest that work.
        want: usize,
    },
}
