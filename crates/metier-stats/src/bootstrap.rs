//! Exact bootstrap distributions of medians and of the relative change between two medians.
//!
//! Drawn resamples only approximate this distribution, but for the median it has a closed form
//! (Maritz and Jarrett, 1978). The median of a resample of n sorted values is one of them, or the
//! mean of the two middle ones of the resample, with binomial probabilities. The result equals that
//! of infinitely many resamples: it has no sampling noise, needs no seed, and is faster.
//!
//! Notation: x₁ ≤ … ≤ xₙ are the sorted values; Yₘ is the m-th smallest of a resample.

pub use metier_signal::median::{median, relative_change};

/// A value and its probability.
pub type ProbabilityAtom = (f64, f64);

/// Up to this even number of values, the median is the exact mean of the middle two. Above, it is
/// the lower or the upper of them with equal probability. That is slightly wider, but takes n atoms
/// instead of n²/2.
const MAX_EXACT_EVEN_LEN: usize = 12;

/// Atoms with a smaller probability are dropped: they move no quantile in use.
const NEGLIGIBLE_PROBABILITY: f64 = 1e-7;

/// Terms of a sum of probabilities below e to this do not change its last digit.
const NEGLIGIBLE_LOG_TERM: f64 = -80.0;

/// The bootstrap distribution of the median of sorted values.
pub fn median_distribution(sorted: &[f64]) -> Vec<ProbabilityAtom> {
    let n = sorted.len();
    let m = n / 2;
    let mut atoms: Vec<ProbabilityAtom> = if n % 2 == 1 {
        sorted.iter().copied().zip(order_probabilities(n, m + 1)).collect()
    } else if n <= MAX_EXACT_EVEN_LEN {
        even_median_distribution(sorted)
    } else {
        let both = order_probabilities(n, m).into_iter().zip(order_probabilities(n, m + 1));
        sorted.iter().copied().zip(both.map(|(lower, upper)| (lower + upper) / 2.0)).collect()
    };
    atoms.retain(|(_, weight)| *weight > NEGLIGIBLE_PROBABILITY);
    atoms
}

/// P(Yₘ = xᵢ) for each i: the m-th smallest is at most xᵢ if at least m of n draws fall on x₁ … xᵢ.
fn order_probabilities(n: usize, m: usize) -> Vec<f64> {
    let choose = log_choose(n);
    let at_most = |i: usize| binomial_upper_tail(&choose, m, i as f64 / n as f64);
    let below: Vec<f64> = (0..=n).map(at_most).collect();
    below.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0)).collect()
}

/// ln C(n, k) for k = 0 … n.
fn log_choose(n: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let next = |k: usize| {
        if k > 0 {
            sum += ((n - k + 1) as f64).ln() - (k as f64).ln();
        }
        sum
    };
    (0..=n).map(next).collect()
}

/// P(at least m of n) with chance p each; `choose` has ln C(n, k) for each k.
fn binomial_upper_tail(choose: &[f64], m: usize, p: f64) -> f64 {
    let n = choose.len() - 1;
    if p <= 0.0 {
        return if m == 0 { 1.0 } else { 0.0 };
    }
    if p >= 1.0 {
        return 1.0;
    }
    let (log_p, log_q) = (p.ln(), (1.0 - p).ln());
    let log_terms = (m..=n).map(|k| choose[k] + k as f64 * log_p + (n - k) as f64 * log_q);
    // Most terms are too small to count.
    let sum: f64 = log_terms.filter(|term| *term > NEGLIGIBLE_LOG_TERM).map(f64::exp).sum();
    sum.min(1.0)
}

