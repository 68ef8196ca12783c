//! Forecasts of one evenly spaced series, with quantiles, the mean and the peak of the horizon.
//!
//! 1. Cheap methods run side by side ([`methods`]).
//! 2. They are combined at each step by their past errors ([`combination`]).
//! 3. The errors of the combination at past origins give the quantiles ([`bands`]); the mean and
//!    the peak of the horizon have errors of their own. The peak is not derived from the steps'
//!    bands.
//! 4. [`SeriesTracker`] holds the state; a new sample costs no recomputation of all.
//!
//! Values may have any unit and range; only the sign is respected: forecasts of a series without
//! negative values have none.
//!
//! Limits: evenly spaced values without gaps. Two equal samples are a constant series, with bands
//! of no width. Bands hold on average over time while the series stays what it was; no band covers
//! a change of level that has no precedent. With fewer than four windows of past forecasts, the
//! peak has a bound from the steps instead of a distribution of its own.

pub mod bands;
pub mod combination;
pub mod methods;
pub mod options;
pub mod tracker;

use crate::Error;
pub use options::ForecastOptions;
pub use tracker::SeriesTracker;

/// Most steps of a forecast.
pub const MAX_HORIZON: usize = 1024;
/// Most samples that count; older ones are not read.
pub const MAX_HISTORY: usize = 2048;
/// Most quantiles.
pub const MAX_QUANTILES: usize = 32;
/// Largest absolute value, so that squares stay finite.
pub const MAX_VALUE: f64 = 1e150;
/// Fewest samples.
pub const MIN_HISTORY: usize = 2;

/// The distribution of one future value.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastDistribution {
    /// The expected value; the median is the better forecast where errors count by their size.
    pub mean: f64,
    /// One value for each level of the options, never falling.
    pub quantiles: Vec<f64>,
}

/// The forecast of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesForecast {
    /// One for each step ahead.
    pub steps: Vec<ForecastDistribution>,
    /// The mean over the horizon.
    pub mean: ForecastDistribution,
    /// The largest value within the horizon, predicted on its own.
    pub peak: ForecastDistribution,
}

/// Forecasts a series of evenly spaced values; `period` in samples.
pub fn forecast(
    values: &[f64],
    period: Option<f64>,
    options: &ForecastOptions,
) -> Result<SeriesForecast, Error> {
    let mut tracker = SeriesTracker::new(period, options)?;
    for value in &values[values.len().saturating_sub(MAX_HISTORY)..] {
        tracker.push(*value)?;
    }
    tracker.forecast()
}
