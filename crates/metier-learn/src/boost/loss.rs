//! Loss functions: gradient, and best constant.

use crate::score::quantile;

/// Loss function of a prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossFunction {
    /// Squared error: predicts the mean.
    Squared,
    /// Absolute error: predicts the median.
    Absolute,
    /// Pinball loss: predicts the quantile for this share of targets.
    Quantile(f64),
}

impl LossFunction {
    fn quantile_share(self) -> Option<f64> {
        match self {
            Self::Squared => None,
            Self::Absolute => Some(0.5),
            Self::Quantile(share) => Some(share),
        }
    }

    pub fn initial_prediction(self, target: &[f64]) -> f64 {
        let mean = || target.iter().sum::<f64>() / target.len().max(1) as f64;
        self.best_constant(target.iter().copied()).unwrap_or_else(mean)
    }

    /// Gradient and curvature at a prediction. Losses with corners have no curvature, so every row
    /// counts 1.
    pub fn gradient(self, is: f64, value: f64) -> (f64, f64) {
        match self.quantile_share() {
            None => (value - is, 1.0),
            Some(share) => (if is > value { -share } else { 1.0 - share }, 1.0),
        }
    }

    /// The best constant for residuals; `None` if the gradients determine it.
    pub fn best_constant(self, left: impl Iterator<Item = f64>) -> Option<f64> {
        let share = self.quantile_share()?;
        let mut left: Vec<f64> = left.collect();
        left.sort_by(f64::total_cmp);
        let low = quantile(&left, share)?;
        // The median of an even number lies half-way, as does any quantile between two values.
        let exact = share * left.len() as f64;
        let at = exact as usize;
        Some(if exact.fract() == 0.0 && at < left.len() { (low + left[at]) / 2.0 } else { low })
    }

    /// The best constant for weighted residuals.
    pub fn weighted_best_constant(self, left: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
        let share = self.quantile_share()?;
        let mut left: Vec<(f64, f64)> = left.collect();
        left.sort_by(|a, b| a.0.total_cmp(&b.0));
        let current = share * left.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut sum = 0.0;
        let reaches = |(_, weight): &&(f64, f64)| {
            sum += weight;
            sum >= current
        };
        left.iter().find(reaches).or(left.last()).map(|(value, _)| *value)
    }

    /// Mean loss of predictions.
    pub fn mean_loss(self, target: &[f64], values: &[f64]) -> f64 {
        let each = target.iter().zip(values).map(|(is, value)| {
            let error = is - value;
            match self.quantile_share() {
                None => error * error,
                Some(share) if error > 0.0 => share * error,
                Some(share) => (share - 1.0) * error,
            }
        });
        each.sum::<f64>() / target.len().max(1) as f64
    }
}
