//! Exact segmentation: the best cuts of a sequence.
//!
//! Outliers are clamped first ([`clamp_strays`]). For each number k of cuts up to [`MAX_CUTS`], one
//! pass finds the cuts with the least sum of squares Sₖ around the segment means (Auger and
//! Lawrence, 1989). Their gain is n · ln(S₀ / Sₖ), twice the log-likelihood ratio for normal noise,
//! less a penalty per cut. The time is n² · MAX_CUTS / 2.

use crate::median::median;

/// Minimum length of a segment: one or two outliers are not a level.
pub const MIN_SEGMENT_LEN: usize = 3;
/// Maximum number of cuts per search; segments are searched again.
pub const MAX_CUTS: usize = 5;

/// Values are clamped at this distance from the middle 80 %, relative to its width. In normal noise
/// this affects 1 value in 100. For a change in the middle, all outliers together weigh at most as
/// much as one more change.
const STRAY_REACH: f64 = 0.5;
/// Floor of the residual, as a share of the total sum of squares: a perfect fit gains n · 13.8
/// instead of infinity.
const PERFECT_FIT_SHARE: f64 = 1e-6;

/// Transforms the values for the search: logarithms if all are positive, so that noise and changes
/// are relative; otherwise unchanged. The median is subtracted, so that squares lose no digits.
pub fn log_scale(values: &[f64]) -> Vec<f64> {
    let mut scaled: Vec<f64> = match values.iter().all(|x| *x > 0.0) {
        true => values.iter().map(|x| x.ln()).collect(),
        false => values.to_vec(),
    };
    let mut sorted = scaled.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = median(&sorted).unwrap_or_default();
    // Differences from rounding alone do not count.
    let least = 1e-12 * values.iter().fold(0.0, |most: f64, x| most.max(x.abs())).min(1.0);
    for x in &mut scaled {
        *x -= middle;
        if x.abs() <= least {
            *x = 0.0;
        }
    }
    scaled
}

/// Clamps outliers. The choice does not depend on the order of the values, so shuffling stays an
/// exact test. A level of few runs is clamped as well, but still differs from noise by 2.5
/// deviations.
pub fn clamp_strays(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| {
        let place = share * sorted.len().saturating_sub(1) as f64;
        let (lower, upper) = (sorted.get(place.floor() as usize), sorted.get(place.ceil() as usize));
        lower.zip(upper).map_or(0.0, |(l, u)| l + (u - l) * place.fract())
    };
    let (low, high) = (quantile(0.1), quantile(0.9));
    let reach = STRAY_REACH * (high - low);
    // If most values are equal, there is no scale for outliers.
    if reach <= 0.0 {
        return values.to_vec();
    }
    values.iter().map(|x| x.clamp(low - reach, high + reach)).collect()
}

/// Maximum number of cuts for a sequence of length n.
fn max_cuts(n: usize) -> usize {
    MAX_CUTS.min((n / MIN_SEGMENT_LEN).saturating_sub(1))
}

/// Buffers for solutions of one length, reused for each order of the same values.
#[derive(Debug)]
pub struct SegmentationSolver {
    inverse: Vec<f64>,
    sums: Vec<f64>,
    squares: f64,
    gains: Vec<Vec<f64>>,
    from: Vec<Vec<u32>>,
}

impl SegmentationSolver {
    /// Allocates buffers for sequences of `n` values.
    pub fn new(n: usize) -> Self {
        let cuts = max_cuts(n);
        Self {
            inverse: (0..=n).map(|length| 1.0 / (length.max(1)) as f64).collect(),
            sums: vec![0.0; n + 1],
            squares: 0.0,
            gains: vec![vec![f64::NEG_INFINITY; n + 1]; cuts + 1],
            from: vec![vec![0; n + 1]; cuts + 1],
        }
    }

    /// Solves for all numbers of cuts.
    pub fn solve(&mut self, values: &[f64]) {
        let n = values.len();
        let mut sum = 0.0;
        for (at, value) in values.iter().enumerate() {
            sum += value;
            self.sums[at + 1] = sum;
        }
        self.squares = values.iter().map(|x| x * x).sum::<f64>() - sum * sum * self.inverse[n];
        for end in MIN_SEGMENT_LEN..=n {
            self.gains[0][end] = self.sums[end] * self.sums[end] * self.inverse[end];
        }
        for cuts in 1..self.gains.len() {
            let (before, rest) = self.gains.split_at_mut(cuts);
            let (before, now) = (&before[cuts - 1], &mut rest[0]);
            for (end, now) in now.iter_mut().enumerate().skip(MIN_SEGMENT_LEN * (cuts + 1)) {
                let (mut most, mut place) = (f64::NEG_INFINITY, 0);
                for (at, gain) in
                    before.iter().enumerate().take(end - MIN_SEGMENT_LEN + 1).skip(MIN_SEGMENT_LEN * cuts)
                {
                    let sum = self.sums[end] - self.sums[at];
                    let gain = gain + sum * sum * self.inverse[end - at];
                    if gain > most {
                        (most, place) = (gain, at);
                    }
                }
                (*now, self.from[cuts][end]) = (most, place as u32);
            }
        }
    }

    /// Reduction of the sum of squares by the best k cuts.
    fn squares_reduction(&self, cuts: usize) -> f64 {
        let n = self.sums.len() - 1;
        self.gains[cuts][n] - self.gains[0][n]
    }

    fn log_likelihood_gain(&self, cuts: usize) -> f64 {
        log_likelihood_gain(self.sums.len() - 1, self.squares, self.squares_reduction(cuts))
    }

