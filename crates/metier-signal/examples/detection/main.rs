//! Measures how well periods are found, beside known methods.
//!
//! - `detection calibrate SERIES`: the rows of the table in `null_scores.rs`, from that many series
//!   of each kind of noise.
//! - `detection report SEED`: detection, false alarms and time, as JSON.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

mod baselines;
mod suite;

use std::time::Instant;

use baselines::METHODS;
use metier_signal::PeriodDetector;
use metier_types::random::SplitMix64;
use suite::{
    APERIODIC, Aperiodic, DISTURBANCES, NOISE_LEVELS, SHAPES, aperiodic_series, periodic_series, periods,
};

/// Lengths of the table of null scores.
const LENGTHS: [usize; 8] = [20, 40, 60, 120, 240, 600, 1200, 2048];
/// Rates of the table of null scores.
const RATES: [f64; 7] = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001];
/// Kinds of noise with chance in them.
const NOISES: [Aperiodic; 6] = [
    Aperiodic::White,
    Aperiodic::Red,
    Aperiodic::RandomWalk,
    Aperiodic::Ramp,
    Aperiodic::Step,
    Aperiodic::Bursts,
];
/// Seed of the calibration; reports must use others.
const CALIBRATION_SEED: u64 = 7_001;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    match (arguments.first().map(String::as_str), number(1)) {
        (Some("calibrate"), Some(series)) => calibrate(series as usize),
        (Some("report"), Some(seed)) if seed != CALIBRATION_SEED => report(seed),
        _ => {
            eprintln!("usage: detection calibrate SERIES | detection report SEED (not {CALIBRATION_SEED})");
            std::process::exit(2);
        }
    }
}

fn calibrate(series: usize) {
    let mut detector = PeriodDetector::new();
    for samples in LENGTHS {
        let mut worst = [0.0_f64; RATES.len()];
        for (kind_at, kind) in NOISES.into_iter().enumerate() {
            let mut random = SplitMix64::new(CALIBRATION_SEED + (samples * 10 + kind_at) as u64);
            let mut scores: Vec<f64> =
                (0..series).map(|_| detector.score(&aperiodic_series(&mut random, samples, kind))).collect();
            scores.sort_unstable_by(|left, right| right.total_cmp(left));
            for (rate, most) in RATES.iter().zip(&mut worst) {
                *most = most.max(scores[(series as f64 * rate) as usize]);
            }
        }
        println!("    ({samples}, [{}]),", worst.map(|score| format!("{score:.2}")).join(", "));
    }
}

/// Outcomes of one method on the suite.
#[derive(Default)]
struct MethodOutcome {
    right: usize,
    wrong: usize,
    missed: usize,
    false_alarms: usize,
    seconds: f64,
    series: usize,
}

impl MethodOutcome {
    fn add(&mut self, truth: Option<f64>, answer: Option<f64>) {
        match (truth, answer) {
            (Some(truth), Some(answer)) if (answer - truth).abs() <= (0.05 * truth).max(1.0) => {
                self.right += 1
            }
            (Some(_), Some(_)) => self.wrong += 1,
            (Some(_), None) => self.missed += 1,
            (None, Some(_)) => self.false_alarms += 1,
            (None, None) => {}
        }
    }

    fn json(&self, name: &str) -> String {
        let periodic = (self.right + self.wrong + self.missed) as f64;
        let aperiodic = self.series as f64 - periodic;
        format!(
            r#"{{"method": "{name}", "right": {:.4}, "wrong": {:.4}, "missed": {:.4}, "false_alarms": {:.4}, "seconds": {:.9}}}"#,
            self.right as f64 / periodic,
            self.wrong as f64 / periodic,
            self.missed as f64 / periodic,
            self.false_alarms as f64 / aperiodic,
            self.seconds / self.series as f64
        )
    }
}

/// A series, its period where it has one, and its noise level.
type SuiteCase = (Vec<f64>, Option<f64>, f64);

