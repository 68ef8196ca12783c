//! Compares the predictor in use with a candidate on held-out groups, and decides which one
//! answers.
//!
//! A group is a graph, a device, a phase or a time; each counts alike. With several targets (power
//! components) the worst decides, so that a gain in one cannot hide a loss in another.

use std::collections::BTreeMap;

/// Mean absolute errors of a predictor by group, one for each target.
pub type GroupErrors<K> = BTreeMap<K, Vec<f64>>;

/// Required relation between the errors of the candidate and of the predictor in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PromotionMargin {
    /// The candidate may be worse by this share: it has more training data, and measurements
    /// scatter.
    Tolerate(f64),
    /// The candidate must be better by this share.
    Demand(f64),
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PromotionDecision {
    /// The candidate answers.
    Promoted,
    /// The predictor in use stays: the candidate is no better.
    Kept,
    /// The predictor in use stays: there is too little data to train or compare.
    TooFew,
}

impl PromotionDecision {
    /// Name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::Kept => "kept",
            Self::TooFew => "short",
        }
    }
}

/// Errors of two predictors on their common groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictorComparison {
    /// Error of the predictor in use; `None` without one, or without common groups.
    pub incumbent: Option<f64>,
    /// Error of the candidate on the same groups; on all its groups if no predictor is in use.
    pub candidate: f64,
    pub groups: usize,
}

impl PredictorComparison {
    /// Compares on the common groups.
    pub fn new<K: Ord>(incumbent: Option<&GroupErrors<K>>, candidate: &GroupErrors<K>) -> Self {
        let is_common = |group: &&K| incumbent.is_none_or(|incumbent| incumbent.contains_key(*group));
        let groups: Vec<&K> = candidate.keys().filter(is_common).collect();
        let incumbent = incumbent.filter(|_| !groups.is_empty()).map(|errors| worst_mean(errors, &groups));
        Self { incumbent, candidate: worst_mean(candidate, &groups), groups: groups.len() }
    }

    /// Decides whether the candidate replaces the predictor in use.
    pub fn decide(&self, margin: PromotionMargin) -> PromotionDecision {
        let is_better = self.incumbent.is_none_or(|incumbent| match margin {
            PromotionMargin::Tolerate(share) => self.candidate <= incumbent * (1.0 + share),
            PromotionMargin::Demand(share) => self.candidate < incumbent * (1.0 - share),
        });
        if is_better { PromotionDecision::Promoted } else { PromotionDecision::Kept }
    }
}

/// The largest mean error of a target over these groups.
fn worst_mean<K: Ord>(errors: &GroupErrors<K>, groups: &[&K]) -> f64 {
    let targets = errors.values().next().map_or(0, Vec::len);
    let mean = |target: usize| {
        let sum: f64 = groups.iter().filter_map(|group| errors.get(*group)?.get(target)).sum();
        sum / groups.len().max(1) as f64
    };
    (0..targets).map(mean).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(of: &[(&'static str, &[f64])]) -> GroupErrors<&'static str> {
        of.iter().map(|(group, errors)| (*group, errors.to_vec())).collect()
    }

    #[test]
    fn only_common_groups_count_and_the_worst_target_decides() {
        let incumbent = errors(&[("a", &[1.0, 3.0]), ("b", &[1.0, 1.0]), ("old", &[90.0, 90.0])]);
        let candidate = errors(&[("a", &[1.0, 1.0]), ("b", &[2.0, 1.0]), ("new", &[80.0, 80.0])]);
        let compared = PredictorComparison::new(Some(&incumbent), &candidate);
        assert_eq!(compared, PredictorComparison { incumbent: Some(2.0), candidate: 1.5, groups: 2 });
        let alone = PredictorComparison::new(None, &candidate);
        assert_eq!((alone.incumbent, alone.groups), (None, 3));
        let nothing_common = PredictorComparison::new(Some(&errors(&[("c", &[1.0])])), &candidate);
        assert_eq!((nothing_common.incumbent, nothing_common.groups), (None, 0));
    }

    #[test]
    fn a_margin_tolerates_or_demands() {
        let of = |candidate: f64| PredictorComparison { incumbent: Some(1.0), candidate, groups: 1 };
        for (candidate, margin, want) in [
            (1.04, PromotionMargin::Tolerate(0.05), PromotionDecision::Promoted),
            (1.06, PromotionMargin::Tolerate(0.05), PromotionDecision::Kept),
            (0.99, PromotionMargin::Demand(0.02), PromotionDecision::Kept),
            (0.97, PromotionMargin::Demand(0.02), PromotionDecision::Promoted),
        ] {
            assert_eq!(of(candidate).decide(margin), want, "{candidate} {margin:?}");
        }
        let first = PredictorComparison { incumbent: None, candidate: 9.0, groups: 1 };
        assert_eq!(first.decide(PromotionMargin::Demand(0.02)), PromotionDecision::Promoted);
    }
}
