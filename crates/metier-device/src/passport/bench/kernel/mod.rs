//! Inner loops, one file for each instruction set: multiply-adds, memory reads, and chains of
//! accesses.
//!
//! They are written in assembly. A debug build then measures the same as a release build, and the
//! result shows the machine rather than the compiler. The instruction set is detected at run time.
//! `portable` serves all other processors, and depends on the compiler.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as own;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as own;
mod portable;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
use portable as own;

use metier_types::NumberPrecision;

/// Size of a cache line, or a small multiple; accesses this far apart never share one.
pub const CACHE_LINE_BYTES: usize = 64;

/// A cache line that links to the next one.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy)]
pub struct CacheLine {
    /// Address of the next line.
    pub next: *const CacheLine,
    rest: [u8; CACHE_LINE_BYTES - size_of::<*const CacheLine>()],
}

impl CacheLine {
    /// A line without a link.
    pub const fn empty() -> Self {
        Self { next: std::ptr::null(), rest: [0; CACHE_LINE_BYTES - size_of::<*const CacheLine>()] }
    }
}

/// A loop of independent multiply-adds in registers.
#[derive(Clone, Copy)]
pub struct MultiplyKernel {
    pub precision: NumberPrecision,
    pub instructions: &'static str,
    /// Multiply-adds per pass.
    pub per_pass: u64,
    /// Runs the given number of passes.
    pub run: fn(u64),
}

/// A loop that reads memory sequentially.
#[derive(Clone, Copy)]
pub struct ReadKernel {
    pub instructions: &'static str,
    /// Reads all whole blocks of [`ReadKernel::BLOCK_BYTES`] bytes and skips the incomplete last
    /// one.
    pub run: fn(&[u8]),
}

impl ReadKernel {
    /// Bytes read in one loop iteration.
    pub const BLOCK_BYTES: usize = 512;
}

/// The widest loop for each precision that this processor supports.
pub fn multiply_kernels() -> Vec<MultiplyKernel> {
    own::multiply()
}

/// The widest loads that this processor supports.
pub fn read_kernel() -> ReadKernel {
    own::read()
}

/// Follows `steps` links, rounded up to whole blocks of 16, and returns the last line.
///
/// # Safety
/// Every line reachable from `start` links to another live line.
pub unsafe fn chase_pointers(start: &CacheLine, steps: u64) -> *const CacheLine {
    // SAFETY: the caller gives the same guarantee.
    unsafe { own::chase(start, steps) }
}

/// Steps are rounded up to this block size.
pub const CHASE_BLOCK: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_that_this_processor_has_runs_and_ends() {
        for kernel in multiply_kernels().into_iter().chain(portable::multiply()) {
            (kernel.run)(0);
            (kernel.run)(1);
            (kernel.run)(1000);
            assert!(kernel.per_pass >= 4, "{}", kernel.instructions);
        }
        let precisions: Vec<NumberPrecision> =
            multiply_kernels().iter().map(|kernel| kernel.precision).collect();
        assert!(
            precisions.contains(&NumberPrecision::F64) && precisions.contains(&NumberPrecision::F32),
            "{precisions:?}"
        );
        let mut once = precisions.clone();
        once.dedup();
        assert_eq!(once, precisions, "the widest of each only");
    }

    #[test]
    fn reading_takes_any_length_and_alignment() {
        let bytes = vec![1_u8; 4 * ReadKernel::BLOCK_BYTES + 100];
        for kernel in [read_kernel(), portable::read()] {
            for (from, to) in [(0, 0), (0, 511), (0, 512), (3, 3 + 1024), (0, bytes.len()), (7, bytes.len())]
            {
                (kernel.run)(&bytes[from..to]);
            }
        }
    }

    #[test]
    fn a_chase_ends_where_its_links_lead() {
        let mut lines = [CacheLine::empty(); 5];
        let start = lines.as_ptr();
        for (i, line) in lines.iter_mut().enumerate() {
            line.next = start.wrapping_add((i + 1) % 5);
        }
        for (steps, end) in [(0, 0), (16, 1), (32, 2), (33, 48 % 5)] {
            // SAFETY: the five lines form a ring.
            let (ours, plain) =
                unsafe { (chase_pointers(&lines[0], steps), portable::chase(&lines[0], steps)) };
            assert_eq!((ours, plain), (start.wrapping_add(end), start.wrapping_add(end)), "{steps}");
        }
    }
}
