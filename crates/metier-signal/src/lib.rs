//! What repeated runs say together, and what a series looks like from afar.
//!
//! - [`spread`]: one batch: median, scatter, outliers, and warnings with advice.
//! - [`compare`](mod@compare): two groups of runs: per field the change with an interval, and a verdict that calls a
//!   difference only where there is one.
//! - [`downsample`](mod@downsample): a series thinned for drawing, made of rows that were really measured.
//!
//! Invariants: no input or output, no clock, no global state; the same runs and options give the same answer
//! in whatever order the runs come; nothing absent is counted as 0.

pub mod compare;
pub mod comparison;
pub mod downsample;
pub mod error;
pub mod field;
pub mod spread;

mod bootstrap;
mod choose;
mod circumstances;
mod permutation;
mod random;

pub use compare::{CompareOptions, compare};
pub use comparison::{Comparison, Group, LeftOut, LeftOutBecause, Level, Metric, Verdict};
pub use downsample::downsample;
pub use error::Error;
pub use field::Field;
pub use spread::{BatchSpread, FieldSpread, Spread, batch_spread, spread_of};