    /// The smallest penalty per cut at which no cut pays off.
    pub fn breaking_penalty(&self) -> f64 {
        (1..self.gains.len()).map(|cuts| self.log_likelihood_gain(cuts) / cuts as f64).fold(0.0, f64::max)
    }

    /// The best cuts at a penalty per cut, in order.
    pub fn cuts(&self, penalty: f64) -> Vec<usize> {
        let worth = |cuts: usize| {
            if cuts == 0 { 0.0 } else { self.log_likelihood_gain(cuts) - penalty * cuts as f64 }
        };
        // Among equally good solutions, the one with the fewest cuts.
        let count =
            (0..self.gains.len()).fold(0, |best, cuts| if worth(cuts) > worth(best) { cuts } else { best });
        let mut found = Vec::with_capacity(count);
        let mut end = self.sums.len() - 1;
        for cuts in (1..=count).rev() {
            end = self.from[cuts][end] as usize;
            found.push(end);
        }
        found.reverse();
        found
    }
}

/// n · ln(S₀ / S), where S₀ − S is the gain.
fn log_likelihood_gain(n: usize, squares: f64, gain: f64) -> f64 {
    if squares <= 0.0 {
        return 0.0;
    }
    let left = (1.0 - gain / squares).max(0.0) + PERFECT_FIT_SHARE;
    n as f64 * (1.0 / left).ln().max(0.0)
}

/// The best cuts of values at a penalty per cut.
pub fn best_cuts(values: &[f64], penalty: f64) -> Vec<usize> {
    let mut solver = SegmentationSolver::new(values.len());
    solver.solve(values);
    solver.cuts(penalty)
}

/// The log-likelihood gain of the best single cut at one of these positions, in linear time.
pub fn best_single_gain(values: &[f64], places: std::ops::RangeInclusive<usize>) -> f64 {
    let n = values.len();
    let total: f64 = values.iter().sum();
    let squares = values.iter().map(|x| x * x).sum::<f64>() - total * total / n as f64;
    let (mut left, mut most) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        if places.contains(&at) && at > 0 {
            let right = total - left;
            let gain = left * left / at as f64 + right * right / (n - at) as f64 - total * total / n as f64;
            most = f64::max(most, gain);
        }
        left += value;
    }
    log_likelihood_gain(n, squares, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Xoshiro256;

    /// Brute force: the best cuts into this many parts by the sum of squares.
    fn brute(values: &[f64], cuts: usize) -> f64 {
        let squares = |part: &[f64]| {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            part.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
        };
        if cuts == 0 {
            return squares(values);
        }
        let last = values.len().saturating_sub(MIN_SEGMENT_LEN * cuts);
        (MIN_SEGMENT_LEN..=last)
            .map(|at| squares(&values[..at]) + brute(&values[at..], cuts - 1))
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_cuts_are_as_good_as_the_best_of_all_that_there_are() {
        let mut random = Xoshiro256::new(5);
        for n in [6, 7, 8, 11, 14, 18, 22] {
            for round in 0..20 {
                let step = if round % 2 == 0 { 0 } else { 6 };
                let values: Vec<f64> = (0..n)
                    .map(|at| (random.next_below(10) + if at > n / 2 { step } else { 0 }) as f64)
                    .collect();
                let mut solver = SegmentationSolver::new(n);
                solver.solve(&values);
                for cuts in 1..=max_cuts(n) {
                    let (got, want) = (solver.squares - solver.squares_reduction(cuts), brute(&values, cuts));
                    assert!((got - want).abs() < 1e-6, "{values:?}, {cuts} cuts: {got}, want {want}");
                }
                // The returned cuts are those that were counted.
                let found = solver.cuts(0.5);
                assert!(found.windows(2).all(|pair| pair[1] - pair[0] >= MIN_SEGMENT_LEN), "{found:?}");
                let edges: Vec<usize> = std::iter::once(0).chain(found.iter().copied()).chain([n]).collect();
                let sum: f64 = edges.windows(2).map(|part| brute(&values[part[0]..part[1]], 0)).sum();
                assert!((sum - brute(&values, found.len())).abs() < 1e-6, "{values:?}: {found:?}");
                let single = best_single_gain(&values, MIN_SEGMENT_LEN..=n - MIN_SEGMENT_LEN);
                assert!((single - solver.log_likelihood_gain(1)).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn at_its_breaking_penalty_a_sequence_stays_whole_and_just_below_it_does_not() {
        let values = [1.0, 2.0, 1.5, 1.2, 8.0, 9.0, 8.5, 8.2, 1.1, 1.3, 1.6];
        let mut solver = SegmentationSolver::new(values.len());
        solver.solve(&values);
        let limit = solver.breaking_penalty();
        assert!(solver.cuts(limit * 1.000_001).is_empty());
        assert_eq!(solver.cuts(limit * 0.999), [4, 8]);
    }

    #[test]
    fn strays_are_drawn_in_whatever_the_order_and_levels_stay_apart() {
        let mut values = vec![1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 50.0];
        let there = clamp_strays(&values);
        assert!(there[10] < 1.5 && there[10] > 1.1, "{there:?}");
        values.reverse();
        let mut back = clamp_strays(&values);
        back.reverse();
        assert_eq!(back, there);
        let halves = [1.0, 1.1, 0.9, 1.0, 1.1, 5.0, 5.1, 4.9, 5.0, 5.1];
        assert_eq!(clamp_strays(&halves), halves);
        let equal = [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0];
        assert_eq!(clamp_strays(&equal), equal);
    }
}
