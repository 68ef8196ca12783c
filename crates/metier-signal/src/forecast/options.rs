//! What is to be forecast, and which values are accepted.

use super::{MAX_HISTORY, MAX_HORIZON, MAX_QUANTILES};
use crate::Error;

/// What is to be forecast.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastOptions {
    /// Steps ahead.
    pub horizon: usize,
    /// Levels of the quantiles, rising, between 0 and 1.
    pub quantiles: Vec<f64>,
}

impl Default for ForecastOptions {
    fn default() -> Self {
        Self { horizon: 12, quantiles: vec![0.025, 0.1, 0.5, 0.9, 0.975] }
    }
}

/// Checks the options and the period.
pub fn check_options(period: Option<f64>, options: &ForecastOptions) -> Result<(), Error> {
    if options.horizon == 0 || options.horizon > MAX_HORIZON {
        return Err(Error::WrongOption {
            option: "horizon",
            got: options.horizon.to_string(),
            want: "1 to 1024 steps; for more, average the series to longer steps",
        });
    }
    let levels = &options.quantiles;
    let is_rising = levels.windows(2).all(|pair| pair[0] < pair[1]);
    let is_inside = levels.iter().all(|level| *level > 0.0 && *level < 1.0);
    if !is_rising || !is_inside || levels.len() > MAX_QUANTILES {
        return Err(Error::WrongOption {
            option: "quantiles",
            got: format!("{levels:?}"),
            want: "at most 32 rising levels between 0 and 1, for example 0.1, 0.5, 0.9",
        });
    }
    if let Some(period) = period.filter(|period| !(2.0..=MAX_HISTORY as f64).contains(period)) {
        return Err(Error::WrongOption {
            option: "period",
            got: period.to_string(),
            want: "2 to 2048 samples, or no period",
        });
    }
    Ok(())
}
