//! Finds the period of an evenly spaced series, with a stated rate of false alarms.
//!
//! 1. [`candidates`] proposes periods.
//! 2. Each is tested in two ways: its harmonics against their surroundings ([`comb_test`]) and its
//!    cycles against each other ([`cycle_test`]). The lower of the two is its score.
//! 3. The best score is compared with those of noise ([`null_scores`]): white, red, random walks,
//!    ramps, steps and bursts, of the same length. The stated rate holds on the worst of them.
//! 4. Of several periods that explain the series nearly as well, the shortest is taken, since every
//!    multiple of a period is one too ([`fold`]).
//! 5. What the period explains is removed, and the rest is searched again for further periods.
//!
//! Limits: at least 3 cycles; periods from 2 samples. Above [`MAX_SAMPLES`] samples are averaged,
//! which loses periods of a few samples.

pub mod candidates;
pub mod comb_test;
pub mod cycle_test;
pub mod fold;
pub mod null_scores;
pub mod spectrum;

use realfft::RealFftPlanner;

use crate::line::without_trend;
use candidates::{propose_periods, refine_period};
use comb_test::{MIN_CYCLES, score_comb, whole_cycles};
use cycle_test::score_cycles;
use fold::FoldedCycle;
use spectrum::FineSpectrum;

/// Fewest samples for a period.
pub const MIN_SAMPLES: usize = 12;
/// Most samples that are tested; longer series are averaged.
pub const MAX_SAMPLES: usize = 2048;
/// Most periods of one series.
const MAX_PERIODS: usize = 3;
/// Weight of the cycle test, which has less evidence than the comb test for the same series.
const CYCLE_WEIGHT: f64 = 2.0;
/// A shorter period must have this share of the best score, or [`CERTAIN_SCORE`].
const SCORE_SHARE: f64 = 0.4;
const CERTAIN_SCORE: f64 = 12.0;
/// A shorter period must explain this share of what the best explains.
const EXPLAINED_SHARE: f64 = 0.48;
/// Shares of explained variance that differ by less are equal.
const EQUAL_SHARE: f64 = 0.002;
/// Largest divisor of a period that is tried.
const MAX_DIVISOR: usize = 6;
/// Below this, periods at fractions of a sample cannot be told from their multiples.
const FRACTION_LIMIT: f64 = 4.0;

/// A period with its evidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectedPeriod {
    /// Length of a cycle in samples; may be a fraction.
    pub samples: f64,
    /// Share of the variance around the trend that the mean cycle explains, from 0 to 1.
    pub strength: f64,
    /// Share of noise series of this length that reach this score; an upper bound.
    pub false_alarm_rate: f64,
}

/// A period that was tested.
#[derive(Debug, Clone, Copy)]
struct TestedPeriod {
    samples: f64,
    score: f64,
    explained: f64,
}

/// Finds periods; holds what the transforms of one length share.
pub struct PeriodDetector {
    planner: RealFftPlanner<f64>,
}

impl Default for PeriodDetector {
    fn default() -> Self {
        Self::new()
    }
}

impl PeriodDetector {
    pub fn new() -> Self {
        Self { planner: RealFftPlanner::new() }
    }

    /// Finds the periods of a series, strongest first; none at all with the given rate in noise.
    pub fn detect(&mut self, values: &[f64], false_alarms: f64) -> Vec<DetectedPeriod> {
        let block = values.len().div_ceil(MAX_SAMPLES).max(1);
        let averaged: Vec<f64> =
            values.chunks_exact(block).map(|some| some.iter().sum::<f64>() / block as f64).collect();
        let mut rest = without_trend(&averaged);
        let total: f64 = rest.iter().map(|value| value * value).sum();
        let mut periods: Vec<DetectedPeriod> = Vec::new();
        while periods.len() < MAX_PERIODS {
            let Some(found) = self.best_period(&rest) else { break };
            let rate = null_scores::false_alarm_rate(found.score, rest.len());
            let samples = found.samples * block as f64;
            // What remains of a period that jitters is no second period.
            let is_known = periods.iter().any(|known| {
                let turns = (known.samples / samples).max(samples / known.samples);
                (turns - turns.round()).abs() < 0.1
            });
            if rate > false_alarms || is_known {
                break;
            }
            let cycle = FoldedCycle::fine(&rest, found.samples);
            let before: f64 = rest.iter().map(|value| value * value).sum();
            let strength = (found.explained * before / total).clamp(0.0, 1.0);
            periods.push(DetectedPeriod { samples, strength, false_alarm_rate: rate });
            rest.iter_mut().enumerate().for_each(|(at, value)| *value -= cycle.mean_at(at as f64));
        }
        periods
    }

