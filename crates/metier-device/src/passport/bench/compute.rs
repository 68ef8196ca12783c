//! Multiply-add rates in registers by precision and number of threads: the upper bound of any
//! program.

use metier_types::{ComputeRate, Passport, Precision};

use super::{Bench, REPETITIONS, Spread, kernel, miss, team};

/// Passes between clock readings: some microseconds, so that reading the clock costs nothing.
const PASSES: u64 = 2_000;

/// See [`super::PARTS`].
pub fn measure(bench: &mut Bench, passport: &mut Passport) {
    let kernels = kernel::multiply();
    let slice = bench.slice(kernels.len() * bench.threads.len());
    for kernel in &kernels {
        for &threads in &bench.threads {
            let work = |(): &mut ()| {
                (kernel.run)(PASSES);
                PASSES * kernel.per_pass
            };
            let Some(spread) = Spread::of_rates(team::rates(threads, REPETITIONS, slice, || (), work)) else {
                continue;
            };
            let mut rate = ComputeRate::new(kernel.precision, threads, spread.best);
            rate.instructions = Some(kernel.instructions.into());
            rate.spread_ratio = Some(spread.ratio());
            passport.compute.push(rate);
        }
    }
    let has = |precision| kernels.iter().any(|kernel| kernel.precision == precision);
    if !has(Precision::F16) {
        let reason =
            "this processor has no 16-bit float arithmetic; such numbers are widened to 32 bits first";
        miss(passport, "compute.f16", reason);
    }
    if !has(Precision::I8) {
        miss(passport, "compute.i8", "this processor has no 8-bit dot products with 32-bit sums");
    }
}

/// Whether the portable loops are used, so that the rate depends on the compiler.
pub fn is_plain() -> bool {
    kernel::multiply().iter().any(|kernel| kernel.instructions == "plain loops")
}
