//! Sustained load on all cores: the remaining share of speed and frequency at the end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metier_types::{
    ExtraFields, LockUnpoisoned, NumberPrecision, Passport, Ratio, Seconds, ThrottlingResult,
};

use super::{BenchContext, kernel, mark_missing};

/// Passes between updates of the work counter.
const PASSES: u64 = 2_000;
/// Number of speed samples.
const SPEED_SAMPLES: u32 = 40;

/// See [`super::BENCH_PARTS`].
pub fn measure(bench: &mut BenchContext, passport: &mut Passport) {
    let kernels = kernel::multiply_kernels();
    let Some(kernel) = kernels.iter().find(|kernel| kernel.precision == NumberPrecision::F32) else {
        return mark_missing(passport, "throttling", "there is no kernel for 32-bit floats");
    };
    let threads = bench.threads.last().copied().unwrap_or(1);
    let (over, work) = (AtomicBool::new(false), AtomicU64::new(0));
    let busy = || {
        while !over.load(Ordering::Relaxed) {
            (kernel.run)(PASSES);
            work.fetch_add(PASSES, Ordering::Relaxed);
        }
    };
    let (before, start) = (bench.host.read(), Instant::now());
    let speeds = Mutex::new(Vec::new());
    let after = std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(busy)));
        let mut early = before;
        for look in 0..SPEED_SAMPLES {
            speeds.lock_unpoisoned().push(measure_speed(&work, bench.time / SPEED_SAMPLES));
            // Idle cores run at a low clock, so the frequency before is read after the first busy
            // interval.
            if look == 0 {
                early.frequency_hertz = bench.host.read().frequency_hertz;
            }
        }
        let late = bench.host.read();
        over.store(true, Ordering::Relaxed);
        (early, late)
    });
    let seconds = Seconds(start.elapsed().as_secs_f64());
    let speeds = speeds.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(value) = kept_speed_ratio(&speeds) else {
        return mark_missing(passport, "throttling", "no speed could be measured");
    };
    let (before, after) = after;
    if after.frequency_hertz.is_none() {
        mark_missing(
            passport,
            "throttling.frequency_after_hertz",
            "the host shows no frequency (usual in virtual machines)",
        );
    }
    if after.temperature_celsius.is_none() {
        mark_missing(
            passport,
            "throttling.temperature_after_celsius",
            "the host shows no temperature (usual in virtual machines)",
        );
    }
    passport.throttling = Some(ThrottlingResult {
        seconds,
        kept_ratio: Ratio(value),
        frequency_before_hertz: before.frequency_hertz,
        frequency_after_hertz: after.frequency_hertz,
        temperature_before_celsius: before.temperature_celsius,
        temperature_after_celsius: after.temperature_celsius,
        extra: ExtraFields::new(),
    });
}

fn measure_speed(work: &AtomicU64, span: Duration) -> f64 {
    let (start, before) = (Instant::now(), work.load(Ordering::Relaxed));
    std::thread::sleep(span);
    (work.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64()
}

/// Best speed of the last fifth over the best of the first fifth; the best of several samples hides
/// short disturbances by other processes.
fn kept_speed_ratio(speeds: &[f64]) -> Option<f64> {
    let fifth = speeds.len().div_ceil(5);
    let best = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let (first, last) = (best(speeds.get(..fifth)?), best(&speeds[speeds.len() - fifth..]));
    (first > 0.0).then_some(last / first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_the_end_over_the_start() {
        assert_eq!(kept_speed_ratio(&[]), None);
        assert_eq!(kept_speed_ratio(&[0.0, 1.0]), None);
        assert_eq!(kept_speed_ratio(&[2.0]), Some(1.0));
        let mut speeds = [10.0; 10];
        speeds[8] = 5.0;
        speeds[9] = 4.0;
        assert_eq!(kept_speed_ratio(&speeds), Some(0.5));
        speeds[1] = 1.0;
        assert_eq!(kept_speed_ratio(&speeds), Some(0.5), "a moment that others took does not count");
    }
}
