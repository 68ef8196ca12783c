//! Memory read bandwidth by number of threads and working set, for each cache level and main
//! memory.

use metier_types::{Bandwidth, Bytes, Passport};

use super::{Bench, REPETITIONS, Spread, kernel, miss, team, working_set};

/// Smallest number of bytes read between clock readings, so that reading the clock costs nothing.
const PIECE: usize = 256 << 10;

/// See [`super::PARTS`].
pub fn measure(bench: &mut Bench, passport: &mut Passport) {
    let caches = passport.device.cpu.caches.clone();
    let beyond = working_set::beyond(&caches, bench.host.reading().memory_available_bytes);
    let cases: Vec<(u32, Option<Bytes>)> = bench
        .threads
        .iter()
        .flat_map(|&threads| {
            let levels =
                working_set::levels(&caches, threads).into_iter().map(move |set| (threads, Some(set)));
            levels.chain([(threads, None)])
        })
        .collect();
    let slice = bench.slice(cases.len());
    passport.sources.push(format!("memory read with loads of {}", kernel::read().instructions));
    for (threads, set) in cases {
        let own = match (set, beyond) {
            (Some(set), _) => set.get(),
            (None, Some(all)) => all.get() / u64::from(threads),
            (None, None) => continue,
        };
        let rates = read(threads, own as usize, slice);
        if let Some(spread) = Spread::of_rates(rates) {
            let mut rate = Bandwidth::new(threads, set, spread.best);
            rate.spread_ratio = Some(spread.ratio());
            passport.bandwidth.push(rate);
        }
    }
    if beyond.is_none() {
        let reason = "too little free memory for a working set larger than the caches";
        miss(passport, "bandwidth.memory", reason);
    }
    if caches.is_empty() {
        miss(
            passport,
            "bandwidth.caches",
            "the host does not report its caches; default working sets were used",
        );
    }
}

/// Read rate of `threads` threads, each on its own working set of `own` bytes, per repetition.
pub fn read(threads: u32, own: usize, slice: std::time::Duration) -> Vec<f64> {
    let kernel = kernel::read();
    let pieces = own.max(kernel::LINE).div_ceil(PIECE).max(1);
    let times = if pieces == 1 { PIECE.div_ceil(own.max(1)) } else { 1 };
    // A large set is read in pieces, so that a slice can end between two pieces.
    let prepare = || (vec![1_u8; own], 0_usize);
    let work = |(bytes, piece): &mut (Vec<u8>, usize)| {
        let from = *piece * PIECE;
        let part = &bytes[from..bytes.len().min(from + PIECE)];
        (0..times).for_each(|_| (kernel.run)(part));
        *piece = (*piece + 1) % pieces;
        (times * (part.len() / kernel::Read::BLOCK * kernel::Read::BLOCK)) as u64
    };
    team::rates(threads, REPETITIONS, slice, prepare, work)
}
