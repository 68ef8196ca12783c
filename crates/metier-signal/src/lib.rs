//! What one series does, and what it will do.
//!
//! - [`period`] finds periods, with a stated rate of false alarms that holds on red noise.
//! - [`forecast`] predicts values with quantiles, and the mean and the peak of a horizon.
//! - [`line`] fits the straight line.
//!
//! Invariants: no I/O, no clock, no global state. The same values give the same result.

pub mod error;
pub mod forecast;
pub mod line;
pub mod period;

pub use error::Error;
pub use period::{DetectedPeriod, PeriodDetector};
