//! A/A simulation of comparisons on a device that drifts; prints JSON for `bench/aa/run`.
//!
//! Without a change, each "changed" is false. With a change of 5 %, each "increase" is a hit.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

use metier_stats::{CompareOptions, ComparisonVerdict, SummaryField, compare};
use metier_types::random::SplitMix64;
use metier_types::{BatchId, ExtraFields, Run, RunAlternation, RunId, Seconds};
use serde_json::{Value, json};

const TRIALS: u32 = 1000;
const REPEATS: usize = 10;
/// Runs of other work between two batches.
const RUNS_BETWEEN: usize = 20;
const HISTORY: usize = 10;
/// Noise of a single run.
const NOISE: f64 = 0.01;

#[derive(Clone, Copy)]
enum DriftShape {
    None,
    /// Autoregressive, correlation 0.98 from run to run, standard deviation 3 %.
    Autoregressive,
    /// A new level, 3 % apart, about every 40 runs: a frequency, a neighbour.
    Steps,
    /// 0.1 % from run to run, back after 60: warming up and cooling.
    Linear,
}

struct DriftingDevice {
    random: SplitMix64,
    shape: DriftShape,
    level: f64,
    runs: u32,
}

impl DriftingDevice {
    fn new(shape: DriftShape, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let runs = random.next_below(60) as u32;
        let mut device = Self { random, shape, level: 0.0, runs };
        (0..100).for_each(|_| drop(device.timed(1.0)));
        device
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.random.next_fraction(), self.random.next_fraction());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn timed(&mut self, cost: f64) -> Run {
        self.runs += 1;
        match self.shape {
            DriftShape::None => {}
            DriftShape::Autoregressive => {
                self.level = 0.98 * self.level + 0.03 * (1.0f64 - 0.98 * 0.98).sqrt() * self.normal();
            }
            DriftShape::Steps if self.random.next_below(40) == 0 => self.level = 0.03 * self.normal(),
            DriftShape::Steps => {}
            DriftShape::Linear => self.level = 0.001 * f64::from((self.runs % 120).abs_diff(60)),
        }
        let wall = cost * (self.level + NOISE * self.normal()).exp();
        let mut run = pattern();
        run.summary.wall_seconds = Some(Seconds(wall));
        run.started =
            format!("2026-11-15T{:02}:{:02}:00Z", self.runs / 60 % 24, self.runs % 60).parse().unwrap();
        run
    }

    fn batch(&mut self, cost: f64) -> Vec<Run> {
        (0..RUNS_BETWEEN).for_each(|_| drop(self.timed(1.0)));
        let batch = BatchId::new();
        (0..REPEATS).map(|_| Run { batch, ..self.timed(cost) }).collect()
    }

    fn turns(&mut self, cost_b: f64) -> [Vec<Run>; 2] {
        let ids = [BatchId::new(), BatchId::new()];
        let mut sides = [Vec::new(), Vec::new()];
        for turn in 1..=REPEATS as u32 {
            let first = self.random.next_below(2);
            for (place, side) in [(1, first), (2, 1 - first)] {
                let mut run = self.timed([1.0, cost_b][side]);
                run.batch = ids[side];
                run.context.alternation = Some(RunAlternation {
                    with: ids[1 - side],
                    turn,
                    place,
                    seed: 0,
                    extra: ExtraFields::new(),
                });
                sides[side].push(run);
            }
        }
        sides
    }
}

fn pattern() -> Run {
    static PATTERN: std::sync::LazyLock<Run> = std::sync::LazyLock::new(|| {
        serde_json::from_value(json!({
            "schema": "metier.run/1", "id": RunId::new(), "batch": BatchId::new(),
            "workload": { "id": "w", "name": "w" }, "device": { "id": "d", "name": "d" },
            "state": "finished", "started": "2026-11-15T10:00:00Z", "ended": "2026-11-15T10:00:01Z",
            "exit": { "code": 0, "signal": null, "cause": "exited" },
            "context": {
                "command": ["w"], "working_directory": null, "executable": null, "executable_digest": null,
                "environment_digest": null, "input": null, "input_digest": null, "kernel": null,
                "measured_by": "metier", "method": null, "sampling": null, "timeout_seconds": null,
                "grace_seconds": null, "repetition": 1, "repetitions": 10
            },
            "summary": {}
        }))
        .unwrap()
    });
    Run { id: RunId::new(), ..PATTERN.clone() }
}

/// Whether a change is called, whether it is an increase, and whether the interval holds the truth.
fn judge(a: &[Run], b: &[Run], history: &[Run], truth: f64) -> [bool; 3] {
    let options = CompareOptions {
        fields: vec![SummaryField::WallSeconds],
        resamples: 2000,
        history: history.to_vec(),
        ..CompareOptions::default()
    };
    let comparison = compare(a, b, &options).unwrap();
    let metric = &comparison.metrics[0];
    let is_increase = metric.verdict == ComparisonVerdict::Increase;
    let is_called = is_increase || metric.verdict == ComparisonVerdict::Decrease;
    let (low, high) = (metric.low.unwrap().get(), metric.high.unwrap().get());
    [is_called, is_increase, low <= truth && truth <= high]
}

fn rates(shape: DriftShape, way: &str) -> Value {
    let mut counts = [0u32; 3];
    for seed in 0..u64::from(TRIALS) {
        for (cost, truth) in [(1.0, 0.0), (1.05, 0.05)] {
            let mut device = DriftingDevice::new(shape, seed * 7919 + 13);
            let history: Vec<Run> = (0..HISTORY).flat_map(|_| device.batch(1.0)).collect();
            let [a, b] = match way {
                "by turns" => device.turns(cost),
                _ => [device.batch(1.0), device.batch(cost)],
            };
            let known: &[Run] = if way == "with history" { &history } else { &[] };
            let [is_called, is_increase, is_held] = judge(&a, &b, known, truth);
            if truth == 0.0 {
                counts[0] += u32::from(is_called);
                counts[2] += u32::from(is_held);
            } else {
                counts[1] += u32::from(is_increase);
            }
        }
    }
    let share = |n: u32| f64::from(n) / f64::from(TRIALS);
    json!({ "way": way, "false_changes": share(counts[0]), "found": share(counts[1]), "held": share(counts[2]) })
}

fn main() {
    let shapes = [
        ("none", DriftShape::None),
        ("autoregressive, 3 %", DriftShape::Autoregressive),
        ("steps, 3 %", DriftShape::Steps),
        ("linear, 6 % up and down", DriftShape::Linear),
    ];
    let ways = ["one after the other", "with history", "by turns"];
    let rows: Vec<Value> = shapes
        .iter()
        .map(|(name, shape)| {
            let of: Vec<Value> = ways.iter().map(|way| rates(*shape, way)).collect();
            json!({ "drift": name, "ways": of })
        })
        .collect();
    println!(
        "{}",
        json!({ "trials": TRIALS, "repeats": REPEATS, "history": HISTORY, "noise": NOISE, "rows": rows })
    );
}
