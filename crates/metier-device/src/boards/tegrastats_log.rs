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

use super::{BoardSnapshot, EnergyIntegrator, IntegratedEnergy, TegrastatsLine};

/// Interval assumed for lines without stamps.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(1000);

/// Largest observed relative deviation of the real interval from the requested one.
const INTERVAL_ERROR_RATIO: f64 = 0.03;

/// Seconds between stamps above which no energy is integrated across the gap.
const MAX_GAP_SECONDS: f64 = 10.0;

/// Lines with one stamp are spread over its second, up to this number.
const MAX_LINES_PER_STAMP: usize = 10_000;

/// Mean interval in seconds below which unstamped lines are taken to come from a file, not live.
const MIN_INTERVAL_SECONDS: f64 = 0.02;

/// Largest number of unknown tokens that a summary lists.
const MAX_UNKNOWN_TOKENS: usize = 64;

/// Role of a line in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineRole {
    Sample,
    /// The first sample after `tegrastats` started.
    Start,
    /// As [`LineRole::Start`], but with 0 % for every core; excluded from the figures.
    Dropped,
    /// Not a `tegrastats` line.
    Foreign,
}

/// Source of a recording's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordingClock {
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
pub struct RecordingSummary {
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
    pub clock: RecordingClock,
    /// Rails that make up the board's power.
    pub power_rails: Vec<String>,
    /// Power and energy of the whole board; `None` if its rails are not shown.
    #[serde(flatten)]
    pub energy: Option<IntegratedEnergy>,
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
struct RunningMean {
    sum: f64,
    count: u64,
    peak: Option<f64>,
}

impl RunningMean {
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
pub struct TegrastatsRecording {
    interval: Duration,
    clock: RecordingClock,
    lines: u64,
    dropped: u64,
    foreign: u64,
    starts: u64,
    samples: u64,
    from: Option<DateTime>,
    to: Option<DateTime>,
    /// Whether the last sample had a stamp.
    stamped: Option<bool>,
    before: Option<BoardSnapshot>,
    power: EnergyIntegrator,
    /// The same power at receipt times, for live input.
    receipt: Option<EnergyIntegrator>,
    power_rails: Vec<String>,
    /// Power of the lines that share the stamp `to`.
    pending: Vec<Watts>,
    rails: BTreeMap<String, RunningMean>,
    cpu: RunningMean,
    gpu: RunningMean,
    ram: Option<Bytes>,
    hottest: Option<Celsius>,
    unknown: Vec<String>,
}

impl TegrastatsRecording {
    /// Creates an empty recording; `interval` is assumed for lines without a stamp.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            clock: RecordingClock::Interval,
            lines: 0,
            dropped: 0,
            foreign: 0,
            starts: 0,
            samples: 0,
            from: None,
            to: None,
            stamped: None,
            before: None,
            power: EnergyIntegrator::default(),
            receipt: None,
            power_rails: Vec::new(),
            pending: Vec::new(),
            rails: BTreeMap::new(),
            cpu: RunningMean::default(),
            gpu: RunningMean::default(),
            ram: None,
            hottest: None,
            unknown: Vec::new(),
        }
    }

    /// Adds a line of a file.
    pub fn add_line(&mut self, bytes: &[u8]) -> (TegrastatsLine, LineRole) {
        self.process_line(bytes, None)
    }

    /// Adds a line received at `at` on a monotonic clock. If lines arrive much faster than they
    /// were printed, as from a file, receipt times are not used.
    pub fn add_received(&mut self, bytes: &[u8], at: Seconds) -> (TegrastatsLine, LineRole) {
        self.process_line(bytes, Some(at))
    }

    fn process_line(&mut self, bytes: &[u8], received: Option<Seconds>) -> (TegrastatsLine, LineRole) {
        let line = TegrastatsLine::parse_bytes(bytes);
        self.lines += 1;
        for token in &line.unknown {
            if self.unknown.len() < MAX_UNKNOWN_TOKENS && !self.unknown.contains(token) {
                self.unknown.push(token.clone());
            }
        }
        let role = self.classify_line(&line.board);
        match role {
            LineRole::Foreign => {
                self.foreign += 1;
                return (line, role);
            }
            LineRole::Dropped => self.dropped += 1,
            LineRole::Sample | LineRole::Start => self.count_sample(&line, received),
        }
        self.before = Some(line.board.clone());
        (line, role)
    }

    /// Classifies the line; a start ends the current stretch of energy.
    fn classify_line(&mut self, board: &BoardSnapshot) -> LineRole {
        if board.is_empty() {
            return LineRole::Foreign;
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
            true => LineRole::Dropped,
            false if starts => LineRole::Start,
            false => LineRole::Sample,
        }
    }

