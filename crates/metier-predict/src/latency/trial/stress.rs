//! Load generator for trials: threads of this process that compute or stream through memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::operator_model::ResourcePressure;
use metier_types::Ratio;

use crate::latency::InferenceConditions;
use crate::latency::learned_predictor::pressure;

/// Kind and amount of stress.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StressLevel {
    pub threads: u32,
    /// Busy share of each thread's time.
    pub busy: f64,
    /// Whether the threads stream through memory instead of computing.
    pub streams: bool,
    /// Processors of the device.
    pub cores: u32,
}

/// Bytes that a streaming thread traverses: more than a core's private caches.
const STREAM_BYTES: usize = 64 << 20;
/// Duty cycle of a thread.
const DUTY_PERIOD: Duration = Duration::from_millis(4);

impl StressLevel {
    /// The stress levels tried on a device with this many processors.
    pub fn levels(cores: u32) -> Vec<Self> {
        let cores = cores.max(1);
        let level = |threads: u32, busy: f64, streams: bool| Self { threads, busy, streams, cores };
        let half = (cores / 2).max(1);
        vec![
            level(cores, 0.5, false),
            level(half, 1.0, false),
            level(cores, 1.0, false),
            // More threads than processors: they queue.
            level(2 * cores, 1.0, false),
            level(half, 1.0, true),
            level(cores, 0.5, true),
            level(cores, 1.0, true),
        ]
    }

    /// The stress as inference conditions.
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

    /// The stress as input of the model.
    pub fn pressure(self, threads: u32, cores: u32) -> ResourcePressure {
        pressure(&self.conditions(threads), f64::from(cores))
    }

    /// Starts the threads; they stop when the returned value is dropped.
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

/// Running stress threads.
pub struct RunningStress {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<f64>>,
}

impl Drop for RunningStress {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The result is unused; the call waits for the end of the thread.
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
