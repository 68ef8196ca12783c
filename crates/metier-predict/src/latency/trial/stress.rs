//! Stress beside which graphs are timed: threads of this process that compute, or that stream through memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::operator_model::ResourcePressure;
use metier_types::Ratio;

use crate::latency::InferenceConditions;
use crate::latency::learned_predictor::pressure;

/// What kind of stress, how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StressLevel {
    pub threads: u32,
    /// Share of the time that each is busy.
    pub busy: f64,
    /// Whether they stream through memory instead of computing.
    pub streams: bool,
    /// Processors that there are.
    pub cores: u32,
}

/// Bytes that a streaming thread goes through: more than a core's own caches.
const STREAM_BYTES: usize = 64 << 20;
/// A thread's turn of being busy and not.
const DUTY_PERIOD: Duration = Duration::from_millis(4);

impl StressLevel {
    /// The levels that are tried on a device of so many processors.
    pub fn levels(cores: u32) -> Vec<Self> {
        let cores = cores.max(1);
        let one = |threads: u32, busy: f64, streams: bool| Self { threads, busy, streams, cores };
        let half = (cores / 2).max(1);
        vec![
            one(cores, 0.5, false),
            one(half, 1.0, false),
            one(cores, 1.0, false),
            // More than there are processors for: a queue.
            one(2 * cores, 1.0, false),
            one(half, 1.0, true),
            one(cores, 0.5, true),
            one(cores, 1.0, true),
        ]
    }

    /// The same as a condition.
    pub fn conditions(self, threads: u32) -> InferenceConditions {
        let cpu = f64::from(self.threads) * self.busy / f64::from(self.cores);
        let memory = if self.streams { cpu } else { 0.0 };
        InferenceConditions {
            threads,
            cpu_load: Some(Ratio(cpu)),
            memory_load: Some(Ratio(memory.min(1.0))),
            ..InferenceConditions::default()
        }
    }

    /// The same as the learning side takes it.
    pub fn pressure(self, threads: u32, cores: u32) -> ResourcePressure {
        pressure(&self.conditions(threads), f64::from(cores))
    }

    /// Starts it; it ends when what is given is dropped.
    pub fn start(self) -> RunningStress {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..self.threads)
            .map(|_| {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    if self.streams { stream(self.busy, &stop) } else { compute(self.busy, &stop) }
                })
            })
            .collect();
        RunningStress { stop, threads }
    }
}

/// Stress that is going on.
pub struct RunningStress {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<f64>>,
}

impl Drop for RunningStress {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // What it computed is of no use; that it has ended is.
            let _ = thread.join();
        }
    }
}

fn rest(busy: f64) {
    if busy < 1.0 {
        std::thread::sleep(DUTY_PERIOD.mul_f64(1.0 - busy));
    }
}

fn compute(busy: f64, stop: &AtomicBool) -> f64 {
    let mut values = [1.000_1f64; 16];
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        while begin.elapsed() < DUTY_PERIOD.mul_f64(busy) {
            for _ in 0..200 {
                values.iter_mut().for_each(|value| *value = value.mul_add(0.999_9, 1e-4));
            }
        }
        rest(busy);
    }
    values.iter().sum()
}

fn stream(busy: f64, stop: &AtomicBool) -> f64 {
    let mut memory = vec![1u64; STREAM_BYTES / 8];
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        while begin.elapsed() < DUTY_PERIOD.mul_f64(busy) {
            let end = (at + 32_768).min(memory.len());
            memory[at..end].iter_mut().for_each(|value| *value = value.wrapping_add(1));
            at = if end == memory.len() { 0 } else { end };
        }
        rest(busy);
    }
    memory[0] as f64
}
