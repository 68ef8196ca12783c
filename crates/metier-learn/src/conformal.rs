//! Prediction intervals with a guaranteed coverage.
//!
//! Split conformal prediction (Vovk, Gammerman and Shafer 2005; Lei et al. 2018): the scores of
//! held-out rows are sorted, and their quantile at the coverage widens every new prediction. Rows
//! of one workload or device are similar, so a guarantee for a *new* one must not count rows. Here
//! every group has the same weight, shared by its rows, and the new group is included with its own
//! weight at infinity (as in Dunn, Wasserman and Ramdas 2022 for two-layer data). With too few
//! groups for the coverage there is no interval.
//!
//! The score is `|measured − predicted| / scale`. Each row has a scale for errors of different
//! size: a second predictor, or the prediction itself for relative errors.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Calibrated interval widths, in units of a prediction's scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConformalCalibration {
    /// Scores in ascending order, each with the cumulative weight (the new group's weight is the
    /// rest up to 1).
    scores: Vec<(f64, f64)>,
    /// Number of groups of the scores.
    groups: usize,
}

/// One held-out row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationRow {
    pub measured: f64,
    pub predicted: f64,
    /// Typical size of an error for this row; above 0.
    pub scale: f64,
    /// The workload or device of the row.
    pub group: u64,
}

impl ConformalCalibration {
    /// Calibrates on held-out rows.
    pub fn new(rows: &[CalibrationRow]) -> Result<Self, Error> {
        let mut sizes = std::collections::BTreeMap::new();
        for row in rows {
            if !(row.scale > 0.0 && row.measured.is_finite() && row.predicted.is_finite()) {
                let why = format!(
                    "a row of scale {}, measured {}, predicted {}",
                    row.scale, row.measured, row.predicted
                );
                return Err(Error::Table { why });
            }
            *sizes.entry(row.group).or_insert(0usize) += 1;
        }
        if sizes.is_empty() {
            return Err(Error::TooFewItems { what: "rows", got: 0, want: 1, purpose: "calibrate" });
        }
        let each = 1.0 / (sizes.len() + 1) as f64;
        let mut scores: Vec<(f64, f64)> = rows
            .iter()
            .map(|row| {
                let share = sizes.get(&row.group).map_or(0.0, |size| each / *size as f64);
                ((row.measured - row.predicted).abs() / row.scale, share)
            })
            .collect();
        scores.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        for score in &mut scores {
            sum += score.1;
            score.1 = sum;
        }
        Ok(Self { scores, groups: sizes.len() })
    }

    /// Interval factor for a new group with this coverage; `None` if there are too few groups to
    /// guarantee it.
    pub fn interval_factor(&self, coverage: f64) -> Option<f64> {
        // A sum of many weights may fall short of the coverage by rounding.
        let value = coverage - 1e-9;
        self.scores.iter().find(|(_, weight)| *weight >= value).map(|(score, _)| *score)
    }

    /// Number of groups used for calibration.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Largest coverage that can be guaranteed.
    pub fn max_coverage(&self) -> f64 {
        self.groups as f64 / (self.groups + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn unseen(group: u64, error: f64) -> CalibrationRow {
        CalibrationRow { measured: error, predicted: 0.0, scale: 1.0, group }
    }

    #[test]
    fn with_one_row_a_group_it_is_plain_split_conformal() {
        // ⌈(9 + 1) · 0.8⌉ = 8: the eighth of nine scores.
        let rows: Vec<CalibrationRow> = (1..=9).map(|n| unseen(n, n as f64)).collect();
        let calibration = ConformalCalibration::new(&rows).unwrap();
        assert_eq!(calibration.interval_factor(0.8), Some(8.0));
        assert_eq!(calibration.interval_factor(0.9), Some(9.0));
        assert_eq!(calibration.interval_factor(0.91), None);
    }

    #[test]
    fn a_group_of_many_rows_does_not_drown_the_others() {
        let mut rows: Vec<CalibrationRow> = (0..1000).map(|_| unseen(0, 0.1)).collect();
        rows.extend((1..=9).map(|group| unseen(group, 5.0)));
        assert_eq!(ConformalCalibration::new(&rows).unwrap().interval_factor(0.8), Some(5.0));
    }

    /// The coverage holds for new groups, although rows of a group are similar.
    #[test]
    fn new_groups_are_covered_as_promised() {
        let mut random = SplitMix64::new(11);
        let mut uniform = || random.next_fraction();
        let (mut covered, mut asked) = (0.0, 0.0);
        for round in 0..400u64 {
            let group = |id: u64, uniform: &mut dyn FnMut() -> f64| -> Vec<CalibrationRow> {
                let level = uniform();
                (0..5).map(|_| unseen(id, level + 0.1 * uniform())).collect()
            };
            let rows: Vec<CalibrationRow> =
                (0..30).flat_map(|id| group(round * 100 + id, &mut uniform)).collect();
            let reach = ConformalCalibration::new(&rows).unwrap().interval_factor(0.9).unwrap();
            for row in group(round * 100 + 99, &mut uniform) {
                covered += f64::from(u8::from(row.measured <= reach));
                asked += 1.0;
            }
        }
        let share = covered / asked;
        assert!((0.87..0.94).contains(&share), "{share}");
    }
}
