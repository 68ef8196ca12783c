//! A recorded file of `tegrastats` lines.
//!
//! Recorded lines have a stamp of whole seconds, or no time at all; then an interval has to be assumed. What that
//! may cost is part of the energy's error. Where the recording program was started again inside of a file, its
//! running means break, time between the two is not known, and energy is not counted across. A first line that
//! shows 0 % for every core had nothing to compare with and is left out of the figures.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::DateTime;
use metier_types::{Bytes, Celsius, Joules, Ratio, Seconds, Watts};
use serde::Serialize;

use super::{Energy, Integrator, Line, Snapshot};

/// Interval that is assumed for lines without stamps.
pub const INTERVAL: Duration = Duration::from_millis(1000);

/// By how much the real interval was seen to differ from what was asked for.
const INTERVAL_ERROR: f64 = 0.03;

/// A gap between stamps above which nothing is known of what lies between.
const GAP: f64 = 10.0;

/// Lines with the same stamp that are spread over its second.
const MOST_PER_STAMP: usize = 10_000;

/// Mean interval below which lines without stamps did not come from the program itself but out of a file.
const TOO_FAST: f64 = 0.02;

/// Unknown tokens that a summary lists.
const MOST_UNKNOWN: usize = 64;

/// What a line is to the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Sample,
    /// The first sample of a recording program that started.
    Start,
    /// As [`Role::Start`], but with 0 % for every core; not in the figures.
    Dropped,
    /// No line of `tegrastats`.
    Foreign,
}

/// Where the times of a recording come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// They were taken when the lines came.
    Receipt,
    /// Stamps of whole seconds.
    Stamps,
    /// An interval was assumed.
    Interval,
}

/// Mean and peak of one rail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RailFigures {
    /// Mean of the samples.
    pub mean_watts: Watts,
    pub peak_watts: Watts,
}

/// What a recording says as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub lines: u64,
    /// Lines that the figures are made of.
    pub samples: u64,
    /// First lines that were left out.
    pub dropped: u64,
    /// Lines that are none of `tegrastats`.
    pub foreign: u64,
    /// Starts of the recording program that were seen.
    pub starts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<DateTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<DateTime>,
    /// Where the times come from.
    pub clock: Clock,
    /// Rails that make up the board's power.
    pub power_rails: Vec<String>,
    /// Power and energy of the whole board; `None` where its rails are not shown.
    #[serde(flatten)]
    pub energy: Option<Energy>,
    pub rails: BTreeMap<String, RailFigures>,
    /// Mean load of the cores that were on.
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
    /// Hottest sensor, placeholders aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_celsius: Option<Celsius>,
    /// Distinct tokens that were not recognised, the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A mean that grows.
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

/// Reads a recording line by line, in bounded memory.
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
    /// The same power at the moments at which lines were received, where they were.
    receipt: Option<Integrator>,
    power_rails: Vec<String>,
    /// Power of lines that share the stamp `to`.
    pending: Vec<Watts>,
    rails: BTreeMap<String, Mean>,
    cpu: Mean,
    gpu: Mean,
    ram: Option<Bytes>,
    hottest: Option<Celsius>,
    unknown: Vec<String>,
}

impl Recording {
    /// An empty one; `interval` is taken for lines without a stamp.
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

    /// Takes a line of a file.
    pub fn add(&mut self, bytes: &[u8]) -> (Line, Role) {
        self.take(bytes, None)
    }

    /// Takes a line that has just come, at a moment on any clock that only goes forward. Where lines turn out to have
    /// come much faster than they were printed, as out of a file, those moments are not used.
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

    /// What the line is; a start ends the stretch of energy before it.
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
            // Names come from the file: their number is bounded as everything is.
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

    /// Puts a sample of power at its time.
    fn time(&mut self, stamp: Option<DateTime>, received: Option<Seconds>, power: Option<Watts>) {
        if let (Some(at), Some(watts)) = (received, power) {
            self.receipt.get_or_insert_default().add(at, watts);
        }
        // Stamps and assumed intervals are two clocks: nothing is integrated from a time of one to a time of the other.
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

    /// Lines that share a stamp came evenly within its second.
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

    /// The energy by the best clock there is.
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

    /// What it says as a whole.
    pub fn finish(mut self) -> Summary {
        self.flush();
        let energy = self.best().map(|energy| Energy {
            clock_joules: match self.clock {
                Clock::Receipt => Joules(0.0),
                // Each stretch may be up to a second longer or shorter than its stamps say.
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

/// Seconds of a civil time from a fixed moment; zones and their jumps are not known.
fn seconds(stamp: DateTime) -> f64 {
    stamp.duration_since(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)).as_secs_f64()
}

/// Whether every rail's running mean is its present value, as in the first line of a recording program.
fn means_are_fresh(board: &Snapshot) -> bool {
    !board.rails.is_empty()
        && board.rails.iter().all(|rail| rail.mean_milliwatts() == Some(rail.milliwatts()))
}

/// Whether a line is the first of a program that was started again.
///
/// A mean that goes on is `m + (x - m) / n`, cut to whole milliwatts. It can equal the present value `x` only where
/// `x` is the mean before, or 1 mW less; otherwise `n` is 1. This needs no count of the lines since the start,
/// which a file that begins in the middle does not give. Where power stood still, the all-zero cores of a first
/// line tell.
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
