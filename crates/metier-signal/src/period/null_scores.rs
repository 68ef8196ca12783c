//! How high the score of noise is: the table behind the stated rate of false alarms.

/// Rates of the columns of [`SCORES`].
const RATES: [f64; 7] = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001];

/// Scores that noise of so many samples exceeds at those rates: at each rate the highest of six
/// kinds of noise, 8,000 series each. `detection calibrate 8000` (an example of this crate) prints
/// them.
const SCORES: [(usize, [f64; 7]); 8] = [
    (20, [2.44, 3.25, 4.08, 5.22, 5.95, 6.74, 8.52]),
    (40, [3.66, 4.58, 5.42, 6.58, 7.44, 8.84, 12.59]),
    (60, [4.19, 5.14, 6.00, 7.14, 8.70, 10.76, 14.88]),
    (120, [4.90, 5.88, 6.71, 7.82, 8.72, 9.90, 12.83]),
    (240, [5.32, 6.23, 7.07, 8.26, 9.33, 10.58, 14.50]),
    (600, [5.77, 6.71, 7.65, 8.79, 9.67, 10.52, 12.55]),
    (1200, [6.00, 6.99, 7.93, 9.24, 9.99, 10.73, 12.26]),
    (2048, [6.27, 7.32, 8.27, 9.43, 10.35, 11.25, 13.22]),
];

/// The share of noise series of a length whose score is at least this; an upper bound.
pub fn false_alarm_rate(score: f64, samples: usize) -> f64 {
    let row = scores_of(samples);
    if score < row[0] {
        return 1.0;
    }
    let last = RATES.len() - 1;
    let at = (1..=last).find(|at| score < row[*at]).unwrap_or(last);
    // The logarithm of the rate falls in proportion to the score; beyond the table, as in its end.
    let slope = (RATES[at] / RATES[at - 1]).ln() / (row[at] - row[at - 1]);
    RATES[at - 1] * (slope * (score - row[at - 1])).exp()
}

/// The row of a length, between those of the table by the logarithm of the length.
fn scores_of(samples: usize) -> [f64; 7] {
    let upper = SCORES.iter().position(|(length, _)| *length >= samples);
    match upper {
        None => SCORES[SCORES.len() - 1].1,
        Some(0) => SCORES[0].1,
        Some(at) => {
            let ((short, low), (long, high)) = (&SCORES[at - 1], &SCORES[at]);
            let part = (samples as f64 / *short as f64).ln() / (*long as f64 / *short as f64).ln();
            std::array::from_fn(|column| low[column] * (1.0 - part) + high[column] * part)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_the_table_come_back_and_fall_with_the_score() {
        for (length, row) in SCORES {
            for (rate, score) in RATES.into_iter().zip(row) {
                assert!((false_alarm_rate(score, length) / rate - 1.0).abs() < 1e-9, "{length} {score}");
            }
            let rates: Vec<f64> = (0..40).map(|score| false_alarm_rate(f64::from(score), length)).collect();
            assert!(rates.windows(2).all(|pair| pair[0] >= pair[1]), "{rates:?}");
        }
        assert_eq!(false_alarm_rate(0.0, 120), 1.0);
    }
}
