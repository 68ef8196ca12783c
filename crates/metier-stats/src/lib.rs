//! Statistics of repeated runs, and downsampling of series.
//!
//! - [`spread`]: one batch: median, scatter, outliers, and warnings with advice.
//! - [`compare`](mod@compare): two groups of runs: the change of each field with an interval and a
//!   verdict.
//! - [`change`]: changes of level in a history, as found by `metier-signal`.
//! - [`build_trend`]: histories of workloads on devices, with other differences at each change.
//! - [`busy_cores`]: the peak of busy cores, and rates of counters for drawing.
//! - [`resource_sizing`]: requests and limits for a scheduler from what runs used.
//! - [`downsample`](mod@downsample): a series reduced for drawing, with measured rows only.
//!
//! Invariants: no I/O, no clock, no global state. The same runs and options give the same result in
//! any order of the runs. An absent value is never counted as 0.

pub mod busy_cores;
pub mod compare;
pub mod comparison;
pub mod downsample;
pub mod error;
pub mod resource_sizing;
pub mod spread;
pub mod summary_field;
pub mod trend;

mod batch_drift;
mod bootstrap;
mod circumstances;
mod pairing;
mod permutation;
mod run_selection;

pub use busy_cores::{CorePeakTracker, counter_rates, peak_cores};
pub use compare::{CompareOptions, compare};
pub use comparison::{
    ComparedGroup, ComparisonVerdict, DriftTreatment, ExcludedRun, ExclusionReason, LevelSummary,
    MetricComparison, RunComparison,
};
pub use downsample::downsample;
pub use error::Error;
pub use metier_signal::change::{self, ChangeMemo, ChangeOptions, find_changes};
use metier_signal::random;
pub use resource_sizing::{AdviceFirmness, ResourceAdvice, ResourceQuota, UseHistory, size_resources};
pub use spread::{BatchSpread, FieldSpread, ValueSpread, batch_spread, value_spread};
pub use summary_field::SummaryField;
pub use trend::{TrendMetric, TrendReport, find_trends};
