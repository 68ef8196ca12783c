//! Quantiles of past forecast errors with finite-sample correction.
//!
//! Split conformal prediction: with n past errors the p-quantile is taken at level p(n + 1)/n
//! (Vovk, Gammerman and Shafer 2005; Lei et al. 2018), with weights that favour recent errors
//! (Barber et al. 2023, *Conformal prediction beyond exchangeability*). Errors of overlapping
//! windows count as fewer independent ones. Beyond the largest error the tail is continued as
//! exponential, so that few errors give wide bands instead of none.

/// Independent errors below which both tails share all of them.
const MIN_ONE_SIDED: f64 = 4.0;

/// Errors of past forecasts of one kind, sorted, with the weight of each.
#[derive(Debug, Clone)]
pub struct ErrorDistribution {
    errors: Vec<(f64, f64)>,
    total: f64,
    /// Independent errors that these are worth.
    independent: f64,
}

impl ErrorDistribution {
    /// From errors, newest first: each `half_life` errors the weight halves; `overlap` neighbours
    /// share their window.
    pub fn new(newest_first: impl Iterator<Item = f64>, half_life: f64, overlap: f64) -> Option<Self> {
        let decay = (-std::f64::consts::LN_2 / half_life).exp();
        let mut weight = 1.0;
        let mut squares = 0.0;
        let mut total = 0.0;
        let mut errors: Vec<(f64, f64)> = newest_first
            .map(|error| {
                let entry = (error, weight);
                total += weight;
                squares += weight * weight;
                weight *= decay;
                entry
            })
            .collect();
        if errors.is_empty() {
            return None;
        }
        let independent = (total * total / squares / overlap.max(1.0)).max(1.0);
        if independent < MIN_ONE_SIDED {
            let mirrored: Vec<_> = errors.iter().map(|(error, weight)| (-error, *weight)).collect();
            errors.extend(mirrored);
            total *= 2.0;
        }
        errors.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        Some(Self { errors, total, independent })
    }

    /// The error that a share `level` of errors does not exceed.
    pub fn quantile(&self, level: f64) -> f64 {
        if level < 0.5 { -self.upper(1.0 - level, true) } else { self.upper(level, false) }
    }

    /// The same around 0, with all errors multiplied by a positive factor: for steps without errors
    /// of their own. A bias of near steps says nothing of far ones, so only the width is taken over.
    pub fn widened(&self, factor: f64) -> Self {
        let middle = self.quantile(0.5);
        let errors = self.errors.iter().map(|(error, weight)| ((error - middle) * factor, *weight)).collect();
        Self { errors, ..*self }
    }

    /// The weighted mean error.
    pub fn mean(&self) -> f64 {
        self.errors.iter().map(|(error, weight)| error * weight).sum::<f64>() / self.total
    }

    /// Quantile of level 0.5 or more of the errors or of the negated errors.
    fn upper(&self, level: f64, is_negated: bool) -> f64 {
        // The median stays; towards the tail this is level × (n + 1) / n.
        let level_in_sample = level + (level - 0.5).max(0.0) * 2.0 * level / self.independent;
        let at = |share: f64| self.raw(share, is_negated);
        if level_in_sample <= 1.0 {
            return at(level_in_sample);
        }
        let largest = at(1.0);
        let median = at(0.5);
        let scale = (largest - median) / ((self.independent + 1.0) / 2.0).max(1.5).ln();
        largest + scale * (1.0 / (self.independent + 1.0) / (1.0 - level)).ln().max(0.0)
    }

    fn raw(&self, share: f64, is_negated: bool) -> f64 {
        let share_above = share * self.total * (1.0 - 1e-12);
        let mut sum = 0.0;
        let mut pick = |(error, weight): &(f64, f64)| {
            sum += weight;
            (sum >= share_above).then_some(*error)
        };
        let ends = (self.errors[0].0, self.errors[self.errors.len() - 1].0);
        if is_negated {
            -self.errors.iter().rev().find_map(&mut pick).unwrap_or(ends.0)
        } else {
            self.errors.iter().find_map(&mut pick).unwrap_or(ends.1)
        }
    }
}
