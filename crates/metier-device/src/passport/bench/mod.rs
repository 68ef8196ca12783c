//! Measures what this device can do, in bounded time, and fills a passport with it.
//!
//! Each part is one file with one function of the same shape, and stands in [`PARTS`] with its share of the time. A part
//! measures several times and keeps the best with the spread: what else goes on only ever makes a machine look slower.
//! What a part cannot measure it writes into `missing`, and the others go on.

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

/// How much time, where, and whom to tell.
pub struct Plan<'a> {
    /// Where the kernel's files are.
    pub roots: &'a Roots,
    /// All of it together, about.
    pub seconds: f64,
    /// The folder whose storage is measured; `None` leaves storage out.
    pub folder: Option<PathBuf>,
    /// Told what begins and how much is done, from 0 to 1.
    pub progress: &'a dyn Fn(&str, f64),
}

impl Plan<'_> {
    /// What `seconds` may be.
    pub const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=3600.0;
    /// What it is unless asked otherwise.
    pub const USUAL_SECONDS: f64 = 30.0;
}

/// What a part may use.
struct Bench<'a> {
    plan: &'a Plan<'a>,
    host: HostMeter,
    /// Numbers of threads to measure with: 1, 2, 4 … and all.
    threads: Vec<u32>,
    /// Time of the part that is being measured.
    time: Duration,
}

type Part = fn(&mut Bench, &mut Passport);

/// Name, share of the time, and how it is measured.
const PARTS: [(&str, f64, Part); 6] = [
    ("compute", 0.25, compute::measure),
    ("memory bandwidth", 0.22, bandwidth::measure),
    ("memory latency", 0.10, latency::measure),
    ("storage", 0.13, storage::measure),
    ("starting processes", 0.03, spawn::measure),
    ("lasting load", 0.27, throttling::measure),
];

/// The measured passport of this device.
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
            "The host was busy with other things: load {load:.1} on {all} threads when it began; an idle host does better."
        );
        passport.notes.push(text);
    }
    if build() == "debug" && compute::is_plain() {
        passport.notes.push(
            "A debug build without loops of its own for this processor: compute is far too low.".into(),
        );
    }
    Ok(passport)
}

fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Repetitions of a measurement: the best and how far the worst was from it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    best: f64,
    worst: f64,
}

/// How often each thing is measured.
const REPETITIONS: u32 = 5;

impl Spread {
    /// Of rates, where more is better; `None` where nothing sensible was measured.
    fn of_rates(rates: impl IntoIterator<Item = f64>) -> Option<Self> {
        let of = |best: f64, worst: f64| Self { best, worst };
        let sensible = rates.into_iter().filter(|rate| rate.is_finite() && *rate > 0.0);
        sensible.fold(None, |spread: Option<Self>, rate| {
            Some(spread.map_or(of(rate, rate), |s| of(s.best.max(rate), s.worst.min(rate))))
        })
    }

    /// Of times, where less is better.
    fn of_times(times: impl IntoIterator<Item = f64>) -> Option<Self> {
        let rates = times.into_iter().map(f64::recip);
        Self::of_rates(rates).map(|rates| Self { best: rates.best.recip(), worst: rates.worst.recip() })
    }

    /// 0 where all were the same; a rate that fell to half is 0.5, a time that doubled is 1.
    fn ratio(self) -> metier_types::Ratio {
        metier_types::Ratio((self.worst - self.best).abs() / self.best)
    }
}

impl Bench<'_> {
    /// The time of one repetition where the part measures so many cases.
    fn slice(&self, cases: usize) -> Duration {
        (self.time / (cases.max(1) as u32 * REPETITIONS))
            .clamp(Duration::from_millis(1), Duration::from_secs(1))
    }

    /// When the part should be over.
    fn deadline(&self) -> Instant {
        Instant::now() + self.time
    }
}

fn miss(passport: &mut Passport, field: &str, reason: impl Into<String>) {
    passport.missing.insert(field.into(), Missing::because(reason));
}

#[cfg(test)]
mod tests;
