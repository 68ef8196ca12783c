//! The coverage counters of LLVM (`-sanitizer-coverage-inline-8bit-counters`): one byte for each
//! edge of the instrumented crates, counted up when the edge is taken.

use std::sync::Mutex;

/// Start and length of each region of counters.
static REGIONS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Called by each instrumented module before `main`.
///
/// # Safety
/// The arguments are the bounds of a static array of counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, end: *mut u8) {
    let region = (start as usize, end as usize - start as usize);
    if let Ok(mut regions) = REGIONS.lock()
        && region.1 > 0
        && !regions.contains(&region)
    {
        regions.push(region);
    }
}

/// The edges that all inputs together have taken, with the magnitude of their counts.
pub struct CoverageMap {
    regions: Vec<(usize, usize)>,
    /// A bit for each magnitude of the count, for each edge.
    seen: Vec<u8>,
}

impl CoverageMap {
    pub fn new() -> Self {
        let regions = REGIONS.lock().unwrap().clone();
        let edges = regions.iter().map(|region| region.1).sum();
        Self { regions, seen: vec![0; edges] }
    }

    /// Clears the counters before an input.
    pub fn reset(&self) {
        for (start, length) in &self.regions {
            // SAFETY: a static array of bytes; other threads only count in it, and a lost count is
            // of no importance.
            unsafe { std::ptr::write_bytes(*start as *mut u8, 0, *length) };
        }
    }

    /// Takes the counters in; whether the input took an edge that none before it took, or took one
    /// in another magnitude.
    pub fn take(&mut self) -> bool {
        let mut is_new = false;
        let mut seen = self.seen.as_mut_slice();
        for (start, length) in &self.regions {
            // SAFETY: the static array, which this thread does not change meanwhile; a count that
            // another thread adds may be read or not.
            let counts = unsafe { std::slice::from_raw_parts(*start as *const u8, *length) };
            let (own, rest) = seen.split_at_mut(*length);
            seen = rest;
            // Most counters are 0.
            for (seen, counts) in own.chunks_mut(64).zip(counts.chunks(64)) {
                if counts.iter().all(|count| *count == 0) {
                    continue;
                }
                for (seen, count) in seen.iter_mut().zip(counts).filter(|(_, count)| **count > 0) {
                    let magnitude = 1 << (8 - count.leading_zeros()).min(7);
                    is_new |= *seen & magnitude == 0;
                    *seen |= magnitude;
                }
            }
        }
        is_new
    }

    pub fn edges(&self) -> usize {
        self.seen.iter().filter(|seen| **seen > 0).count()
    }
}
