//! What repeated runs say together, and what a series looks like from afar.
//!
//! - [`spread`]: one batch: median, scatter, outliers, and warnings with advice.
//! - [`compare`](mod@compare): two groups of runs: per field the change with an interval, and a verdict that calls a
//!   difference only where there is one.
//! - [`change`]: a history of values: where its level changed, with a stated rate of false alarms.
//! - [`trend`]: the histories of workloads on devices, with what else changed at each change.
//! - [`downsample`](mod@downsample): a series thinned for drawing, made of rows that were really measured.
//!
//! Invariants: no input or output, no clock, no global state; the same runs and options give the same answer
//! in whatever order the runs come; nothing absent is counted as 0.

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