    fn count_sample(&mut self, line: &TegrastatsLine, received: Option<Seconds>) {
        let board = &line.board;
        self.samples += 1;
        for rail in &board.rails {
            // Rail names come from the file, so their number is bounded.
            if self.rails.len() < MAX_UNKNOWN_TOKENS || self.rails.contains_key(&rail.name) {
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
        self.integrate_power(line.stamp, received, power);
    }

    /// Integrates a power sample at its time.
    fn integrate_power(&mut self, stamp: Option<DateTime>, received: Option<Seconds>, power: Option<Watts>) {
        if let (Some(at), Some(watts)) = (received, power) {
            self.receipt.get_or_insert_default().add_sample(at, watts);
        }
        // Stamps and assumed intervals are two clocks; do not integrate between them.
        if self.stamped.replace(stamp.is_some()).is_some_and(|before| before != stamp.is_some()) {
            self.flush_pending();
            self.power.interrupt();
        }
        if let Some(stamp) = stamp {
            self.clock = RecordingClock::Stamps;
            self.from = self.from.or(Some(stamp));
            if self.to != Some(stamp) {
                let gap = self.to.map(|before| civil_seconds(stamp) - civil_seconds(before));
                self.flush_pending();
                if gap.is_some_and(|gap| {
                    gap <= 0.0 || gap > MAX_GAP_SECONDS.max(self.interval.as_secs_f64() * 5.0)
                }) {
                    self.power.interrupt();
                }
                self.to = Some(stamp);
            }
            if self.pending.len() < MAX_LINES_PER_STAMP {
                self.pending.extend(power);
            }
        } else {
            let at = self.interval.as_secs_f64() * self.lines as f64;
            power.iter().for_each(|watts| {
                self.power.add_sample(Seconds(at), *watts);
            });
        }
    }

    /// Spreads lines that share a stamp evenly over its second.
    fn flush_pending(&mut self) {
        let Some(stamp) = self.to else { return };
        let count = self.pending.len() as f64;
        for (number, watts) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            self.power.add_sample(Seconds(civil_seconds(stamp) + number as f64 / count), watts);
        }
    }

    fn interrupt(&mut self) {
        self.flush_pending();
        self.power.interrupt();
        self.receipt.iter_mut().for_each(EnergyIntegrator::interrupt);
    }

    /// Returns the energy by the most accurate clock available.
    fn best_energy(&mut self) -> Option<IntegratedEnergy> {
        let by_file = self.power.energy();
        let (Some(by_file), Some(received)) =
            (by_file, self.receipt.as_ref().and_then(EnergyIntegrator::energy))
        else {
            return by_file;
        };
        let is_live = match self.clock {
            RecordingClock::Stamps => received.covered.get() >= by_file.covered.get() / 2.0,
            _ => received.interval_seconds.get() >= MIN_INTERVAL_SECONDS,
        };
        if !is_live {
            return Some(by_file);
        }
        self.clock = RecordingClock::Receipt;
        Some(received)
    }

    /// Summarises the recording.
    pub fn summarise(mut self) -> RecordingSummary {
        self.flush_pending();
        let energy = self.best_energy().map(|energy| IntegratedEnergy {
            clock_joules: match self.clock {
                RecordingClock::Receipt => Joules(0.0),
                // Each stretch may be up to a second longer or shorter than its stamps show.
                RecordingClock::Stamps => {
                    Joules((energy.mean_watts.get() * energy.stretches as f64).min(energy.joules.get().abs()))
                }
                RecordingClock::Interval => Joules(energy.joules.get().abs() * INTERVAL_ERROR_RATIO),
            },
            ..energy
        });
        let figures = |mean: &RunningMean| {
            Some(RailFigures { mean_watts: Watts(mean.mean()?), peak_watts: Watts(mean.peak?) })
        };
        RecordingSummary {
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
fn civil_seconds(stamp: DateTime) -> f64 {
    stamp.duration_since(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)).as_secs_f64()
}

/// Whether every rail's running mean equals its present value, as in the first line after a start.
fn means_are_fresh(board: &BoardSnapshot) -> bool {
    !board.rails.is_empty()
        && board.rails.iter().all(|rail| rail.mean_milliwatts() == Some(rail.milliwatts()))
}

/// Whether a line is the first after a restart of `tegrastats`.
///
/// A continued mean is `m + (x - m) / n`, cut to whole milliwatts. It can equal the present value
/// `x` only if `x` is the previous mean or 1 mW less; otherwise `n` is 1. This needs no line count
/// since the start, which a file that begins in the middle lacks. If power was constant, the
/// all-zero cores of a first line reveal the restart.
fn is_restart(before: &BoardSnapshot, now: &BoardSnapshot) -> bool {
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
