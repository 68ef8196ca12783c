//! Micro-benchmarks that fill this device's passport in bounded time.
//!
//! Each part is one file with one function of the same signature, and has an entry with its share
//! of the time in [`BENCH_PARTS`]. A part measures several times and keeps the best result and the
//! spread, because other load only slows a machine down. A part that fails adds an entry to
//! `missing`; the others continue.

mod bandwidth;
mod compute;
mod kernel;
mod latency;
mod spawn;
mod storage;
mod thread_team;
mod throttling;
mod working_set;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use metier_types::{Device, MissingReason, Passport, PassportOrigin};

use crate::Error;
use metier_linux::KernelRoots;
use metier_linux::host::HostMeter;

/// Settings of a passport benchmark.
pub struct PassportBenchPlan<'a> {
    /// Roots of the kernel's files.
    pub roots: &'a KernelRoots,
    /// Approximate total duration in seconds.
    pub seconds: f64,
    /// Folder whose storage is measured; `None` skips storage.
    pub folder: Option<PathBuf>,
    /// Called with the name of the starting part and the finished share, from 0 to 1.
    pub progress: &'a dyn Fn(&str, f64),
}

impl PassportBenchPlan<'_> {
    /// Allowed values of `seconds`.
    pub const ALLOWED_SECONDS: std::ops::RangeInclusive<f64> = 1.0..=3600.0;
}

/// Shared context of the parts.
struct BenchContext<'a> {
    plan: &'a PassportBenchPlan<'a>,
    host: HostMeter,
    /// Thread counts to measure with: 1, 2, 4 … and all.
    threads: Vec<u32>,
    /// Time for the current part.
    time: Duration,
}

type BenchPart = fn(&mut BenchContext, &mut Passport);

/// Name, share of the time, and measuring function of each part.
const BENCH_PARTS: [(&str, f64, BenchPart); 6] = [
    ("compute", 0.25, compute::measure),
    ("memory bandwidth", 0.22, bandwidth::measure),
    ("memory latency", 0.10, latency::measure),
    ("storage", 0.13, storage::measure),
    ("starting processes", 0.03, spawn::measure),
    ("lasting load", 0.27, throttling::measure),
];

/// Duration of a quick passport.
const QUICK_SECONDS: f64 = 2.0;
/// Fields that a quick passport leaves out.
const QUICK_MISSING: [&str; 3] = ["storage", "spawn_seconds", "throttling"];

/// Measures compute and memory alone, in about two seconds. The passport is marked as quick;
/// `metier device bench` replaces it by a full one.
pub fn measure_quick_passport(device: Device, roots: &KernelRoots) -> Result<Passport, Error> {
    let plan = PassportBenchPlan { roots, seconds: QUICK_SECONDS, folder: None, progress: &|_, _| {} };
    let mut passport = measure_parts(device, &plan, &BENCH_PARTS[..3])?;
    for field in QUICK_MISSING {
        let reason = MissingReason::with_fix("this passport is a quick one", "run `metier device bench`");
        passport.missing.insert(field.into(), reason);
    }
    passport.is_quick = true;
    passport.notes.push(QUICK_NOTE.to_string());
    Ok(passport)
}

/// Mark of a quick passport.
const QUICK_NOTE: &str = "A quick passport, made without being asked for: run `metier device bench` on an idle device for a full one.";

/// Measures the passport of this device.
pub fn measure_passport(device: Device, plan: &PassportBenchPlan) -> Result<Passport, Error> {
    measure_parts(device, plan, &BENCH_PARTS)
}

fn measure_parts(
    device: Device,
    plan: &PassportBenchPlan,
    parts: &[(&str, f64, BenchPart)],
) -> Result<Passport, Error> {
    if !PassportBenchPlan::ALLOWED_SECONDS.contains(&plan.seconds) {
        let got = format!("{}s", plan.seconds);
        return Err(Error::Value { field: "--seconds", got, want: "1s to 1h" });
    }
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let mut host = HostMeter::open(plan.roots);
    let load = host.read().load1;
    let mut bench =
        BenchContext { plan, host, threads: thread_team::thread_counts(all), time: Duration::ZERO };
    let mut passport = Passport::without_figures(device, PassportOrigin::Measured);
    passport.sources.push(format!("metier {} ({} build)", env!("CARGO_PKG_VERSION"), build_profile()));
    let mut done = 0.0;
    let all_shares: f64 = parts.iter().map(|(_, share, _)| share).sum();
    for (name, share, measure) in parts {
        (plan.progress)(name, done);
        let share = share / all_shares;
        bench.time = Duration::from_secs_f64(plan.seconds * share);
        measure(&mut bench, &mut passport);
        done += share;
    }
    (plan.progress)("done", 1.0);
    if let Some(load) = load.filter(|load| *load > 0.5 * f64::from(all)) {
        let text = format!(
            "The host was busy: load {load:.1} on {all} threads at the start; an idle host is faster."
        );
        passport.notes.push(text);
    }
    if build_profile() == "debug" && compute::uses_plain_loops() {
        passport
            .notes
            .push("A debug build without assembly loops for this processor: compute is far too low.".into());
    }
    Ok(passport)
}

fn build_profile() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Best and worst of a measurement's repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RepetitionSpread {
    best: f64,
    worst: f64,
}

/// Repetitions of each measurement.
const REPETITIONS: u32 = 5;

impl RepetitionSpread {
    /// From rates, where more is better; `None` without a positive finite rate.
    fn from_rates(rates: impl IntoIterator<Item = f64>) -> Option<Self> {
        let of = |best: f64, worst: f64| Self { best, worst };
        let sensible = rates.into_iter().filter(|rate| rate.is_finite() && *rate > 0.0);
        sensible.fold(None, |spread: Option<Self>, rate| {
            Some(spread.map_or(of(rate, rate), |s| of(s.best.max(rate), s.worst.min(rate))))
        })
    }

    /// From times, where less is better.
    fn from_times(times: impl IntoIterator<Item = f64>) -> Option<Self> {
        let rates = times.into_iter().map(f64::recip);
        Self::from_rates(rates).map(|rates| Self { best: rates.best.recip(), worst: rates.worst.recip() })
    }

    /// Relative difference between best and worst: 0 if all are equal, 0.5 for a halved rate, 1 for
    /// a doubled time.
    fn ratio(self) -> metier_types::Ratio {
        metier_types::Ratio((self.worst - self.best).abs() / self.best)
    }
}

impl BenchContext<'_> {
    /// Duration of one repetition for a part with `cases` cases.
    fn repetition_time(&self, cases: usize) -> Duration {
        (self.time / (cases.max(1) as u32 * REPETITIONS))
            .clamp(Duration::from_millis(1), Duration::from_secs(1))
    }

    /// Time at which the current part should end.
    fn deadline(&self) -> Instant {
        Instant::now() + self.time
    }
}

fn mark_missing(passport: &mut Passport, field: &str, reason: impl Into<String>) {
    passport.missing.insert(field.into(), MissingReason::without_fix(reason));
}

#[cfg(test)]
mod tests;
