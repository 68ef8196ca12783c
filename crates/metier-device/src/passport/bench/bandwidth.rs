//! Memory read bandwidth by number of threads and working set, for each cache level and main
//! memory.

use metier_types::{Bytes, MemoryBandwidth, Passport};

use super::{BenchContext, REPETITIONS, RepetitionSpread, kernel, mark_missing, thread_team, working_set};

/// Smallest number of bytes read between clock readings, so that reading the clock costs nothing.
const PIECE_BYTES: usize = 256 << 10;

/// See [`super::BENCH_PARTS`].
pub fn measure(bench: &mut BenchContext, passport: &mut Passport) {
    let caches = passport.device.cpu.caches.clone();
    let beyond = working_set::memory_set(&caches, bench.host.read().memory_available_bytes);
    let cases: Vec<(u32, Option<Bytes>)> = bench
        .threads
        .iter()
        .flat_map(|&threads| {
            let levels = working_set::cache_level_sets(&caches, threads)
                .into_iter()
                .map(move |set| (threads, Some(set)));
            levels.chain([(threads, None)])
        })
        .collect();
    let slice = bench.repetition_time(cases.len());
    passport.sources.push(format!("memory read with loads of {}", kernel::read_kernel().instructions));
    for (threads, set) in cases {
        let own = match (set, beyond) {
            (Some(set), _) => set.get(),
            (None, Some(all)) => all.get() / u64::from(threads),
            (None, None) => continue,
        };
        let rates = read_rates(threads, own as usize, slice);
        if let Some(spread) = RepetitionSpread::from_rates(rates) {
            let mut rate = MemoryBandwidth::new(threads, set, spread.best);
            rate.spread_ratio = Some(spread.ratio());
            passport.bandwidth.push(rate);
        }
    }
    if beyond.is_none() {
        let reason = "too little free memory for a working set larger than the caches";
        mark_missing(passport, "bandwidth.memory", reason);
    }
    if caches.is_empty() {
        mark_missing(
            passport,
            "bandwidth.caches",
            "the host does not report its caches; default working sets were used",
        );
    }
}

/// Read rate of `threads` threads, each on its own working set of `own` bytes, per repetition.
pub fn read_rates(threads: u32, own: usize, slice: std::time::Duration) -> Vec<f64> {
    let kernel = kernel::read_kernel();
    let pieces = own.max(kernel::CACHE_LINE_BYTES).div_ceil(PIECE_BYTES).max(1);
    let times = if pieces == 1 { PIECE_BYTES.div_ceil(own.max(1)) } else { 1 };
    // A large set is read in pieces, so that a slice can end between two pieces.
    let prepare = || (vec![1_u8; own], 0_usize);
    let work = |(bytes, piece): &mut (Vec<u8>, usize)| {
        let from = *piece * PIECE_BYTES;
        let part = &bytes[from..bytes.len().min(from + PIECE_BYTES)];
        (0..times).for_each(|_| (kernel.run)(part));
        *piece = (*piece + 1) % pieces;
        (times * (part.len() / kernel::ReadKernel::BLOCK_BYTES * kernel::ReadKernel::BLOCK_BYTES)) as u64
    };
    thread_team::measure_rates(threads, REPETITIONS, slice, prepare, work)
}
