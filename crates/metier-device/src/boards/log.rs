//! A recorded file of `tegrastats` lines.
//!
//! Recorded lines have stamps of whole seconds, or no time at all; then a fixed interval is
//! assumed. The resulting uncertainty is part of the energy's error. If `tegrastats` was restarted
//! within a file, its running means are reset and the elapsed time is unknown. No energy is
//! integrated across that gap. A first line with 0 % for every core had no earlier sample and is
//! excluded.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::DateTime;
use metier_types::{Bytes, Celsius, Joules, Ratio, Seconds, Watts};
use serde::Serialize;

use super::{Energy, Integrator, Line, Snapshot};

/// Interval assumed for lines without stamps.
pub const INTERVAL: Duration = Duration::from_millis(1000);

/// Largest observed relative deviation of the real interval from the requested one.
const INTERVAL_ERROR: f64 = 0.03;

/// Seconds between stamps above which no energy is integrated across the gap.
const GAP: f64 = 10.0;

/// Lines with one stamp are spread over its second, up to this number.
const MOST_PER_STAMP: usize = 10_000;

/// Mean interval in seconds below which unstamped lines are taken to come from a file, not live.
const TOO_FAST: f64 = 0.02;

/// Largest number of unknown tokens that a summary lists.
const MOST_UNKNOWN: usize = 64;

/// Role of a line in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Sample,
    /// The first sample after `tegrastats` started.
    Start,
    /// As [`Role::Start`], but with 0 % for every core; excluded from the figures.
    Dropped,
    /// Not a `tegrastats` line.
    Foreign,
}

/// Source of a recording's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Times at which the lines were received.
    Receipt,
    /// Stamps of whole seconds.
    Stamps,
    /// An assumed fixed interval.
    Interval,
}

/// Mean and peak of one rail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RailFigures {
    /// Mean of the samples.
    pub mean_watts: Watts,
    pub peak_watts: Watts,
}

/// Summary of a recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub lines: u64,
    /// Lines included in the figures.
    pub samples: u64,
    /// First lines that were excluded.
    pub dropped: u64,
    /// Lines that `tegrastats` did not print.
    pub foreign: u64,
    /// Detected starts of `tegrastats`.
    pub starts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<DateTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<DateTime>,
    /// Source of the times.
    pub clock: Clock,
    /// Rails that make up the board's power.
    pub power_rails: Vec<String>,
    /// Power and energy of the whole board; `None` if its rails are not shown.
    #[serde(flatten)]
    pub energy: Option<Energy>,
    pub rails: BTreeMap<String, RailFigures>,
    /// Mean load of the cores that were switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_load_ratio: Option<Ratio>,
    /// Mean load of the GPU over the samples that show one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_load_ratio: Option<Ratio>,
    /// Largest load of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_peak_ratio: Option<Ratio>,
    /// Largest use of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_ram_bytes: Option<Bytes>,
    /// Highest temperature, placeholder sensors excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_celsius: Option<Celsius>,
    /// Distinct unrecognised tokens, up to a limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A running mean.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
    peak: Option<f64>,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        self.peak = Some(self.peak.map_or(value, |peak| peak.max(value)));
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Summarises a recording line by line in bounded memory.
#[derive(Debug)]
pub struct Recording {
    interval: Duration,
    clock: Clock,
    lines: u64,
    dropped: u64,
    foreign: u64,
    starts: u64,
    samples: u64,
    from: Option<DateTime>,
    to: Option<DateTime>,
    /// Whether the last sample had a stamp.
    stamped: Option<bool>,
    before: Option<Snapshot>,
    power: Integrator,
    /// The same power at receipt times, for live input.
    receipt: Option<Integrator>,
    power_rails: Vec<String>,
    /// Power of the lines that share the stamp `to`.
    pending: Vec<Watts>,
    rails: BTreeMap<String, Mean>,
    cpu: Mean,
    gpu: Mean,
    ram: Option<Bytes>,
    hottest: Option<Celsius>,
    unknown: Vec<String>,
}

