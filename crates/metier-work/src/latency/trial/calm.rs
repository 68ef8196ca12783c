//! Whether the host is at its full speed: a short piece of work that is timed again and again.
//!
//! Somebody else's work on the same core, which a guest cannot see, slows it down by a fifth to a half, for moments or for seconds. What is
//! timed then says nothing of the device, and two measurements of the same graph differ by more than a predictor is off. So a point is timed
//! in pieces, with a beat before and after each, and those count whose beats were both near the best one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Over the best beat, up to which the host is calm.
pub const CALM: f64 = 1.06;
/// Most threads that a beat is felt on.
const MOST_THREADS: u32 = 8;
/// What is worked on, 32 KiB, and how often; some 50 µs in all.
const NUMBERS: usize = 8192;
const ROUNDS: usize = 64;
/// The best of so many is the beat: an interrupt is no neighbour.
const TRIES: usize = 3;
/// The best is forgotten slowly, by a thousandth a second: a processor that became warm will not be as quick again.
const FORGOTTEN: f64 = 1.000_002;
/// How often is felt while the best is looked for.
const EVERY: Duration = Duration::from_millis(10);

/// The host's pulse.
pub struct Pulse {
    /// Seconds of the best beat by number of threads.
    best: BTreeMap<u32, f64>,
    numbers: Vec<f32>,
}

impl Pulse {
    /// Feels for some time how quick the host is at its best with each number of threads.
    pub fn feel(threads: &[u32], time: Duration) -> Self {
        let numbers = (0..NUMBERS).map(|n| 1.0 / (n as f32 + 1.0)).collect();
        let mut this = Self { best: BTreeMap::new(), numbers };
        let begin = Instant::now();
        loop {
            for threads in threads {
                this.beat(*threads);
            }
            if begin.elapsed() >= time {
                return this;
            }
            std::thread::sleep(EVERY);
        }
    }

    /// One beat: how much longer it took than the best.
    pub fn beat(&mut self, threads: u32) -> f64 {
        let threads = threads.clamp(1, MOST_THREADS);
        let numbers = &self.numbers;
        let took = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| work(numbers))).collect();
            let own = work(numbers);
            others.into_iter().filter_map(|other| other.join().ok()).fold(own, f64::max)
        });
        let best = self.best.entry(threads).or_insert(took);
        *best = (*best * FORGOTTEN).min(took);
        took / *best
    }

    /// Does something, and says whether the host was calm before and after it.
    pub fn around<T>(&mut self, threads: u32, work: impl FnOnce() -> T) -> (T, bool) {
        let before = self.beat(threads);
        let done = work();
        (done, before.max(self.beat(threads)) <= CALM)
    }
}

/// Additions that fill the vector units without waiting for memory or each other.
fn work(numbers: &[f32]) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let begin = Instant::now();
        let mut sums = [0f32; 32];
        for _ in 0..ROUNDS {
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
    use super::*;

    #[test]
    fn a_beat_is_told_over_the_best_one_and_a_better_one_becomes_it() {
        let mut pulse = Pulse::feel(&[1, 2], Duration::ZERO);
        assert_eq!(pulse.best.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!(pulse.beat(1) >= 1.0 && pulse.beat(2) >= 1.0);
        // A best that nobody reaches: nothing is calm, and it is forgotten little by little.
        pulse.best.insert(1, 1e-9);
        let ((), is_calm) = pulse.around(1, || ());
        assert!(!is_calm && pulse.best[&1] > 1e-9);
        // One that everybody beats.
        pulse.best.insert(1, 1e9);
        assert_eq!(pulse.beat(1), 1.0);
        assert!(pulse.best[&1] < 1.0);
    }
}
