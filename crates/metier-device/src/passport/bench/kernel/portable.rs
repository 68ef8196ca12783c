//! Any processor: plain loops that a compiler can vectorise. A debug build measures far below the
//! machine's peak.
#![cfg_attr(
    target_arch = "aarch64",
    allow(dead_code, reason = "there NEON is always present; the tests compare")
)]

use std::hint::black_box;

use metier_types::NumberPrecision;

use super::{CHASE_BLOCK, CacheLine, MultiplyKernel, ReadKernel};

const LANES: usize = 64;

macro_rules! kernel {
    ($name:ident, $from:ty, $to:ty, $value:expr) => {
        fn $name(passes: u64) {
            let (a, b) = (black_box([$value; LANES]), black_box([$value; LANES]));
            let mut sums: [$to; LANES] = [Default::default(); LANES];
            for _ in 0..passes {
                for i in 0..LANES {
                    let (a, b): ($from, $from) = (a[i], b[i]);
                    sums[i] += <$to>::from(a) * <$to>::from(b);
                }
                black_box(&mut sums);
            }
        }
    };
}

kernel!(f64_plain, f64, f64, 0.001);
kernel!(f32_plain, f32, f32, 0.001);

fn i8_plain(passes: u64) {
    let (a, b) = (black_box([1_i8; LANES]), black_box([1_i8; LANES]));
    let mut sums = [0_i32; LANES];
    for _ in 0..passes {
        for i in 0..LANES {
            sums[i] = sums[i].wrapping_add(i32::from(a[i]) * i32::from(b[i]));
        }
        black_box(&mut sums);
    }
}

/// See [`super::multiply_kernels`].
pub fn multiply() -> Vec<MultiplyKernel> {
    let kernel = |precision, run| MultiplyKernel {
        precision,
        instructions: "plain loops",
        per_pass: LANES as u64,
        run,
    };
    vec![
        kernel(NumberPrecision::F64, f64_plain as fn(u64)),
        kernel(NumberPrecision::F32, f32_plain),
        kernel(NumberPrecision::I8, i8_plain),
    ]
}

fn read_plain(bytes: &[u8]) {
    for block in bytes.chunks_exact(ReadKernel::BLOCK_BYTES) {
        let mut sum = 0_u64;
        let (words, _) = block.as_chunks::<8>();
        for word in words {
            sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
        black_box(sum);
    }
}

/// See [`super::read_kernel`].
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "x86-64 has wide loads; the tests compare"))]
pub fn read() -> ReadKernel {
    ReadKernel { instructions: "plain loops", run: read_plain }
}

/// See [`super::chase_pointers`].
///
/// # Safety
/// Every line reachable from `start` links to another live line.
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "x86-64 has its own; the tests compare"))]
pub unsafe fn chase(start: &CacheLine, steps: u64) -> *const CacheLine {
    let mut at: *const CacheLine = start;
    for _ in 0..steps.div_ceil(CHASE_BLOCK) * CHASE_BLOCK {
        // SAFETY: the caller guarantees that every link leads to a line.
        at = black_box(unsafe { (*at).next });
    }
    at
}
