//! Statistics of repeated runs, and downsampling of series.
//!
//! - [`spread`]: one batch: median, scatter, outliers, and warnings with advice.
//! - [`compare`](mod@compare): two groups of runs: the change of each field with an interval and a
//!   verdict.
//! - [`change`]: changes of level in a history, with a stated rate of false alarms.
//! - [`trend`]: histories of workloads on devices, with other differences at each change.
//! - [`downsample`](mod@downsample): a series reduced for drawing, with measured rows only.
//!
//! Invariants: no I/O, no clock, no global state. The same runs and options give the same result in
//! any order of the runs. An absent value is never counted as 0.

pub mod change;
pub mod compare;
pub mod comparison;
pub mod downsample;
pub mod error;
pub mod field;
pub mod spread;
pub mod trend;

mod bootstrap;
mod choose;
mod circumstances;
mod permutation;
mod random;

pub use change::{ChangeOptions, find_changes};
pub use compare::{CompareOptions, compare};
pub use comparison::{Comparison, Group, LeftOut, LeftOutBecause, Level, Metric, Verdict};
pub use downsample::downsample;
pub use error::Error;
pub use field::Field;
pub use spread::{BatchSpread, FieldSpread, Spread, batch_spread, spread_of};
pub use trend::{Figure, Trends, trends};
