//! How fast memory is read, by number of threads and working set: from each level of the caches, and from beyond them.

use metier_types::{Bandwidth, Bytes, Passport};

use super::{Bench, REPETITIONS, Spread, kernel, miss, team, working_set};

/// The least that is read in one piece of work, so that asking for the time costs nothing.
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
        let reason = "too little memory is free to go through more than the caches hold";
        miss(passport, "bandwidth.memory", reason);
    }
    if caches.is_empty() {
        miss(
            passport,
            "bandwidth.caches",
            "the host does not tell its caches; usual sizes were gone through",
        );
    }
}

/// Rates at which so many threads read a working set each.
pub fn read(threads: u32, own: usize, slice: std::time::Duration) -> Vec<f64> {
    let kernel = kernel::read();
    let pieces = own.max(kernel::LINE).div_ceil(PIECE).max(1);
    let times = if pieces == 1 { PIECE.div_ceil(own.max(1)) } else { 1 };
    // A large set is read in pieces, one after the other, so that a slice can end in between.
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
