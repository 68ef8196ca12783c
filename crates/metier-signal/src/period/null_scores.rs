//! How high the score of noise is: the table behind the stated rate of false alarms.

/// Rates of the columns of [`SCORES`].
const RATES: [f64; 7] = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001];

/// Scores that noise of so many samples exceeds at those rates.
const SCORES: [(usize, [f64; 7]); 1] = [(120, [5.0, 5.5, 6.5, 7.5, 8.5, 9.5, 12.0])];

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
