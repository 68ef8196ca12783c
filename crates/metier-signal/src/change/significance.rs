//! Permutation tests of cuts: how often shuffled values can be cut as clearly as these.
//!
//! The observed order counts as one of the shuffles. So the p-value is never 0, and the level is
//! exact even with ties (Phipson and Smyth, 2010).

use super::ChangeOptions;
use super::segmentation::{MAX_CUTS, MIN_SEGMENT_LEN, SegmentationSolver, best_single_gain};
use crate::random::Xoshiro256;

/// Solver steps per search; long histories get fewer shuffles.
const SOLVER_STEP_BUDGET: f64 = 5e8;
/// Minimum number of shuffles for any length.
const MIN_SHUFFLES: f64 = 199.0;
/// Tolerance: sums of the same values in another order differ in their last digits.
const ROUNDING_FACTOR: f64 = 1.0 - 1e-9;

/// Result of the test of a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChanceVerdict {
    /// Shuffled values often look like this.
    Likely,
    /// Shuffled values seldom look like this; they exceed this penalty per cut equally seldom.
    Unlikely { penalty: f64 },
}

/// Tests for any change, at a significance level.
pub fn test_any_change(values: &[f64], level: f64, options: &ChangeOptions) -> ChanceVerdict {
    let n = values.len();
    let mut solver = SegmentationSolver::new(n);
    solver.solve(values);
    let seen = solver.breaking_penalty();
    if seen <= 0.0 {
        return ChanceVerdict::Likely;
    }
    let steps = MAX_CUTS as f64 * (n * n) as f64 / 2.0;
    let affordable = (SOLVER_STEP_BUDGET / steps).max(MIN_SHUFFLES);
    // With fewer shuffles no p-value could be small enough.
    let shuffles = f64::from(options.resamples).min(affordable).max((4.0 / level).ceil()) as usize;
    // Number of orders, including this one, that may be as clear.
    let allowed = (level * (shuffles + 1) as f64).floor() as usize;
    let mut random = Xoshiro256::new(options.seed);
    let mut order = values.to_vec();
    let mut found = Vec::with_capacity(shuffles);
    let mut as_cut = 1;
    for _ in 0..shuffles {
        shuffle_values(&mut order, &mut random);
        solver.solve(&order);
        let penalty = solver.breaking_penalty();
        if penalty >= seen * ROUNDING_FACTOR {
            as_cut += 1;
            // The result is certain; most histories have no change and end here early.
            if as_cut > allowed {
                return ChanceVerdict::Likely;
            }
        }
        found.push(penalty);
    }
    found.sort_unstable_by(f64::total_cmp);
    // The largest penalty among the common ones. It is below `seen`, because at most `allowed`
    // orders reach that.
    let penalty = found.get(found.len() - allowed).copied().unwrap_or(0.0).min(seen * ROUNDING_FACTOR);
    ChanceVerdict::Unlikely { penalty }
}

/// P-value of one cut: the probability of a cut as clear in a segment without change.
pub fn cut_p_value(values: &[f64], at: usize, options: &ChangeOptions) -> f64 {
    let seen = best_single_gain(values, at..=at);
    if seen <= 0.0 {
        return 1.0;
    }
    let anywhere = MIN_SEGMENT_LEN..=values.len() - MIN_SEGMENT_LEN;
    let mut random = Xoshiro256::new(options.seed ^ 0x5eed);
    let mut order = values.to_vec();
    let as_clear = (0..options.resamples)
        .filter(|_| {
            shuffle_values(&mut order, &mut random);
            best_single_gain(&order, anywhere.clone()) >= seen * ROUNDING_FACTOR
        })
        .count();
    (as_clear + 1) as f64 / (f64::from(options.resamples) + 1.0)
}

fn shuffle_values(values: &mut [f64], random: &mut Xoshiro256) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.next_below(last + 1));
    }
}