/// 1,260 series with and 286 without a period.
fn make_suite(samples: usize, seed: u64) -> Vec<SuiteCase> {
    let mut random = SplitMix64::new(seed);
    let mut cases = Vec::new();
    for _ in 0..3 {
        for shape in SHAPES {
            for period in periods(samples) {
                for noise in NOISE_LEVELS {
                    for disturbance in DISTURBANCES {
                        let values = periodic_series(&mut random, samples, shape, period, noise, disturbance);
                        cases.push((values, Some(period), noise));
                    }
                }
            }
        }
    }
    for kind in APERIODIC {
        let count = if matches!(kind, Aperiodic::Constant | Aperiodic::Zero) { 3 } else { 40 };
        for _ in 0..count {
            cases.push((aperiodic_series(&mut random, samples, kind), None, 0.0));
        }
    }
    cases
}

fn report(seed: u64) {
    let mut parts = Vec::new();
    for samples in [120, 600] {
        let cases = make_suite(samples, seed);
        let mut rows = Vec::new();
        for rate in [0.05, 0.02, 0.01, 0.001] {
            let mut detector = PeriodDetector::new();
            let name = format!("metier, {} %", rate * 100.0);
            let mut detect =
                |values: &[f64]| detector.detect(values, rate).first().map(|found| found.samples);
            rows.push(run_method(&cases, &mut detect).json(&name));
        }
        let mut detector = PeriodDetector::new();
        let by_noise: Vec<String> = NOISE_LEVELS
            .iter()
            .map(|noise| {
                let mut outcome = MethodOutcome::default();
                for (values, truth, _) in cases.iter().filter(|case| case.1.is_some() && case.2 == *noise) {
                    outcome.add(*truth, detector.detect(values, 0.02).first().map(|found| found.samples));
                }
                let all = (outcome.right + outcome.wrong + outcome.missed) as f64;
                format!(r#"{{"noise": {noise}, "right": {:.4}}}"#, outcome.right as f64 / all)
            })
            .collect();
        for (name, method) in METHODS {
            rows.push(run_method(&cases, &mut |values| method(values)).json(name));
        }
        let alarms = false_alarm_rows(samples, seed);
        parts.push(format!(
            "{{\"samples\": {samples}, \"methods\": [\n  {}],\n \"by_noise\": [{}],\n \"stated\": [\n  {}]}}",
            rows.join(",\n  "),
            by_noise.join(", "),
            alarms.join(",\n  ")
        ));
    }
    println!("{{\"seed\": {seed}, \"lengths\": [\n{}]}}", parts.join(",\n"));
}

fn run_method(cases: &[SuiteCase], detect: &mut dyn FnMut(&[f64]) -> Option<f64>) -> MethodOutcome {
    let mut outcome = MethodOutcome { series: cases.len(), ..MethodOutcome::default() };
    let begun = Instant::now();
    let answers: Vec<Option<f64>> = cases.iter().map(|(values, ..)| detect(values)).collect();
    outcome.seconds = begun.elapsed().as_secs_f64();
    for ((_, truth, _), answer) in cases.iter().zip(answers) {
        outcome.add(*truth, answer);
    }
    outcome
}

/// The stated rates beside the observed ones, for each kind of noise.
fn false_alarm_rows(samples: usize, seed: u64) -> Vec<String> {
    const SERIES: usize = 4000;
    const STATED: [f64; 3] = [0.001, 0.01, 0.05];
    let mut detector = PeriodDetector::new();
    NOISES
        .into_iter()
        .enumerate()
        .map(|(at, kind)| {
            let mut random = SplitMix64::new(seed + 1000 * (at as u64 + 1));
            let mut counts = [0_usize; STATED.len()];
            for _ in 0..SERIES {
                let values = aperiodic_series(&mut random, samples, kind);
                let found = detector.detect(&values, STATED[STATED.len() - 1]);
                for (stated, count) in STATED.iter().zip(&mut counts) {
                    *count += usize::from(found.first().is_some_and(|period| period.false_alarm_rate <= *stated));
                }
            }
            let observed = counts.map(|count| format!("{:.5}", count as f64 / SERIES as f64)).join(", ");
            format!(r#"{{"noise": "{kind:?}", "stated": [0.001, 0.01, 0.05], "observed": [{observed}], "series": {SERIES}}}"#)
        })
        .collect()
}
