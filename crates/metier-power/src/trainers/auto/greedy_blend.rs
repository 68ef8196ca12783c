//! Weights of the ensemble members: the greedy blend of Caruana et al. (2004). Each step adds the
//! member that lowers the error most.
//!
//! The error has two parts: mean watts, and mean relative error of rows above the floor. Each is a
//! multiple of the best original trainer's error on the same rows; exceeding that costs a penalty.
//! So a blend that is good in only one part is not selected, whatever the range of the watts.

use std::collections::BTreeMap;

use super::ensemble_members::{EnsembleMemberKind, MEMBER_KINDS};

/// Steps of the blend.
const BLEND_STEPS: usize = 12;
/// Steps that an earlier blend counts for.
const EARLIER_STEPS: f64 = 3.0;
/// Required improvement for a new member, since each makes the file larger.
const NEW_MEMBER_MARGIN: f64 = 1.005;
/// Errors above this multiple of the original's best are penalised. It is below 1, since the error
/// on other rows may be a little larger.
const BASELINE_MARGIN: f64 = 0.97;
const EXCESS_PENALTY: f64 = 10.0;

/// Held-out predictions.
pub struct BlendCandidates<'a> {
    pub voices: &'a BTreeMap<EnsembleMemberKind, Vec<f64>>,
    /// Predictions of the original's trainers.
    pub others: &'a [Vec<f64>],
    pub y: &'a [f64],
    /// Rows below this many watts are left out of relative errors.
    pub floor: f64,
}

/// Weights of the members, and the error of the blend.
#[derive(Debug, Default)]
pub struct MemberShares {
    pub of: BTreeMap<EnsembleMemberKind, f64>,
    pub loss: f64,
}

/// Sums of the errors of some rows: in watts, and relative for rows above the floor.
#[derive(Debug, Clone, Copy)]
struct ErrorSums {
    watts: f64,
    relative: f64,
}

impl BlendCandidates<'_> {
    fn errors(&self, rows: &[usize], predicted: impl Fn(usize, usize) -> f64) -> ErrorSums {
        let mut errors = ErrorSums { watts: 0.0, relative: 0.0 };
        for (at, row) in rows.iter().enumerate() {
            let missed = (predicted(at, *row) - self.y[*row]).abs();
            errors.watts += missed;
            if self.y[*row] > self.floor {
                errors.relative += missed / self.y[*row];
            }
        }
        errors
    }

    /// Smallest error of the original's trainers; of the members if there are none.
    fn best(&self, rows: &[usize]) -> ErrorSums {
        let lists = self.others.iter().chain(self.voices.values().filter(|_| self.others.is_empty()));
        let least = |a: ErrorSums, b: ErrorSums| ErrorSums {
            watts: a.watts.min(b.watts),
            relative: a.relative.min(b.relative),
        };
        let none = ErrorSums { watts: f64::INFINITY, relative: f64::INFINITY };
        lists.map(|values| self.errors(rows, |_, row| values[row])).fold(none, least)
    }
}

/// Computes the blend from these rows.
pub fn blend(
    candidates: &BlendCandidates<'_>,
    rows: &[usize],
    earlier: Option<&BTreeMap<EnsembleMemberKind, f64>>,
) -> MemberShares {
    let best = candidates.best(rows);
    let worth = |errors: ErrorSums| {
        let penalised = |error: f64, best: f64| {
            let ratio = if best > 0.0 { error / best } else { error };
            ratio + EXCESS_PENALTY * (ratio - BASELINE_MARGIN).max(0.0)
        };
        penalised(errors.watts, best.watts) + penalised(errors.relative, best.relative)
    };
    let mut votes: BTreeMap<EnsembleMemberKind, f64> = MEMBER_KINDS.iter().map(|kind| (*kind, 0.0)).collect();
    for (kind, share) in earlier.into_iter().flatten() {
        votes.insert(*kind, share * EARLIER_STEPS);
    }
    let mut sums = vec![0.0; rows.len()];
    for (kind, votes) in votes.iter().filter(|(_, votes)| **votes > 0.0) {
        sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += votes * candidates.voices[kind][*row]);
    }
    let mut loss = f64::INFINITY;
    for _ in 0..BLEND_STEPS {
        let total: f64 = votes.values().sum::<f64>() + 1.0;
        let tried = MEMBER_KINDS.into_iter().map(|kind| {
            let own = &candidates.voices[&kind];
            let loss = worth(candidates.errors(rows, |at, row| (sums[at] + own[row]) / total));
            let is_new = votes.get(&kind).is_none_or(|votes| *votes == 0.0);
            (loss * if is_new { NEW_MEMBER_MARGIN } else { 1.0 }, loss, kind)
        });
        let Some((_, own, kind)) = tried.reduce(|a, b| if b.0 < a.0 { b } else { a }) else { break };
        loss = own;
        *votes.entry(kind).or_default() += 1.0;
        sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += candidates.voices[&kind][*row]);
    }
    let total: f64 = votes.values().sum();
    MemberShares { of: votes.into_iter().map(|(kind, votes)| (kind, votes / total)).collect(), loss }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(
        predicted: &[(EnsembleMemberKind, Vec<f64>)],
        y: &[f64],
        earlier: Option<EnsembleMemberKind>,
    ) -> BTreeMap<EnsembleMemberKind, f64> {
        let mut voices: BTreeMap<EnsembleMemberKind, Vec<f64>> =
            MEMBER_KINDS.iter().map(|kind| (*kind, vec![5000.0; y.len()])).collect();
        voices.extend(predicted.iter().cloned());
        let earlier = earlier.map(|kind| [(kind, 1.0)].into_iter().collect());
        let others = vec![y.iter().map(|y| y * 1.3).collect()];
        let all: Vec<usize> = (0..y.len()).collect();
        blend(&BlendCandidates { voices: &voices, others: &others, y, floor: 1.0 }, &all, earlier.as_ref()).of
    }

    /// A member with a small relative error that underestimates rows of many watts must not
    /// outweigh one that is nearly as good in both.
    #[test]
    fn a_voice_that_is_good_in_per_cent_only_does_not_rule() {
        let y: Vec<f64> = (0..100).map(|row| if row < 80 { 2.0 } else { 200.0 }).collect();
        let fair: Vec<f64> = y.iter().map(|y| y * 1.22).collect();
        let of = shares(
            &[(EnsembleMemberKind::Relative, vec![2.0; 100]), (EnsembleMemberKind::Balanced, fair)],
            &y,
            None,
        );
        assert!(of[&EnsembleMemberKind::Balanced] > 0.7, "{of:?}");
        assert_eq!(of[&EnsembleMemberKind::Median], 0.0);
    }

    #[test]
    fn an_earlier_blend_has_votes() {
        let y = vec![10.0; 20];
        let predicted: Vec<(EnsembleMemberKind, Vec<f64>)> =
            MEMBER_KINDS.iter().map(|kind| (*kind, vec![10.0; 20])).collect();
        assert!(
            shares(&predicted, &y, Some(EnsembleMemberKind::Monotone))[&EnsembleMemberKind::Monotone] > 0.15
        );
        assert_eq!(shares(&predicted, &y, None)[&EnsembleMemberKind::Monotone], 0.0);
    }
}