/// For even n = 2m, the pair (Yₘ, Yₘ₊₁): for i < j exactly m draws fall on x₁ … xᵢ and m on xⱼ …
/// xₙ, so P(xᵢ, xⱼ) = C(n, m) / nⁿ · (iᵐ − (i−1)ᵐ) · ((n−j+1)ᵐ − (n−j)ᵐ). The remainder of P(Yₘ =
/// xᵢ) belongs to i = j.
fn even_median_distribution(sorted: &[f64]) -> Vec<ProbabilityAtom> {
    let n = sorted.len();
    let m = n / 2;
    let choose = (1..=m).fold(1.0, |c, k| c * (n - m + k) as f64 / k as f64);
    let steps: Vec<f64> = (1..=n)
        .map(|i| (i as f64 / n as f64).powi(m as i32) - ((i - 1) as f64 / n as f64).powi(m as i32))
        .collect();
    let lower = order_probabilities(n, m);
    let mut atoms = Vec::with_capacity(n * (n + 1) / 2);
    for i in 0..n {
        let mut same = lower[i];
        for j in i + 1..n {
            let weight = choose * steps[i] * steps[n - 1 - j];
            same -= weight;
            atoms.push(((sorted[i] + sorted[j]) / 2.0, weight));
        }
        atoms.push((sorted[i], same.max(0.0)));
    }
    atoms
}

/// The bootstrap distribution of the relative change from a's median to b's, sorted by value.
pub fn change_distribution(a: &[ProbabilityAtom], b: &[ProbabilityAtom]) -> Vec<ProbabilityAtom> {
    let mut atoms: Vec<ProbabilityAtom> =
        a.iter().flat_map(|(x, p)| b.iter().map(move |(y, q)| (relative_change(*x, *y), p * q))).collect();
    atoms.sort_unstable_by(|l, r| l.0.total_cmp(&r.0));
    atoms
}

/// The innermost values with at least `tail` of the probability beyond each. So mirrored atoms give
/// the mirrored interval. Atoms are sorted by value.
pub fn quantile_interval(atoms: &[ProbabilityAtom], tail: f64) -> Option<(f64, f64)> {
    let reach = |atoms: &mut dyn Iterator<Item = &ProbabilityAtom>| {
        let mut sum = 0.0;
        let mut last = None;
        for (value, weight) in atoms {
            sum += weight;
            last = Some(*value);
            if sum >= tail {
                break;
            }
        }
        last
    };
    Some((reach(&mut atoms.iter())?, reach(&mut atoms.iter().rev())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Xoshiro256;

    /// The share of all possible resamples whose median is at most `limit`.
    fn resampled(sorted: &[f64], limit: f64) -> f64 {
        let mut random = Xoshiro256::new(3);
        let n = sorted.len();
        let draws = 20_000;
        let below = (0..draws)
            .filter(|_| {
                let mut sample: Vec<f64> = (0..n).map(|_| sorted[random.next_below(n)]).collect();
                sample.sort_unstable_by(f64::total_cmp);
                median(&sample).is_some_and(|x| x <= limit)
            })
            .count();
        below as f64 / f64::from(draws)
    }

    #[test]
    fn the_written_down_distribution_is_that_of_actual_resamples() {
        for n in [4, 5, 9, 10, 12, 15, 31] {
            let sorted: Vec<f64> = (0..n).map(|i| (i as f64).powf(1.3)).collect();
            let atoms = median_distribution(&sorted);
            let total: f64 = atoms.iter().map(|atom| atom.1).sum();
            assert!((total - 1.0).abs() < 1e-5, "n = {n}: {total}");
            for limit in [0.2, 0.5, 0.7].map(|share| sorted[(share * n as f64) as usize]) {
                let exact: f64 = atoms.iter().filter(|atom| atom.0 <= limit + 1e-12).map(|atom| atom.1).sum();
                let drawn = resampled(&sorted, limit);
                assert!((exact - drawn).abs() < 0.015, "n = {n}, at {limit}: {exact} and {drawn}");
            }
        }
    }

    #[test]
    fn many_runs_stay_within_bounds() {
        let sorted: Vec<f64> = (0..1000).map(f64::from).collect();
        let atoms = median_distribution(&sorted);
        assert!(atoms.len() < 250, "{}", atoms.len());
        let total: f64 = atoms.iter().map(|atom| atom.1).sum();
        assert!((total - 1.0).abs() < 1e-4, "{total}");
    }
}
