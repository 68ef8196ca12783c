//! Detects whether the host runs at full speed, with a short piece of work timed repeatedly.
//!
//! Work of other virtual machines on the same core is invisible to a guest, but slows it down by a
//! fifth to a half, for moments or seconds. Times measured then do not describe the device, and
//! repeated measurements differ by more than a predictor's error. So a point is timed in segments
//! with a probe before and after each. Only segments whose probes were both near the best one
//! count.
//!
//! Co-runners on this system may come and go between two probes, and the scheduler gives the probe
//! a free processor while a graph's second thread has none. The kernel counts the time that threads
//! wait for a processor, which detects these exactly.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Ratio to the best probe up to which the host is quiet.
pub const MAX_PROBE_SLOWDOWN: f64 = 1.06;
/// Largest number of probe threads.
const MAX_PROBE_THREADS: u32 = 8;
/// Size of the probe's data, 32 KiB, and its repeats; about 50 µs in total.
const PROBE_NUMBERS: usize = 8192;
const PROBE_ROUNDS: usize = 64;
/// The best of this many tries is the probe's time, which filters out interrupts.
const PROBE_TRIES: usize = 3;
/// The best time is raised by a thousandth per second, since a warm processor does not reach it
/// again.
const BEST_DECAY: f64 = 1.000_002;
/// Probe interval during calibration.
const CALIBRATION_INTERVAL: Duration = Duration::from_millis(10);

/// Share of time that threads wait for a processor from which the host is crowded; wake-ups cause
/// some waiting as well.
const CROWDED_WAIT_SHARE: f64 = 0.25;

/// Noise during a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostNoise {
    /// Full speed without contention.
    Calm,
    /// Slower than the best: invisible work of other virtual machines.
    Slow,
    /// Threads of this process waited for processors used by co-runners.
    Crowded,
}

pub struct NoiseProbe {
    /// Seconds of the best probe by number of threads.
    best: BTreeMap<u32, f64>,
    numbers: Vec<f32>,
}

impl NoiseProbe {
    /// Probes for some time to find the best speed for each number of threads.
    pub fn calibrate(threads: &[u32], time: Duration) -> Self {
        let numbers = (0..PROBE_NUMBERS).map(|n| 1.0 / (n as f32 + 1.0)).collect();
        let mut this = Self { best: BTreeMap::new(), numbers };
        let begin = Instant::now();
        loop {
            for threads in threads {
                this.probe(*threads);
            }
            if begin.elapsed() >= time {
                return this;
            }
            std::thread::sleep(CALIBRATION_INTERVAL);
        }
    }

    /// One probe: the ratio of its time to the best.
    pub fn probe(&mut self, threads: u32) -> f64 {
        let threads = threads.clamp(1, MAX_PROBE_THREADS);
        let numbers = &self.numbers;
        let took = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| work(numbers))).collect();
            let own = work(numbers);
            others.into_iter().filter_map(|other| other.join().ok()).fold(own, f64::max)
        });
        let best = self.best.entry(threads).or_insert(took);
        *best = (*best * BEST_DECAY).min(took);
        took / *best
    }

    /// Runs `work` and returns the noise meanwhile.
    pub fn guard<T>(&mut self, threads: u32, work: impl FnOnce() -> T) -> (T, HostNoise) {
        let before = self.probe(threads);
        let (waited, begin) = (processor_wait(), Instant::now());
        let done = work();
        let took = begin.elapsed().as_secs_f64();
        let waited = self::processor_wait().zip(waited).map_or(0.0, |(now, before)| now - before);
        let host = match before.max(self.probe(threads)) <= MAX_PROBE_SLOWDOWN {
            _ if waited > CROWDED_WAIT_SHARE * took => HostNoise::Crowded,
            true => HostNoise::Calm,
            false => HostNoise::Slow,
        };
        (done, host)
    }
}

/// Seconds that all threads of this process waited for a processor; `None` if the kernel does not
/// count them.
fn processor_wait() -> Option<f64> {
    let of_thread = |entry: fs::DirEntry| -> Option<f64> {
        let counts = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        counts.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let nanoseconds: Option<f64> =
        fs::read_dir("/proc/self/task").ok()?.flatten().map(of_thread).reduce(|a, b| Some(a? + b?)).flatten();
    Some(nanoseconds? / 1e9)
}

/// Additions that fill the vector units without waiting for memory or each other.
fn work(numbers: &[f32]) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..PROBE_TRIES {
        let begin = Instant::now();
        let mut sums = [0f32; 32];
        for _ in 0..PROBE_ROUNDS {
            for chunk in numbers.chunks_exact(sums.len()) {
                sums.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += number);
            }
        }
        std::hint::black_box(sums);
        best = best.min(begin.elapsed().as_secs_f64());
    }
    best
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_beat_is_told_over_the_best_one_and_a_better_one_becomes_it() {
        let mut pulse = NoiseProbe::calibrate(&[1, 2], Duration::ZERO);
        assert_eq!(pulse.best.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!(pulse.probe(1) >= 1.0 && pulse.probe(2) >= 1.0);
        // An unreachable best: nothing is quiet, and it decays slowly.
        pulse.best.insert(1, 1e-9);
        let ((), host) = pulse.guard(1, || ());
        assert!(host != HostNoise::Calm && pulse.best[&1] > 1e-9);
        // A best that every probe beats.
        pulse.best.insert(1, 1e9);
        assert_eq!(pulse.probe(1), 1.0);
        assert!(pulse.best[&1] < 1.0);
    }

    #[test]
    fn a_host_where_our_threads_wait_for_processors_is_crowded() {
        if processor_wait().is_none() {
            eprintln!("SKIP: this kernel does not count how long threads wait (/proc/self/task/*/schedstat)");
            return;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let is_over = AtomicBool::new(false);
        let mut pulse = NoiseProbe::calibrate(&[1], Duration::ZERO);
        let host = std::thread::scope(|scope| {
            for _ in 0..3 * cores {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let ((), host) = pulse.guard(1, || std::thread::sleep(Duration::from_millis(200)));
            is_over.store(true, Ordering::Relaxed);
            host
        });
        assert_eq!(host, HostNoise::Crowded);
    }
}
