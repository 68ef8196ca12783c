//! Permutation tests of cuts: how often shuffled values can be cut as clearly as these.
//!
//! The observed order counts as one of the shuffles. So the p-value is never 0, and the level is
//! exact even with ties (Phipson and Smyth, 2010).

use super::ChangeOptions;
use super::segment::{MOST_CUTS, SHORTEST, Solver, best_single};
use crate::random::Xoshiro256;

/// Solver steps per search; long histories get fewer shuffles.
const BUDGET: f64 = 5e8;
/// Minimum number of shuffles for any length.
const FEWEST_SHUFFLES: f64 = 199.0;
/// Tolerance: sums of the same values in another order differ in their last digits.
const ROUNDING: f64 = 1.0 - 1e-9;

/// Result of the test of a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Shuffled values often look like this.
    Likely,
    /// Shuffled values seldom look like this; they exceed this penalty per cut equally seldom.
    Unlikely { penalty: f64 },
}

/// Tests for any change, at a significance level.
pub fn of_any_change(values: &[f64], level: f64, options: &ChangeOptions) -> Verdict {
    let n = values.len();
    let mut solver = Solver::new(n);
    solver.solve(values);
    let seen = solver.breaking_penalty();
    if seen <= 0.0 {
        return Verdict::Likely;
    }
    let steps = MOST_CUTS as f64 * (n * n) as f64 / 2.0;
    let affordable = (BUDGET / steps).max(FEWEST_SHUFFLES);
    // With fewer shuffles no p-value could be small enough.
    let shuffles = f64::from(options.resamples).min(affordable).max((4.0 / level).ceil()) as usize;
    // Number of orders, including this one, that may be as clear.
    let allowed = (level * (shuffles + 1) as f64).floor() as usize;
    let mut random = Xoshiro256::new(options.seed);
    let mut order = values.to_vec();
    let mut found = Vec::with_capacity(shuffles);
    let mut as_cut = 1;
    for _ in 0..shuffles {
        shuffle(&mut order, &mut random);
        solver.solve(&order);
        let penalty = solver.breaking_penalty();
        if penalty >= seen * ROUNDING {
            as_cut += 1;
            // The result is certain; most histories have no change and end here early.
            if as_cut > allowed {
                return Verdict::Likely;
            }
        }
        found.push(penalty);
    }
    found.sort_unstable_by(f64::total_cmp);
    // The largest penalty among the common ones. It is below `seen`, because at most `allowed`
    // orders reach that.
    let penalty = found.get(found.len() - allowed).copied().unwrap_or(0.0).min(seen * ROUNDING);
    Verdict::Unlikely { penalty }
}

/// P-value of one cut: the probability of a cut as clear in a segment without change.
pub fn of_this_cut(values: &[f64], at: usize, options: &ChangeOptions) -> f64 {
    let seen = best_single(values, at..=at);
    if seen <= 0.0 {
        return 1.0;
    }
    let anywhere = SHORTEST..=values.len() - SHORTEST;
    let mut random = Xoshiro256::new(options.seed ^ 0x5eed);
    let mut order = values.to_vec();
    let as_clear = (0..options.resamples)
        .filter(|_| {
            shuffle(&mut order, &mut random);
            best_single(&order, anywhere.clone()) >= seen * ROUNDING
        })
        .count();
    (as_clear + 1) as f64 / (f64::from(options.resamples) + 1.0)
}

fn shuffle(values: &mut [f64], random: &mut Xoshiro256) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.below(last + 1));
    }
}