impl Recording {
    /// Creates an empty recording; `interval` is assumed for lines without a stamp.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            clock: Clock::Interval,
            lines: 0,
            dropped: 0,
            foreign: 0,
            starts: 0,
            samples: 0,
            from: None,
            to: None,
            stamped: None,
            before: None,
            power: Integrator::default(),
            receipt: None,
            power_rails: Vec::new(),
            pending: Vec::new(),
            rails: BTreeMap::new(),
            cpu: Mean::default(),
            gpu: Mean::default(),
            ram: None,
            hottest: None,
            unknown: Vec::new(),
        }
    }

    /// Adds a line of a file.
    pub fn add(&mut self, bytes: &[u8]) -> (Line, Role) {
        self.take(bytes, None)
    }

    /// Adds a line received at `at` on a monotonic clock. If lines arrive much faster than they
    /// were printed, as from a file, receipt times are not used.
    pub fn add_received(&mut self, bytes: &[u8], at: Seconds) -> (Line, Role) {
        self.take(bytes, Some(at))
    }

    fn take(&mut self, bytes: &[u8], received: Option<Seconds>) -> (Line, Role) {
        let line = Line::parse_bytes(bytes);
        self.lines += 1;
        for token in &line.unknown {
            if self.unknown.len() < MOST_UNKNOWN && !self.unknown.contains(token) {
                self.unknown.push(token.clone());
            }
        }
        let role = self.role(&line.board);
        match role {
            Role::Foreign => {
                self.foreign += 1;
                return (line, role);
            }
            Role::Dropped => self.dropped += 1,
            Role::Sample | Role::Start => self.count(&line, received),
        }
        self.before = Some(line.board.clone());
        (line, role)
    }

    /// Classifies the line; a start ends the current stretch of energy.
    fn role(&mut self, board: &Snapshot) -> Role {
        if board.is_empty() {
            return Role::Foreign;
        }
        let starts = match &self.before {
            None => means_are_fresh(board),
            Some(before) => is_restart(before, board),
        };
        let is_first = self.before.is_none() || starts;
        if starts {
            self.starts += 1;
            self.interrupt();
        }
        match is_first && board.is_idle_in_all_cores() {
            true => Role::Dropped,
            false if starts => Role::Start,
            false => Role::Sample,
        }
    }

    fn count(&mut self, line: &Line, received: Option<Seconds>) {
        let board = &line.board;
        self.samples += 1;
        for rail in &board.rails {
            // Rail names come from the file, so their number is bounded.
            if self.rails.len() < MOST_UNKNOWN || self.rails.contains_key(&rail.name) {
                self.rails.entry(rail.name.clone()).or_default().add(rail.now.get());
            }
        }
        board.cpu_load().iter().for_each(|load| self.cpu.add(load.get()));
        board.gpu_load().iter().for_each(|load| self.gpu.add(load.get()));
        self.ram = self.ram.max(board.ram.map(|ram| ram.used_bytes));
        for sensor in board.temperatures.iter().filter(|sensor| !sensor.placeholder) {
            if sensor.celsius > self.hottest {
                self.hottest = sensor.celsius;
            }
        }
        let power = board.power();
        if power.is_some() && self.power_rails.is_empty() {
            self.power_rails = board.power_rails().into_iter().map(str::to_string).collect();
        }
        self.time(line.stamp, received, power);
    }

    /// Integrates a power sample at its time.
    fn time(&mut self, stamp: Option<DateTime>, received: Option<Seconds>, power: Option<Watts>) {
        if let (Some(at), Some(watts)) = (received, power) {
            self.receipt.get_or_insert_default().add(at, watts);
        }
        // Stamps and assumed intervals are two clocks; do not integrate between them.
        if self.stamped.replace(stamp.is_some()).is_some_and(|before| before != stamp.is_some()) {
            self.flush();
            self.power.interrupt();
        }
        if let Some(stamp) = stamp {
            self.clock = Clock::Stamps;
            self.from = self.from.or(Some(stamp));
            if self.to != Some(stamp) {
                let gap = self.to.map(|before| seconds(stamp) - seconds(before));
                self.flush();
                if gap.is_some_and(|gap| gap <= 0.0 || gap > GAP.max(self.interval.as_secs_f64() * 5.0)) {
                    self.power.interrupt();
                }
                self.to = Some(stamp);
            }
            if self.pending.len() < MOST_PER_STAMP {
                self.pending.extend(power);
            }
        } else {
            let at = self.interval.as_secs_f64() * self.lines as f64;
            power.iter().for_each(|watts| {
                self.power.add(Seconds(at), *watts);
            });
        }
    }

    /// Spreads lines that share a stamp evenly over its second.
    fn flush(&mut self) {
        let Some(stamp) = self.to else { return };
        let count = self.pending.len() as f64;
        for (number, watts) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            self.power.add(Seconds(seconds(stamp) + number as f64 / count), watts);
        }
    }

    fn interrupt(&mut self) {
        self.flush();
        self.power.interrupt();
        self.receipt.iter_mut().for_each(Integrator::interrupt);
    }

    /// Returns the energy by the most accurate clock available.
    fn best(&mut self) -> Option<Energy> {
        let by_file = self.power.energy();
        let (Some(by_file), Some(received)) = (by_file, self.receipt.as_ref().and_then(Integrator::energy))
        else {
            return by_file;
        };
        let is_live = match self.clock {
            Clock::Stamps => received.covered.get() >= by_file.covered.get() / 2.0,
            _ => received.interval_seconds.get() >= TOO_FAST,
        };
        if !is_live {
            return Some(by_file);
        }
        self.clock = Clock::Receipt;
        Some(received)
    }

    /// Summarises the recording.
    pub fn finish(mut self) -> Summary {
        self.flush();
        let energy = self.best().map(|energy| Energy {
            clock_joules: match self.clock {
                Clock::Receipt => Joules(0.0),
                // Each stretch may be up to a second longer or shorter than its stamps show.
                Clock::Stamps => {
                    Joules((energy.mean_watts.get() * energy.stretches as f64).min(energy.joules.get().abs()))
                }
                Clock::Interval => Joules(energy.joules.get().abs() * INTERVAL_ERROR),
            },
            ..energy
        });
        let figures = |mean: &Mean| {
            Some(RailFigures { mean_watts: Watts(mean.mean()?), peak_watts: Watts(mean.peak?) })
        };
        Summary {
            lines: self.lines,
            samples: self.samples,
            dropped: self.dropped,
            foreign: self.foreign,
            starts: self.starts,
            from: self.from,
            to: self.to,
            clock: self.clock,
            power_rails: self.power_rails,
            energy,
            rails: self
                .rails
                .iter()
                .filter_map(|(name, mean)| Some((name.clone(), figures(mean)?)))
                .collect(),
            cpu_load_ratio: self.cpu.mean().map(Ratio),
            gpu_load_ratio: self.gpu.mean().map(Ratio),
            gpu_peak_ratio: self.gpu.peak.map(Ratio),
            peak_ram_bytes: self.ram,
            peak_celsius: self.hottest,
            unknown: self.unknown,
        }
    }
}

