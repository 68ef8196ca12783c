//! Error measures of predictions.

use serde::{Deserialize, Serialize};

/// Errors of predictions on held-out rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PredictionScore {
    pub rows: usize,
    /// Mean absolute error.
    pub mae: f64,
    /// Root mean squared error.
    pub rmse: f64,
    /// Mean absolute percentage error of rows above the floor; `None` if there are none.
    pub mape: Option<f64>,
    /// Rows above the floor.
    pub rows_above_floor: usize,
    /// Share of rows above the floor with an error within 10 % of the measured value.
    pub within_10: Option<f64>,
    /// Share of rows above the floor within 20 %.
    pub within_20: Option<f64>,
}

impl PredictionScore {
    /// Computes the errors; relative ones only for measured values above `floor`, because they are
    /// meaningless near 0.
    pub fn compute(measured: &[f64], predicted: &[f64], floor: f64) -> Option<Self> {
        let rows = measured.len();
        if rows == 0 || predicted.len() != rows {
            return None;
        }
        let errors = || measured.iter().zip(predicted).map(|(is, value)| (is - value).abs());
        let relative: Vec<f64> = measured
            .iter()
            .zip(predicted)
            .filter(|(is, _)| is.abs() > floor)
            .map(|(is, value)| ((is - value) / is).abs())
            .collect();
        let above = relative.len();
        let share = |limit: f64| {
            (above > 0)
                .then(|| relative.iter().filter(|error| **error <= limit).count() as f64 / above as f64)
        };
        Some(Self {
            rows,
            mae: errors().sum::<f64>() / rows as f64,
            rmse: (errors().map(|error| error * error).sum::<f64>() / rows as f64).sqrt(),
            mape: (above > 0).then(|| relative.iter().sum::<f64>() / above as f64),
            rows_above_floor: above,
            within_10: share(0.1),
            within_20: share(0.2),
        })
    }
}

/// Quantile: the smallest value that at least this share of the values does not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(place.min(sorted.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_near_zero_do_not_count_as_relative_ones() {
        let score = PredictionScore::compute(&[10.0, 20.0, 1e-9], &[11.0, 15.0, 1.0], 0.5).unwrap();
        assert_eq!((score.rows, score.rows_above_floor), (3, 2));
        assert!((score.mape.unwrap() - (0.1 + 0.25) / 2.0).abs() < 1e-12);
        assert_eq!((score.within_10, score.within_20), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&values, 0.5), Some(2.0));
        assert_eq!(quantile(&values, 0.51), Some(3.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
