//! Micro-benchmarks that fill this device's passport in bounded time.
//!
//! Each part is one file with one function of the same signature, and has an entry with its share
//! of the time in [`PARTS`]. A part measures several times and keeps the best result and the
//! spread, because other load only slows a machine down. A part that fails adds an entry to
//! `missing`; the others continue.

mod bandwidth;
mod compute;
mod kernel;
mod latency;
mod spawn;
mod storage;
mod team;
mod throttling;
mod working_set;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use metier_types::{Device, Missing, Origin, Passport};

use crate::Error;
use metier_linux::Roots;
use metier_linux::host::HostMeter;

/// Settings of a passport benchmark.
pub struct Plan<'a> {
    /// Roots of the kernel's files.
    pub roots: &'a Roots,
    /// Approximate total duration in seconds.
    pub seconds: f64,
    /// Folder whose storage is measured; `None` skips storage.
    pub folder: Option<PathBuf>,
    /// Called with the name of the starting part and the finished share, from 0 to 1.
    pub progress: &'a dyn Fn(&str, f64),
}

impl Plan<'_> {
    /// Allowed values of `seconds`.
    pub const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=3600.0;
    /// Default of `seconds`.
    pub const USUAL_SECONDS: f64 = 30.0;
}

/// Shared context of the parts.
struct Bench<'a> {
    plan: &'a Plan<'a>,
    host: HostMeter,
    /// Thread counts to measure with: 1, 2, 4 … and all.
    threads: Vec<u32>,
    /// Time for the current part.
    time: Duration,
}

type Part = fn(&mut Bench, &mut Passport);

/// Name, share of the time, and measuring function of each part.
const PARTS: [(&str, f64, Part); 6] = [
    ("compute", 0.25, compute::measure),
    ("memory bandwidth", 0.22, bandwidth::measure),
    ("memory latency", 0.10, latency::measure),
    ("storage", 0.13, storage::measure),
    ("starting processes", 0.03, spawn::measure),
    ("lasting load", 0.27, throttling::measure),
];

/// Measures the passport of this device.
pub fn bench(device: Device, plan: &Plan) -> Result<Passport, Error> {
    if !Plan::SECONDS.contains(&plan.seconds) {
        let got = plan.seconds.to_string();
        return Err(Error::Value { field: "--seconds", got, want: "a number from 1 to 3600" });
    }
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let mut host = HostMeter::open(plan.roots);
    let load = host.reading().load1;
    let mut bench = Bench { plan, host, threads: team::sizes(all), time: Duration::ZERO };
    let mut passport = Passport::of(device, Origin::Measured);
    passport.sources.push(format!("metier {} ({} build)", env!("CARGO_PKG_VERSION"), build()));
    let mut done = 0.0;
    for (name, share, measure) in PARTS {
        (plan.progress)(name, done);
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
    if build() == "debug" && compute::is_plain() {
        passport
            .notes
            .push("A debug build without assembly loops for this processor: compute is far too low.".into());
    }
    Ok(passport)
}

fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Best and worst of a measurement's repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    best: f64,
    worst: f64,
}

/// Repetitions of each measurement.
const REPETITIONS: u32 = 5;

impl Spread {
    /// From rates, where more is better; `None` without a positive finite rate.
    fn of_rates(rates: impl IntoIterator<Item = f64>) -> Option<Self> {
        let of = |best: f64, worst: f64| Self { best, worst };
        let sensible = rates.into_iter().filter(|rate| rate.is_finite() && *rate > 0.0);
        sensible.fold(None, |spread: Option<Self>, rate| {
            Some(spread.map_or(of(rate, rate), |s| of(s.best.max(rate), s.worst.min(rate))))
        })
    }

    /// From times, where less is better.
    fn of_times(times: impl IntoIterator<Item = f64>) -> Option<Self> {
        let rates = times.into_iter().map(f64::recip);
        Self::of_rates(rates).map(|rates| Self { best: rates.best.recip(), worst: rates.worst.recip() })
    }

    /// Relative difference between best and worst: 0 if all are equal, 0.5 for a halved rate, 1 for
    /// a doubled time.
    fn ratio(self) -> metier_types::Ratio {
        metier_types::Ratio((self.worst - self.best).abs() / self.best)
    }
}

impl Bench<'_> {
    /// Duration of one repetition for a part with `cases` cases.
    fn slice(&self, cases: usize) -> Duration {
        (self.time / (cases.max(1) as u32 * REPETITIONS))
            .clamp(Duration::from_millis(1), Duration::from_secs(1))
    }

    /// Time at which the current part should end.
    fn deadline(&self) -> Instant {
        Instant::now() + self.time
    }
}

fn miss(passport: &mut Passport, field: &str, reason: impl Into<String>) {
    passport.missing.insert(field.into(), Missing::because(reason));
}

#[cfg(test)]
mod tests;
