//! What one series does, and what it will do.
//!
//! - [`even_series`] cleans timed values and puts them on an even grid.
//! - [`pattern`] names what a series does.
//! - [`period`] finds periods, with a stated rate of false alarms that holds on red noise.
//! - [`change`] finds changes of level, with a stated rate of false alarms.
//! - [`forecast`] says what comes, with quantiles.
//! - [`signal_record`] joins these for one column.
//! - [`line`] fits the straight line; [`median`] and [`random`] serve the others.
//!
//! Invariants: no I/O, no clock, no global state. The same values give the same result.

pub mod block_means;
pub mod change;
pub mod error;
pub mod even_series;
pub mod forecast;
pub mod line;
pub mod median;
pub mod pattern;
pub mod period;
pub mod random;
pub mod signal_record;

pub use error::Error;
pub use even_series::{EvenSeries, SeriesRepairs, ValueMeaning};
pub use pattern::{PatternKind, PatternOptions, SeriesPattern, analyse_series};
pub use period::{DetectedPeriod, PeriodDetector};
pub use signal_record::{SignalOptions, SignalRecord};
