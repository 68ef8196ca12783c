//! Latency of dependent memory accesses: a pointer chain in random order through a working set.

use std::time::Instant;

use metier_types::random::SplitMix64;
use metier_types::{Bytes, MemoryLatency, Passport, Seconds};

use super::kernel::{self, CacheLine};
use super::{BenchContext, REPETITIONS, RepetitionSpread, mark_missing, working_set};

/// Steps between two clock readings.
const STEPS_PER_CLOCK_READ: u64 = 4096;

/// A ring of lines that visits each once, in an order that prefetchers cannot predict.
pub struct PointerRing {
    lines: Vec<CacheLine>,
}

impl PointerRing {
    /// Creates a ring over `bytes` bytes, at least one line; `seed` determines the order.
    pub fn new(bytes: u64, seed: u64) -> Self {
        let count = (bytes as usize / kernel::CACHE_LINE_BYTES).max(1);
        let mut lines = vec![CacheLine::empty(); count];
        let start = lines.as_ptr();
        // Sattolo's shuffle yields a permutation with a single cycle.
        let mut order: Vec<u32> = (0..count as u32).collect();
        let mut random = SplitMix64::new(seed);
        for i in (1..count).rev() {
            order.swap(i, random.next_below(i));
        }
        for (line, next) in lines.iter_mut().zip(order) {
            line.next = start.wrapping_add(next as usize);
        }
        Self { lines }
    }

    /// Index of the line reached from `from` after `steps` steps, rounded up to blocks of 16.
    pub fn follow_links(&self, from: usize, steps: u64) -> usize {
        let Some(start) = self.lines.get(from) else { return 0 };
        // SAFETY: `new` linked every line to another one of the same vector, which lives as long as
        // `self`.
        let end = unsafe { kernel::chase_pointers(start, steps) };
        (end as usize - self.lines.as_ptr() as usize) / size_of::<CacheLine>()
    }
}

/// See [`super::BENCH_PARTS`].
pub fn measure(bench: &mut BenchContext, passport: &mut Passport) {
    let caches = passport.device.cpu.caches.clone();
    let mut sets = working_set::cache_level_sets(&caches, 1);
    match working_set::memory_set(&caches, bench.host.read().memory_available_bytes) {
        Some(set) => sets.push(set),
        None => mark_missing(
            passport,
            "latency.memory",
            "too little free memory for a working set larger than the caches",
        ),
    }
    let slice = bench.repetition_time(sets.len());
    for set in sets {
        let Bytes(bytes) = set;
        let ring = PointerRing::new(bytes, 0x9e37_79b9_7f4a_7c15);
        // Go once around a ring that fits into the caches, so that it is cached.
        let mut at = ring.follow_links(0, (bytes / kernel::CACHE_LINE_BYTES as u64).min(1 << 20));
        let times: Vec<f64> = (0..REPETITIONS)
            .map(|_| {
                let (start, mut steps) = (Instant::now(), 0);
                loop {
                    at = ring.follow_links(at, STEPS_PER_CLOCK_READ);
                    steps += STEPS_PER_CLOCK_READ;
                    let elapsed = start.elapsed();
                    if elapsed >= slice {
                        return elapsed.as_secs_f64() / steps as f64;
                    }
                }
            })
            .collect();
        if let Some(spread) = RepetitionSpread::from_times(times) {
            let mut latency = MemoryLatency::new(set, Seconds(spread.best));
            latency.spread_ratio = Some(spread.ratio());
            passport.latency.push(latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_visits_every_line_once() {
        for count in [1_usize, 2, 17, 1000] {
            let ring = PointerRing::new((count * kernel::CACHE_LINE_BYTES) as u64, 7);
            let mut seen = vec![false; count];
            let mut at = &ring.lines[0];
            for _ in 0..count {
                let index =
                    (at as *const CacheLine as usize - ring.lines.as_ptr() as usize) / size_of::<CacheLine>();
                assert!(!std::mem::replace(&mut seen[index], true), "{count}: {index} twice");
                // SAFETY: links lead to lines of the ring.
                at = unsafe { &*at.next };
            }
            assert!(std::ptr::eq(at, &ring.lines[0]) && seen.iter().all(|seen| *seen), "{count}");
        }
    }

    #[test]
    fn following_goes_on_where_it_was() {
        let ring = PointerRing::new(64 << 10, 3);
        let whole = ring.follow_links(0, 64);
        assert_eq!(ring.follow_links(ring.follow_links(0, 32), 32), whole);
        assert_eq!(ring.follow_links(usize::MAX, 16), 0, "a place that is not there is the beginning");
    }
}