/// Seconds of a civil time since a fixed moment; time zone changes are not considered.
fn seconds(stamp: DateTime) -> f64 {
    stamp.duration_since(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)).as_secs_f64()
}

/// Whether every rail's running mean equals its present value, as in the first line after a start.
fn means_are_fresh(board: &Snapshot) -> bool {
    !board.rails.is_empty()
        && board.rails.iter().all(|rail| rail.mean_milliwatts() == Some(rail.milliwatts()))
}

/// Whether a line is the first after a restart of `tegrastats`.
///
/// A continued mean is `m + (x - m) / n`, cut to whole milliwatts. It can equal the present value
/// `x` only if `x` is the previous mean or 1 mW less; otherwise `n` is 1. This needs no line count
/// since the start, which a file that begins in the middle lacks. If power was constant, the
/// all-zero cores of a first line reveal the restart.
fn is_restart(before: &Snapshot, now: &Snapshot) -> bool {
    if !means_are_fresh(now) {
        return false;
    }
    let breaks = now.rails.iter().any(|rail| {
        before
            .rail(&rail.name)
            .and_then(|then| then.mean_milliwatts())
            .is_some_and(|mean| !(mean - 1..=mean).contains(&rail.milliwatts()))
    });
    breaks || (now.is_idle_in_all_cores() && !before.is_idle_in_all_cores())
}

#[cfg(test)]
mod tests;
