//! Multiply-add rates in registers by precision and number of threads: the upper bound of any
//! program.

use metier_types::{ComputeRate, NumberPrecision, Passport};

use super::{BenchContext, REPETITIONS, RepetitionSpread, kernel, mark_missing, thread_team};

/// Passes between clock readings: some microseconds, so that reading the clock costs nothing.
const PASSES: u64 = 2_000;

/// See [`super::BENCH_PARTS`].
pub fn measure(bench: &mut BenchContext, passport: &mut Passport) {
    let kernels = kernel::multiply_kernels();
    let slice = bench.repetition_time(kernels.len() * bench.threads.len());
    for kernel in &kernels {
        for &threads in &bench.threads {
            let work = |(): &mut ()| {
                (kernel.run)(PASSES);
                PASSES * kernel.per_pass
            };
            let Some(spread) = RepetitionSpread::from_rates(thread_team::measure_rates(
                threads,
                REPETITIONS,
                slice,
                || (),
                work,
            )) else {
                continue;
            };
            let mut rate = ComputeRate::new(kernel.precision, threads, spread.best);
            rate.instructions = Some(kernel.instructions.into());
            rate.spread_ratio = Some(spread.ratio());
            passport.compute.push(rate);
        }
    }
    let has = |precision| kernels.iter().any(|kernel| kernel.precision == precision);
    if !has(NumberPrecision::F16) {
        let reason =
            "this processor has no 16-bit float arithmetic; such numbers are widened to 32 bits first";
        mark_missing(passport, "compute.f16", reason);
    }
    if !has(NumberPrecision::I8) {
        mark_missing(passport, "compute.i8", "this processor has no 8-bit dot products with 32-bit sums");
    }
}

/// Whether the portable loops are used, so that the rate depends on the compiler.
pub fn uses_plain_loops() -> bool {
    kernel::multiply_kernels().iter().any(|kernel| kernel.instructions == "plain loops")
}
