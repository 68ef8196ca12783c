//! Runs that were measured by turns: pairs, and the distribution of their change.
//!
//! Both runs of a pair saw nearly the same state of the device, so drift cancels in the change of
//! each pair. The interval is the bootstrap over pairs (closed form, see `bootstrap`). The test
//! flips the signs of pairs, which is exact because the order within each pair was random
//! (Fisher, 1935).

use std::collections::{BTreeMap, BTreeSet};

use metier_types::{BatchId, Run};

use crate::permutation::StepDownCounts;
use crate::random::Xoshiro256;

/// Minimum number of pairs: of 2⁶ sign patterns, two are as clear as the clearest.
pub const MIN_PAIRS: usize = 6;

/// The pairs of two batches that were measured by turns, as indices into both sides; `None` if
/// they were not. A run whose partner was left out is in no pair.
pub fn pair_by_turn(a: &[&Run], b: &[&Run]) -> Option<Vec<(usize, usize)>> {
    let batch_a = single_batch(a)?;
    let batch_b = single_batch(b)?;
    let turns = |runs: &[&Run], other: BatchId| -> Option<BTreeMap<u32, usize>> {
        let turn = |(at, run): (usize, &&Run)| {
            let alternation = run.context.alternation.as_ref().filter(|turn| turn.with == other)?;
            Some((alternation.turn, at))
        };
        runs.iter().enumerate().map(turn).collect()
    };
    let (turns_a, turns_b) = (turns(a, batch_b)?, turns(b, batch_a)?);
    Some(turns_a.iter().filter_map(|(turn, at)| Some((*at, *turns_b.get(turn)?))).collect())
}

fn single_batch(runs: &[&Run]) -> Option<BatchId> {
    let batches: BTreeSet<BatchId> = runs.iter().map(|run| run.batch).collect();
    batches.first().copied().filter(|_| batches.len() == 1)
}

/// Difference of a pair relative to its mean: antisymmetric, from -2 to 2, and 0 for two zeros.
pub fn symmetric_change(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { 2.0 * (b - a) / (a + b) }
}

/// The p-value of each field's differences under random signs, corrected for the number of fields
/// as in `permutation`. `fields` holds the difference of each pair.
pub fn corrected_sign_p_values(fields: &[Vec<f64>], resamples: u32, seed: u64) -> Vec<f64> {
    let pairs = fields.first().map_or(0, Vec::len);
    let clamped: Vec<Vec<f64>> = fields.iter().map(|differences| clamp_sizes(differences)).collect();
    let statistic = |field: usize, is_flipped: &dyn Fn(usize) -> bool| {
        let sign = |at: usize| if is_flipped(at) { -1.0 } else { 1.0 };
        let (mut sum, mut squares) = (0.0, 0.0);
        for (at, x) in clamped[field].iter().enumerate() {
            sum += sign(at) * x;
            squares += x * x;
        }
        if squares > 1e-30 { sum * sum / (pairs as f64 * squares) } else { 0.0 }
    };
    let mut counts = StepDownCounts::new((0..fields.len()).map(|at| statistic(at, &|_| false)).collect());
    let is_complete = pairs < 32 && 1u64 << pairs <= u64::from(resamples);
    if is_complete {
        for pattern in 0..1u64 << pairs {
            counts.count(|field| statistic(field, &|at| pattern >> at & 1 == 1));
        }
    } else {
        let mut random = Xoshiro256::new(seed);
        for _ in 0..resamples {
            let words: Vec<u64> = (0..pairs.div_ceil(64)).map(|_| random.next_u64()).collect();
            counts.count(|field| statistic(field, &|at| words[at / 64] >> (at % 64) & 1 == 1));
        }
    }
    counts.p_values(is_complete, |field| fields[field].iter().any(|x| *x != 0.0))
}

/// Limits sizes to 5 times the median size, so that one outlier cannot hide a difference. Signs do
/// not matter to it, so the test stays exact.
fn clamp_sizes(differences: &[f64]) -> Vec<f64> {
    let mut sizes: Vec<f64> = differences.iter().map(|x| x.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    match crate::bootstrap::median(&sizes) {
        Some(middle) if middle > 0.0 => {
            differences.iter().map(|x| x.clamp(-5.0 * middle, 5.0 * middle)).collect()
        }
        _ => differences.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_agreement_has_the_smallest_chance_there_is() {
        let same_sign = vec![0.1, 0.2, 0.15, 0.12, 0.3, 0.11];
        let got = corrected_sign_p_values(std::slice::from_ref(&same_sign), 10_000, 1);
        assert!((got[0] - 2.0 / 64.0).abs() < 1e-12, "{got:?}");
        let flat = vec![0.0; 6];
        assert_eq!(corrected_sign_p_values(&[same_sign, flat], 10_000, 1)[1], 1.0);
    }

    #[test]
    fn random_signs_agree_with_all_of_them() {
        let differences = vec![0.3, -0.1, 0.2, 0.4, -0.05, 0.1, 0.2, -0.15, 0.3, 0.05];
        let all = corrected_sign_p_values(std::slice::from_ref(&differences), 10_000, 1)[0];
        let some = corrected_sign_p_values(&[differences], 1000, 1)[0];
        assert!((all - some).abs() < 0.03, "{all} {some}");
    }
}
