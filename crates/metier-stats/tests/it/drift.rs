//! Comparisons on a device that drifts: by turns, with a history of batches, and without one.

use crate::common::{Noise, as_batch, by_turns, walls};
use metier_stats::{
    CompareOptions, ComparisonVerdict, DriftTreatment, MetricComparison, RunComparison, SummaryField, compare,
};
use metier_types::Run;

const REPEATS: usize = 10;

/// A level that moves slowly (AR(1)) by 3 %, with 1 % of noise on each run.
struct DriftingDevice {
    noise: Noise,
    level: f64,
}

impl DriftingDevice {
    fn new(seed: u64) -> Self {
        Self { noise: Noise::new(seed), level: 0.0 }
    }

    fn run(&mut self, cost: f64) -> f64 {
        let memory: f64 = 0.98;
        self.level = memory * self.level + 0.03 * (1.0 - memory * memory).sqrt() * self.noise.normal();
        cost * (self.level + 0.01 * self.noise.normal()).exp()
    }

    fn batch(&mut self, cost: f64, at: i64) -> Vec<Run> {
        // Other work between batches.
        for _ in 0..20 {
            self.run(cost);
        }
        as_batch(walls(&(0..REPEATS).map(|_| self.run(cost)).collect::<Vec<_>>()), at)
    }

    fn turns(&mut self, cost_b: f64) -> (Vec<Run>, Vec<Run>) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            if self.noise.even() < 0.5 {
                a.push(self.run(1.0));
                b.push(self.run(cost_b));
            } else {
                b.push(self.run(cost_b));
                a.push(self.run(1.0));
            }
        }
        by_turns(walls(&a), walls(&b))
    }
}

fn wall(a: &[Run], b: &[Run], history: Vec<Run>) -> (RunComparison, MetricComparison) {
    let options = CompareOptions {
        fields: vec![SummaryField::WallSeconds],
        resamples: 1100,
        history,
        ..CompareOptions::default()
    };
    let comparison = compare(a, b, &options).unwrap();
    let metric = comparison.metrics[0].clone();
    (comparison, metric)
}

fn is_call(metric: &MetricComparison) -> bool {
    matches!(metric.verdict, ComparisonVerdict::Increase | ComparisonVerdict::Decrease)
}

#[test]
fn by_turns_drift_is_no_change_and_five_per_cent_is_found() {
    let trials = 400;
    let (mut calls, mut found, mut held) = (0, 0, 0);
    for seed in 0..trials {
        let (a, b) = DriftingDevice::new(seed).turns(1.0);
        calls += usize::from(is_call(&wall(&a, &b, Vec::new()).1));
        let (a, b) = DriftingDevice::new(seed).turns(1.05);
        let (comparison, metric) = wall(&a, &b, Vec::new());
        found += usize::from(metric.verdict == ComparisonVerdict::Increase);
        held += usize::from(metric.low.unwrap().get() <= 0.05 && 0.05 <= metric.high.unwrap().get());
        assert_eq!((metric.drift, comparison.pairs), (Some(DriftTreatment::Cancelled), Some(REPEATS)));
    }
    let rate = |n: usize| n as f64 / trials as f64;
    eprintln!("by turns: false {}, found {}, held {}", rate(calls), rate(found), rate(held));
    assert!(rate(calls) <= 0.06, "{}", rate(calls));
    assert!(rate(found) >= 0.95, "{}", rate(found));
    assert!(rate(held) >= 0.93, "{}", rate(held));
}

#[test]
fn a_history_of_batches_keeps_drift_from_being_called_a_change() {
    let trials = 400;
    let (mut with, mut without, mut held) = (0, 0, 0);
    for seed in 0..trials {
        let mut device = DriftingDevice::new(1000 + seed);
        let history: Vec<Run> = (0..8).flat_map(|at| device.batch(1.0, at)).collect();
        let (a, b) = (device.batch(1.0, 8), device.batch(1.0, 9));
        let (comparison, metric) = wall(&a, &b, Vec::new());
        without += usize::from(is_call(&metric));
        assert_eq!(metric.drift, Some(DriftTreatment::NotContained));
        assert!(comparison.warnings.iter().any(|warning| warning.code == "drift-unknown"));
        let (comparison, metric) = wall(&a, &b, history);
        with += usize::from(is_call(&metric));
        held += usize::from(metric.low.unwrap().get() <= 0.0 && 0.0 <= metric.high.unwrap().get());
        assert_eq!(metric.drift, Some(DriftTreatment::FromHistory));
        assert_eq!(comparison.history_batches, Some(8));
        assert!(comparison.interval_statement.unwrap().contains("from 8 earlier batches"));
    }
    let rate = |n: usize| n as f64 / trials as f64;
    eprintln!("history: false {}, held {}; without: false {}", rate(with), rate(held), rate(without));
    assert!(rate(with) <= 0.06, "{}", rate(with));
    assert!(rate(held) >= 0.93, "{}", rate(held));
    assert!(rate(without) > 0.3, "the device drifts too little for this test: {}", rate(without));
}

#[test]
fn a_large_change_is_found_despite_known_drift() {
    let mut device = DriftingDevice::new(5);
    let history: Vec<Run> = (0..10).flat_map(|at| device.batch(1.0, at)).collect();
    let (a, b) = (device.batch(1.0, 10), device.batch(1.4, 11));
    let (_, metric) = wall(&a, &b, history);
    assert_eq!(metric.verdict, ComparisonVerdict::Increase, "{metric:?}");
    assert!(metric.drift_ratio.unwrap().get() > 0.01);
}

#[test]
fn compared_and_alternated_batches_are_no_history() {
    let mut device = DriftingDevice::new(6);
    let (a, b) = (device.batch(1.0, 1), device.batch(1.0, 2));
    let (c, d) = device.turns(1.0);
    let history = [a.clone(), b.clone(), c, d].concat();
    let (comparison, metric) = wall(&a, &b, history);
    assert_eq!((comparison.history_batches, metric.drift), (None, Some(DriftTreatment::NotContained)));
}

#[test]
fn a_run_that_failed_takes_its_partner_out_of_the_pairs() {
    let (mut a, b) = DriftingDevice::new(7).turns(1.0);
    a[3].exit.as_mut().unwrap().code = Some(1);
    let (comparison, _) = wall(&a, &b, Vec::new());
    assert_eq!((comparison.a.n, comparison.b.n, comparison.pairs), (9, 10, Some(9)));
    let (_, metric) = wall(&a[..5], &b[..5], Vec::new());
    assert_eq!(metric.verdict, ComparisonVerdict::TooFewRuns);
    assert!(metric.because.unwrap().contains("4 pairs"));
}

#[test]
fn a_side_of_two_batches_is_not_by_turns() {
    let mut device = DriftingDevice::new(8);
    let (mut a, b) = device.turns(1.0);
    a.extend(device.batch(1.0, 3));
    assert_eq!(wall(&a, &b, Vec::new()).0.pairs, None);
}
