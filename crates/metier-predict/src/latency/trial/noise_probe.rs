//! Whether the host is at its full speed: a short piece of work that is timed again and again.
//!
//! Somebody else's work on the same core, which a guest cannot see, slows it down by a fifth to a half, for moments or for seconds. What is
//! timed then says nothing of the device, and two measurements of the same graph differ by more than a predictor is off. So a point is timed
//! in pieces, with a beat before and after each, and those count whose beats were both near the best one.
//!
//! Others on this very system come and go between two beats, and the scheduler gives the beat a free processor where a second thread of a graph finds none. The kernel
//! counts how long threads wait for a processor, so these are seen exactly.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Over the best beat, up to which the host is calm.
pub const MAX_PROBE_SLOWDOWN: f64 = 1.06;
/// Most threads that a beat is felt on.
const MAX_PROBE_THREADS: u32 = 8;
/// What is worked on, 32 KiB, and how often; some 50 µs in all.
const PROBE_NUMBERS: usize = 8192;
const PROBE_ROUNDS: usize = 64;
/// The best of so many is the beat: an interrupt is no neighbour.
const PROBE_TRIES: usize = 3;
/// The best is forgotten slowly, by a thousandth a second: a processor that became warm will not be as quick again.
const BEST_DECAY: f64 = 1.000_002;
/// How often is felt while the best is looked for.
const CALIBRATION_INTERVAL: Duration = Duration::from_millis(10);

/// Share of the time from which on our threads waited for others: waking up takes some, too.
const CROWDED_WAIT_SHARE: f64 = 0.25;

/// What the host was like during a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostNoise {
    /// At its full speed, and ours.
    Calm,
    /// Slower than at its best: work of somebody whom this system cannot see.
    Slow,
    /// Our threads waited for a processor that others had.
    Crowded,
}

pub struct NoiseProbe {
    /// Seconds of the best beat by number of threads.
    best: BTreeMap<u32, f64>,
    numbers: Vec<f32>,
}

impl NoiseProbe {
    /// Feels for some time how quick the host is at its best with each number of threads.
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

    /// One beat: how much longer it took than the best.
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

    /// Does something, and says what the host was like meanwhile.
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

/// Seconds that all threads of this process have waited for a processor; none where the kernel does not count them.
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
        // A best that nobody reaches: nothing is calm, and it is forgotten little by little.
        pulse.best.insert(1, 1e-9);
        let ((), host) = pulse.guard(1, || ());
        assert!(host != HostNoise::Calm && pulse.best[&1] > 1e-9);
        // One that everybody beats.
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
