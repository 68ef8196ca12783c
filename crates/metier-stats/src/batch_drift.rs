//! Drift of a device between batches, estimated from earlier batches of the same workloads.
//!
//! Temperature, frequency, page cache and neighbours change slowly. Runs of one batch share their
//! state, so the scatter within a batch says nothing about the drift to the next one (the batch
//! effect of experimental design). Its size is estimated from the differences of the medians of
//! successive batches: they hold the drift and the scatter of the medians together, as the
//! compared difference does.
//!
//! Limits: real changes of the workload in the history count as drift, up to a clamp. So the
//! estimate is too large rather than too small. Batches measured by turns are left out, because
//! both batches of a pair saw the same state.

use std::collections::{BTreeMap, BTreeSet};

use metier_types::{BatchId, Run, UtcTimestamp};

use crate::SummaryField;
use crate::bootstrap::median;
use crate::run_selection::exclusion_reason;

/// Minimum number of differences for an estimate.
const MIN_DIFFERENCES: usize = 3;
/// Minimum number of runs of a batch in the history.
const MIN_BATCH_RUNS: usize = 3;
/// Differences are clamped at this number of robust standard deviations: beyond it, a change of
/// the workload is likelier than drift.
const CLAMP_DEVIATIONS: f64 = 10.0;

/// Medians of the runs of earlier batches, by workload and device, oldest first.
pub struct BatchHistory<'a> {
    lines: Vec<Vec<Vec<&'a Run>>>,
}

/// Drift of one field from one batch to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchDrift {
    /// Standard deviation of the difference of logarithms.
    pub deviation: f64,
    /// Number of differences that it comes from.
    pub differences: usize,
}

impl<'a> BatchHistory<'a> {
    /// The batches of a history without those that are compared.
    pub fn new(history: &'a [Run], compared: &[&Run]) -> Self {
        let known: BTreeSet<BatchId> = compared.iter().map(|run| run.batch).collect();
        type BatchRuns<'a> = BTreeMap<BatchId, Vec<&'a Run>>;
        let mut lines: BTreeMap<(&str, &str), BatchRuns<'a>> = BTreeMap::new();
        for run in history {
            let is_usable = exclusion_reason(run, false).is_none() && run.context.alternation.is_none();
            if is_usable && !known.contains(&run.batch) {
                let line = lines.entry((run.workload.id.as_str(), run.device.id.as_str())).or_default();
                line.entry(run.batch).or_default().push(run);
            }
        }
        let sorted = |line: BatchRuns<'a>| {
            let mut batches: Vec<Vec<&Run>> = line.into_values().collect();
            let start =
                |runs: &Vec<&Run>| -> Option<UtcTimestamp> { runs.iter().map(|run| run.started).min() };
            batches.sort_by_key(start);
            batches
        };
        Self { lines: lines.into_values().map(sorted).collect() }
    }

    /// Number of batches.
    pub fn len(&self) -> usize {
        self.lines.iter().map(Vec::len).sum()
    }

    /// The drift of a field; `None` with too short a history.
    pub fn drift(&self, field: SummaryField) -> Option<BatchDrift> {
        let mut differences = Vec::new();
        for line in &self.lines {
            let medians: Vec<f64> = line.iter().filter_map(|batch| batch_median(batch, field)).collect();
            differences.extend(medians.windows(2).filter_map(|pair| log_change(pair[0], pair[1])));
        }
        if differences.len() < MIN_DIFFERENCES {
            return None;
        }
        let mut sizes: Vec<f64> = differences.iter().map(|x| x.abs()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let scale = 1.4826 * median(&sizes)?;
        let most = if scale > 0.0 { CLAMP_DEVIATIONS * scale } else { f64::INFINITY };
        let squares: f64 = sizes.iter().map(|x| x.min(most).powi(2)).sum();
        let deviation = (squares / differences.len() as f64).sqrt();
        Some(BatchDrift { deviation, differences: differences.len() })
    }
}

impl BatchDrift {
    /// The interval of a change, as a logarithm, with `tail` beyond each end.
    pub fn reach(&self, tail: f64) -> f64 {
        if self.deviation == 0.0 { 0.0 } else { self.deviation * student_quantile(tail, self.differences) }
    }
}

fn batch_median(batch: &[&Run], field: SummaryField) -> Option<f64> {
    let mut values: Vec<f64> = batch.iter().filter_map(|run| field.value_of(run).ok().flatten()).collect();
    values.sort_unstable_by(f64::total_cmp);
    (values.len() >= MIN_BATCH_RUNS).then(|| median(&values)).flatten()
}

/// ln(b / a); `None` if it is not finite.
fn log_change(a: f64, b: f64) -> Option<f64> {
    let change = if a == b { 0.0 } else { (b / a).ln() };
    change.is_finite().then_some(change)
}

/// Upper quantile of Student's t distribution: exact for 1 and 2 degrees of freedom, else the
/// expansion of Cornish and Fisher in powers of 1/df (Abramowitz and Stegun, 26.7.5).
fn student_quantile(tail: f64, freedom: usize) -> f64 {
    let tail = tail.clamp(1e-12, 0.5);
    let n = freedom.max(1) as f64;
    match freedom {
        0 | 1 => 1.0 / (std::f64::consts::PI * tail).tan(),
        2 => {
            let inner = 1.0 - 2.0 * tail;
            inner * (2.0 / (1.0 - inner * inner)).sqrt()
        }
        _ => {
            let z = normal_quantile(tail);
            let z2 = z * z;
            let terms = [
                (z2 + 1.0) / 4.0,
                (5.0 * z2 * z2 + 16.0 * z2 + 3.0) / 96.0,
                (3.0 * z2.powi(3) + 19.0 * z2 * z2 + 17.0 * z2 - 15.0) / 384.0,
                (79.0 * z2.powi(4) + 776.0 * z2.powi(3) + 1482.0 * z2 * z2 - 1920.0 * z2 - 945.0) / 92_160.0,
            ];
            z * terms.iter().rev().fold(0.0, |sum, term| (sum + term) / n) + z
        }
    }
}

/// Upper quantile of the normal distribution, by bisection of its tail.
fn normal_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_tail(middle) > tail { low = middle } else { high = middle }
    }
    low
}

/// P(Z > z) for z of at least 0: the integral from 0 by Simpson's rule, or the continued fraction
/// of Laplace where that would cancel.
fn normal_tail(z: f64) -> f64 {
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z > 3.0 {
        let fraction = (1..=60).rev().fold(z, |inner, k| z + f64::from(k) / inner);
        return density(z) / fraction;
    }
    let steps = 200;
    let h = z / f64::from(steps);
    let weight = |k: i32| if k == 0 || k == steps { 1.0 } else { f64::from(2 + 2 * (k % 2)) };
    let sum: f64 = (0..=steps).map(|k| weight(k) * density(f64::from(k) * h)).sum();
    0.5 - sum * h / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Tables of Student's t for 97.5 % and 99.5 %.
        for (tail, freedom, want, within) in [
            (0.025, 1, 12.706, 0.001),
            (0.025, 2, 4.303, 0.001),
            (0.025, 3, 3.182, 0.02),
            (0.025, 5, 2.571, 0.003),
            (0.025, 10, 2.228, 0.001),
            (0.025, 30, 2.042, 0.001),
            (0.005, 5, 4.032, 0.05),
            (0.005, 10, 3.169, 0.004),
            (0.005, 1000, 2.581, 0.001),
        ] {
            let got = student_quantile(tail, freedom);
            assert!((got - want).abs() <= within, "t({tail}, {freedom}) = {got}, want {want}");
        }
    }
}