    /// The score of the best period, for the calibration; 0 where nothing varies.
    pub fn score(&mut self, values: &[f64]) -> f64 {
        self.best_period(&without_trend(values)).map_or(0.0, |found| found.score)
    }

    fn best_period(&mut self, flat: &[f64]) -> Option<TestedPeriod> {
        if flat.len() < MIN_SAMPLES || !varies(flat) {
            return None;
        }
        let spectrum = FineSpectrum::new(&mut self.planner, flat);
        let tested: Vec<TestedPeriod> = propose_periods(flat, &spectrum)
            .into_iter()
            .map(|proposed| {
                let refined = test_period(flat, refine_period(&spectrum, proposed));
                let is_moved = (1.0 / proposed - 1.0 / refined.samples).abs() * flat.len() as f64 > 0.08;
                let plain = is_moved.then(|| test_period(flat, proposed));
                plain.filter(|plain| plain.score > refined.score).unwrap_or(refined)
            })
            .collect();
        let top = *tested.iter().max_by(|left, right| left.score.total_cmp(&right.score))?;
        let shortest = shortest_equal(flat, &tested, top);
        let samples = sharpen_period(flat, refine_period(&spectrum, shortest.samples));
        let explained = shortest.explained.max(FoldedCycle::fine(flat, samples).explained_share(flat));
        Some(TestedPeriod { samples, score: top.score, explained })
    }
}

/// Moves a period to where its mean cycle explains most: an error of a hundredth of a cycle in each
/// cycle blurs the edges of a long series.
fn sharpen_period(flat: &[f64], period: f64) -> f64 {
    let explained = |frequency: f64| FoldedCycle::fine(flat, 1.0 / frequency).explained_share(flat);
    let mut best = (explained(1.0 / period), 1.0 / period);
    // Steps in independent frequencies.
    for step in [0.03, 0.005, 0.001] {
        let centre = best.1;
        for distance in -6..=6 {
            let frequency = centre + f64::from(distance) * step / flat.len() as f64;
            let share = explained(frequency);
            if share > best.0 {
                best = (share, frequency);
            }
        }
    }
    // Many periods explain a clean series equally well; a whole number of samples is likelier.
    let whole = (1.0 / best.1).round().max(2.0);
    if explained(1.0 / whole) >= best.0 - EQUAL_SHARE { whole } else { 1.0 / best.1 }
}

/// Whether a series without trend differs from rounding errors.
fn varies(flat: &[f64]) -> bool {
    let (low, high) =
        flat.iter().fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    high - low > f64::MIN_POSITIVE.sqrt()
}

fn test_period(flat: &[f64], samples: f64) -> TestedPeriod {
    let comb = score_comb(flat, samples);
    let cycles = whole_cycles(flat.len(), samples);
    let same = if comb > 0.0 && cycles >= MIN_CYCLES { score_cycles(flat, samples, cycles) } else { 0.0 };
    let explained = FoldedCycle::coarse(flat, samples).explained_share(flat);
    TestedPeriod { samples, score: comb.min(CYCLE_WEIGHT * same), explained }
}

/// The shortest period that explains the series nearly as well as the best.
fn shortest_equal(flat: &[f64], tested: &[TestedPeriod], top: TestedPeriod) -> TestedPeriod {
    let base = tested
        .iter()
        .filter(|one| one.score > 0.7 * top.score && one.explained > 1.15 * top.explained + 0.02)
        .max_by(|left, right| left.explained.total_cmp(&right.explained))
        .copied()
        .unwrap_or(top);
    let is_equal = |one: &TestedPeriod| {
        let is_sound =
            one.samples >= FRACTION_LIMIT || (one.samples - one.samples.round()).abs() < 0.02 * one.samples;
        is_sound
            && one.score >= (SCORE_SHARE * base.score).min(CERTAIN_SCORE)
            && one.explained >= EXPLAINED_SHARE * base.explained
    };
    let shorter = |left: &TestedPeriod, right: &TestedPeriod| left.samples.total_cmp(&right.samples);
    let first = tested.iter().filter(|one| is_equal(one)).copied().min_by(shorter);
    let first = first.filter(|one| one.samples < base.samples).unwrap_or(base);
    (2..=MAX_DIVISOR)
        .map(|divisor| first.samples / divisor as f64)
        .filter(|period| *period >= 2.0)
        .filter(|period| tested.iter().all(|one| (one.samples / period - 1.0).abs() >= 0.004))
        .map(|period| test_period(flat, period))
        .filter(is_equal)
        .min_by(shorter)
        .unwrap_or(first)
}
