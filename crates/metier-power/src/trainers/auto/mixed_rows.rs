//! Training rows: the measured rows, and mixtures of rows.
//!
//! Rates and watts of a row are means over its seconds. If a load begins or ends within them, the
//! row is a mixture of the rows before and after, in watts exactly as in features. Few measured
//! rows are mixtures, and errors are largest there. So idle and loaded rows are mixed here; each
//! mixture has a tenth of a row's weight.

use metier_learn::linear_algebra::DenseMatrix;
use metier_types::random::SplitMix64;

use crate::Error;

/// Added before a logarithm: a millionth of the largest value.
const LOG_OFFSET: f64 = 1e-6;
/// Rows are idle if their features are on average at most this share of the largest values.
const MAX_REST_LOAD: f64 = 0.03;
/// One mixture for this many rows.
const ROWS_PER_MIXTURE: usize = 3;
/// Weight of a mixture.
const MIXTURE_WEIGHT: f64 = 0.1;
/// Largest number of features for which ratios are computed.
const MAX_RATIO_FEATURES: usize = 16;

/// Measured rows followed by mixtures.
pub struct MixedRows {
    pub x: DenseMatrix,
    /// Logarithms and ratios of the features.
    pub rich: DenseMatrix,
    pub y: Vec<f64>,
    /// Row weights.
    pub weights: Vec<f64>,
    /// Mean of the watts.
    pub mean: f64,
}

/// Logarithms of all features and of all ratios of two.
pub fn derived_features(row: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = row.iter().map(|value| (value.max(0.0) + LOG_OFFSET).ln()).collect();
    let mut out = logs.clone();
    if logs.len() <= MAX_RATIO_FEATURES {
        for (at, value) in logs.iter().enumerate() {
            out.extend(logs[at + 1..].iter().map(|other| value - other));
        }
    }
    out
}

impl MixedRows {
    /// Builds the rows from scaled features and watts.
    pub fn new(x: &DenseMatrix, y: &[f64], seed: u64) -> Result<Self, Error> {
        let mut all = x.clone();
        let mut watts = y.to_vec();
        let load = |row: usize| x.row(row).iter().sum::<f64>() / x.width().max(1) as f64;
        let (rest, work): (Vec<usize>, Vec<usize>) = (0..y.len()).partition(|row| load(*row) < MAX_REST_LOAD);
        if rest.len() > 1 && work.len() > 1 {
            let mut chance = SplitMix64::new(seed);
            for _ in 0..y.len() / ROWS_PER_MIXTURE {
                let (number, other) =
                    (work[chance.next_below(work.len())], rest[chance.next_below(rest.len())]);
                let share = chance.next_below(1 << 20) as f64 / (1 << 20) as f64;
                let mixed = |value: f64, other: f64| share * value + (1.0 - share) * other;
                let row: Vec<f64> = x
                    .row(number)
                    .iter()
                    .zip(x.row(other))
                    .map(|(current, other)| mixed(*current, *other))
                    .collect();
                all.push_row(&row)?;
                watts.push(mixed(y[number], y[other]));
            }
        }
        let rich: Vec<Vec<f64>> = (0..watts.len()).map(|row| derived_features(all.row(row))).collect();
        let weights = (0..watts.len()).map(|row| if row < y.len() { 1.0 } else { MIXTURE_WEIGHT }).collect();
        let mean = y.iter().sum::<f64>() / y.len().max(1) as f64;
        Ok(Self { x: all, rich: DenseMatrix::from_rows(&rich)?, y: watts, weights, mean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixtures_lie_between_a_row_at_rest_and_one_at_work() {
        let rows: Vec<Vec<f64>> = (0..30).map(|row| vec![if row < 10 { 0.01 } else { 0.9 }]).collect();
        let y: Vec<f64> = (0..30).map(|row| if row < 10 { 10.0 } else { 100.0 }).collect();
        let made = MixedRows::new(&DenseMatrix::from_rows(&rows).unwrap(), &y, 1).unwrap();
        assert_eq!((made.y.len(), made.weights[29], made.weights[30]), (40, 1.0, MIXTURE_WEIGHT));
        for row in 30..40 {
            let share = (made.x.row(row)[0] - 0.01) / 0.89;
            assert!((made.y[row] - (10.0 + 90.0 * share)).abs() < 1e-9);
            assert!((0.0..1.0).contains(&share));
        }
        let busy = vec![vec![0.9]; 30];
        assert_eq!(MixedRows::new(&DenseMatrix::from_rows(&busy).unwrap(), &y, 1).unwrap().y.len(), 30);
    }
}
