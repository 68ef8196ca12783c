//! How far predictions are from what was measured.

use serde::{Deserialize, Serialize};

/// Errors of predictions on rows that the predictor has not seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub rows: usize,
    /// Mean of the absolute errors.
    pub mae: f64,
    /// Root of the mean of the squared errors.
    pub rmse: f64,
    /// Mean of the errors relative to the measured values above the floor; `None` where no row is above it.
    pub mape: Option<f64>,
    /// Rows above the floor.
    pub rows_above_floor: usize,
    /// Share of rows above the floor within 10 % of what was measured.
    pub within_10: Option<f64>,
    /// Share of rows above the floor within 20 %.
    pub within_20: Option<f64>,
}

impl Score {
    /// Compares; relative errors only where the measured value is above `floor`, since near 0 they mean nothing.
    pub fn of(measured: &[f64], predicted: &[f64], floor: f64) -> Option<Self> {
        let rows = measured.len();
        if rows == 0 || predicted.len() != rows {
            return None;
        }
        let errors = || measured.iter().zip(predicted).map(|(is, said)| (is - said).abs());
        let relative: Vec<f64> = measured
            .iter()
            .zip(predicted)
            .filter(|(is, _)| is.abs() > floor)
            .map(|(is, said)| ((is - said) / is).abs())
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

/// The value below which a share of the values lie: the smallest that at least this share does not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(place.min(sorted.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_near_zero_do_not_count_as_relative_ones() {
        let score = Score::of(&[10.0, 20.0, 1e-9], &[11.0, 15.0, 1.0], 0.5).unwrap();
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
