//! Multiply-adds by precision and number of threads, in registers: what no real program goes beyond.

use metier_types::{ComputeRate, Passport, Precision};

use super::{Bench, REPETITIONS, Spread, kernel, miss, team};

/// Passes of one piece of work: some microseconds, so that asking for the time costs nothing.
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
        let reason = "this processor has no arithmetic on 16-bit numbers; they are widened to 32 bits first";
        miss(passport, "compute.f16", reason);
    }
    if !has(Precision::I8) {
        miss(passport, "compute.i8", "this processor has no products of 8-bit numbers added up in 32 bits");
    }
}

/// Whether only the compiler stands for the figures.
pub fn is_plain() -> bool {
    kernel::multiply().iter().any(|kernel| kernel.instructions == "plain loops")
}
