//! Statistics of repeated runs, and downsampling of series.
//!
//! - [`spread`]: one batch: median, scatter, outliers, and warnings with advice.
//! - [`compare`](mod@compare): two groups of runs: the change of each field with an interval and a
//!   verdict.
//! - [`relative_change`]: changes of level in a history, with a stated rate of false alarms.
//! - [`build_trend`]: histories of workloads on devices, with other differences at each change.
//! - [`downsample`](mod@downsample): a series reduced for drawing, with measured rows only.
//!
//! Invariants: no I/O, no clock, no global state. The same runs and options give the same result in
//! any order of the runs. An absent value is never counted as 0.

pub mod change;
pub mod compare;
pub mod comparison;
pub mod downsample;
pub mod error;
pub mod spread;
pub mod summary_field;
pub mod trend;

mod batch_drift;
mod bootstrap;
mod circumstances;
mod pairing;
mod permutation;
mod random;
mod run_selection;

pub use change::{ChangeOptions, find_changes};
pub use compare::{CompareOptions, compare};
pub use comparison::{
    ComparedGroup, ComparisonVerdict, DriftTreatment, ExcludedRun, ExclusionReason, LevelSummary,
    MetricComparison, RunComparison,
};
pub use downsample::downsample;
pub use error::Error;
pub use spread::{BatchSpread, FieldSpread, ValueSpread, batch_spread, value_spread};
pub use summary_field::SummaryField;
pub use trend::{TrendMetric, TrendReport, find_trends};
