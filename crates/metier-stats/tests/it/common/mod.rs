//! Runs with given values, and noise to give them.

use metier_types::random::SplitMix64;
use metier_types::{BatchId, Bytes, ExtraFields, Joules, Run, RunAlternation, RunId, Seconds};
use serde_json::json;

/// A finished, successful run without values.
pub fn run() -> Run {
    // Read once: simulations make tens of thousands of runs.
    static PATTERN: std::sync::LazyLock<Run> = std::sync::LazyLock::new(pattern);
    Run { id: RunId::new(), ..PATTERN.clone() }
}

fn pattern() -> Run {
    serde_json::from_value(json!({
        "schema": "metier.run/1",
        "id": RunId::new(),
        "batch": "0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b30",
        "workload": { "id": "sort", "name": "sort" },
        "device": { "id": "d-1", "name": "bench" },
        "state": "finished",
        "started": "2026-11-15T10:00:00.25Z",
        "ended": "2026-11-15T10:00:01Z",
        "exit": { "code": 0, "signal": null, "cause": "exited" },
        "context": {
            "command": ["sort", "-n"], "working_directory": "/tmp", "executable": null, "executable_digest": null,
            "environment_digest": null, "input": null, "input_digest": null, "kernel": "6.1",
            "measured_by": "metier 0.1.0", "method": "cgroup-v2", "sampling": null, "timeout_seconds": null,
            "grace_seconds": null, "repetition": 1, "repetitions": 1
        },
        "summary": {}
    }))
    .unwrap()
}

/// A run with that wall time.
pub fn timed(wall: f64) -> Run {
    let mut run = run();
    run.summary.wall_seconds = Some(Seconds(wall));
    run
}

/// Runs with these wall times.
pub fn walls(values: &[f64]) -> Vec<Run> {
    values.iter().map(|wall| timed(*wall)).collect()
}

/// A run whose every field is drawn by `draw`.
pub fn full(mut draw: impl FnMut() -> f64) -> Run {
    let mut run = run();
    let summary = &mut run.summary;
    summary.wall_seconds = Some(Seconds(draw()));
    summary.cpu_user_seconds = Some(Seconds(draw()));
    summary.cpu_system_seconds = Some(Seconds(draw()));
    summary.cpu_seconds = Some(Seconds(draw()));
    summary.peak_memory_bytes = Some(Bytes((draw() * 1e8) as u64));
    summary.read_bytes = Some(Bytes((draw() * 1e6) as u64));
    summary.written_bytes = Some(Bytes((draw() * 1e6) as u64));
    summary.energy_joules = Some(Joules(draw()));
    summary.processes = Some((draw() * 20.0) as u64);
    run
}

/// Noise from a seed.
pub struct Noise(SplitMix64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Evenly from 0 to 1, both excluded.
    pub fn even(&mut self) -> f64 {
        self.0.next_fraction() + 0.5 / (1u64 << 53) as f64
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.even().ln()).sqrt() * (std::f64::consts::TAU * self.even()).cos()
    }
}

/// What wall times look like.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// 2 % around 1.
    Normal,
    /// A long tail to the right, as on a busy host.
    LogNormal,
    /// Three in ten runs take 15 % longer, as with two cache or frequency states.
    Bimodal,
}

impl Shape {
    pub const ALL: [Self; 3] = [Self::Normal, Self::LogNormal, Self::Bimodal];

    pub fn draw(self, noise: &mut Noise) -> f64 {
        match self {
            Self::Normal => 1.0 + 0.02 * noise.normal(),
            Self::LogNormal => (0.3 * noise.normal()).exp(),
            Self::Bimodal => {
                let slow = if noise.even() < 0.3 { 0.15 } else { 0.0 };
                1.0 + slow + 0.01 * noise.normal()
            }
        }
    }

    /// The median of infinitely many draws. For the bimodal distribution it lies 5/7 of the way up
    /// the lower mode (Φ⁻¹(5/7) = 0.56595).
    pub fn median(self) -> f64 {
        match self {
            Self::Normal | Self::LogNormal => 1.0,
            Self::Bimodal => 1.0 + 0.01 * 0.565_949,
        }
    }
}

/// The runs as one batch, started at that second.
pub fn as_batch(mut runs: Vec<Run>, start: i64) -> Vec<Run> {
    let batch = BatchId::new();
    for run in &mut runs {
        run.batch = batch;
        run.started = format!("2026-11-15T10:{:02}:{:02}Z", start / 60, start % 60).parse().unwrap();
    }
    runs
}

/// Two batches as if they had been measured by turns.
pub fn by_turns(a: Vec<Run>, b: Vec<Run>) -> (Vec<Run>, Vec<Run>) {
    let (mut a, mut b) = (as_batch(a, 1), as_batch(b, 1));
    let ids = [a[0].batch, b[0].batch];
    for (side, runs) in [&mut a, &mut b].into_iter().enumerate() {
        for (at, run) in runs.iter_mut().enumerate() {
            run.context.alternation = Some(RunAlternation {
                with: ids[1 - side],
                turn: at as u32 + 1,
                place: side as u32 + 1,
                seed: 1,
                extra: ExtraFields::new(),
            });
        }
    }
    (a, b)
}
