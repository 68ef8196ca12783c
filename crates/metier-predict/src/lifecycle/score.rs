//! Computes held-out errors of predictions, and of the baselines on the same rows.

use metier_learn::score::PredictionScore;
use metier_types::{ExtraFields, HeldOutError, Ratio};

/// Held-out predictions of one target; each group was absent from the training data.
#[derive(Debug, Clone)]
pub struct UnseenPredictions<'a> {
    pub target: &'a str,
    pub unit: &'a str,
    /// Unit of the hold-out: `graphs`, `devices`, `phases`.
    pub held_out: &'a str,
    pub groups: usize,
    pub measured: &'a [f64],
    pub predicted: &'a [f64],
    /// Number of rows inside their intervals.
    pub covered: usize,
    /// Nominal coverage of the intervals.
    pub coverage: f64,
    /// Baselines by name; one with missing rows is left out.
    pub baselines: &'a [(&'a str, Option<Vec<f64>>)],
}

impl UnseenPredictions<'_> {
    /// The held-out error; `None` without rows.
    pub fn score(&self) -> Option<HeldOutError> {
        let score = PredictionScore::compute(self.measured, self.predicted, 0.0)?;
        let rows = self.measured.len();
        let baselines = self.baselines.iter().filter_map(|(name, values)| {
            let score = PredictionScore::compute(self.measured, values.as_ref()?, 0.0)?;
            Some((name.to_string(), score.mape.unwrap_or(f64::NAN)))
        });
        Some(HeldOutError {
            target: self.target.to_string(),
            unit: self.unit.to_string(),
            held_out: self.held_out.to_string(),
            rows: rows as u64,
            groups: self.groups as u64,
            mean_absolute_error: score.mae,
            mean_absolute_error_ratio: score.mape.map(Ratio),
            within_10_percent: score.within_10.map(Ratio),
            within_20_percent: score.within_20.map(Ratio),
            planned_coverage: Some(Ratio(self.coverage)),
            coverage: Some(Ratio(self.covered as f64 / rows as f64)),
            baselines: baselines.collect(),
            extra: ExtraFields::new(),
        })
    }
}
