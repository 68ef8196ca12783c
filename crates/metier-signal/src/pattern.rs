//! Names what a series does: idle, constant, cyclic, trend, level change, bursty or irregular.
//!
//! The kinds are tried in that order, each with its own test: a period by [`crate::period`], levels
//! by [`crate::change`] and a trend by Mann and Kendall's test (1945, 1975), the last two on
//! [block means](crate::block_means) of what the period leaves. A series can have several of them;
//! the kind is the one that explains most, and the others stand beside it.

use schemars::JsonSchema;
use serde::Serialize;

use metier_types::Ratio;

use crate::Error;
use crate::block_means::BlockMeans;
use crate::change::{ChangeOptions, MIN_VALUES, find_changes};
use crate::line::{FittedLine, without_trend};
use crate::median::median;
use crate::period::fold::FoldedCycle;
use crate::period::{DetectedPeriod, PeriodDetector};

/// A series whose middle 98 % differ by less than this share of its level is constant.
const CONSTANT_SPREAD: f64 = 0.01;
/// Bursts reach this many times further above the median than the lower half reaches below it.
const BURST_ASYMMETRY: f64 = 4.0;
/// Samples are unusual beyond this many scaled median deviations: 1 in 300,000 of normal noise.
const UNUSUAL_DEVIATIONS: f64 = 4.65;
/// A median absolute deviation of normal noise is this share of its standard deviation.
const MEDIAN_DEVIATION_SHARE: f64 = 0.6745;
/// A jump exceeds the median change by this factor; in normal noise one change in 10 million does.
const JUMP_RATIO: f64 = 8.0;
/// Changes of level explain at least this share of the variance.
const MIN_LEVEL_SHARE: f64 = 0.05;
/// Fewest samples for anything but idle and constant.
const MIN_SAMPLES: usize = 12;

/// What a series does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatternKind {
    /// All values are 0.
    Idle,
    /// The values hardly differ.
    Constant,
    /// A shape repeats.
    Cyclic,
    /// The values rise or fall steadily.
    Trend,
    /// The values jump to another level.
    LevelChange,
    /// Short peaks stand out of a low level.
    Bursty,
    /// None of these: noise, or a wandering level.
    Irregular,
}

/// Options of the analysis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PatternOptions {
    /// Share of noise series in which a period, a trend or a change may be found, each.
    pub false_alarms: f64,
}

impl Default for PatternOptions {
    fn default() -> Self {
        Self { false_alarms: 0.01 }
    }
}

/// A trend with its evidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyTrend {
    /// Change from one sample to the next.
    pub slope: f64,
    /// Probability of a trend this clear by chance.
    pub p_value: f64,
}

/// What was found in a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesPattern {
    pub kind: PatternKind,
    /// Strongest first.
    pub periods: Vec<DetectedPeriod>,
    pub trend: Option<SteadyTrend>,
    /// First samples of new levels.
    pub changes: Vec<usize>,
    /// Samples far from what the pattern says, at most [`MAX_UNUSUAL`].
    pub unusual: Vec<usize>,
    /// Share of the variance that the kind explains, from 0 to 1.
    pub strength: f64,
}

/// Most unusual samples that are named.
pub const MAX_UNUSUAL: usize = 100;

/// Analyses evenly spaced values.
pub fn analyse_series(
    detector: &mut PeriodDetector,
    values: &[f64],
    options: &PatternOptions,
) -> Result<SeriesPattern, Error> {
    if !(0.0001..=0.2).contains(&options.false_alarms) {
        let got = options.false_alarms.to_string();
        return Err(Error::WrongOption { option: "false alarms", got, want: "a share from 0.0001 to 0.2" });
    }
    if let Some(got) = values.iter().find(|value| !value.is_finite()) {
        return Err(Error::WrongOption { option: "values", got: got.to_string(), want: "finite numbers" });
    }
    let empty = SeriesPattern {
        kind: PatternKind::Irregular,
        periods: Vec::new(),
        trend: None,
        changes: Vec::new(),
        unusual: Vec::new(),
        strength: 0.0,
    };
    let spread = SpreadQuantiles::new(values);
    if values.iter().all(|value| *value == 0.0) {
        return Ok(SeriesPattern { kind: PatternKind::Idle, strength: 1.0, ..empty });
    }
    if spread.is_constant() {
        return Ok(SeriesPattern { kind: PatternKind::Constant, strength: 1.0, ..empty });
    }
    if values.len() < MIN_SAMPLES {
        return Ok(empty);
    }
    let periods = detector.detect(values, options.false_alarms);
    let flat = without_trend(values);
    let (seasonal, rest) = split_cycle(values, &flat, periods.first());
    let trend = find_trend(&rest, options);
    let (changes, levels) = find_levels(&rest, options)?;
    let total = variance(values);
    let line = FittedLine::new(&rest);
    let by_trend: Vec<f64> = (0..rest.len()).map(|at| line.at(at as f64)).collect();
    let share = |part: &[f64]| if total > 0.0 { (variance(part) / total).clamp(0.0, 1.0) } else { 0.0 };
    let candidates = [
        (PatternKind::Cyclic, if periods.is_empty() { 0.0 } else { share(&seasonal) }),
        (PatternKind::LevelChange, if changes.is_empty() { 0.0 } else { share(&levels) }),
        (PatternKind::Trend, if trend.is_some() { share(&by_trend) } else { 0.0 }),
    ];
    let best = candidates.into_iter().max_by(|left, right| left.1.total_cmp(&right.1));
    let (kind, strength) = match best {
        Some((kind, strength)) if strength > 0.0 => (kind, strength),
        _ if spread.is_bursty() => (PatternKind::Bursty, spread.burst_share(values)),
        _ => (PatternKind::Irregular, 0.0),
    };
    let noise: Vec<f64> = match kind {
        PatternKind::LevelChange => rest.iter().zip(&levels).map(|(x, level)| x - level).collect(),
        PatternKind::Trend => rest.iter().zip(&by_trend).map(|(x, line)| x - line).collect(),
        _ => rest.clone(),
    };
    // A rising line is cut into levels, too, and a cycle leaves some; levels count where they
    // explain.
    let changes =
        if kind == PatternKind::Trend || share(&levels) < MIN_LEVEL_SHARE { Vec::new() } else { changes };
    // Bursts are what a bursty series does, not exceptions.
    let unusual = if kind == PatternKind::Bursty { Vec::new() } else { unusual_samples(&noise) };
    Ok(SeriesPattern { kind, periods, trend, changes, unusual, strength })
}

/// The cycle of a period, and the values without it.
fn split_cycle(values: &[f64], flat: &[f64], period: Option<&DetectedPeriod>) -> (Vec<f64>, Vec<f64>) {
    let Some(period) = period else { return (Vec::new(), values.to_vec()) };
    let cycle = FoldedCycle::fine(flat, period.samples);
    let seasonal: Vec<f64> = (0..values.len()).map(|at| cycle.mean_at(at as f64)).collect();
    let rest = values.iter().zip(&seasonal).map(|(value, part)| value - part).collect();
    (seasonal, rest)
}

/// Mann and Kendall's test of a steady rise or fall, on block means.
fn find_trend(rest: &[f64], options: &PatternOptions) -> Option<SteadyTrend> {
    let blocks = BlockMeans::new(rest, &without_trend(rest)).means;
    let count = blocks.len() as f64;
    if blocks.len() < MIN_VALUES {
        return None;
    }
    let mut balance = 0.0;
    for (at, left) in blocks.iter().enumerate() {
        for right in &blocks[at + 1..] {
            balance += (right - left).partial_cmp(&0.0).map_or(0.0, |order| f64::from(order as i8));
        }
    }
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let z = (balance.abs() - 1.0).max(0.0) / deviation;
    let p_value = normal_two_sided(z);
    (p_value <= options.false_alarms).then(|| SteadyTrend { slope: FittedLine::new(rest).slope, p_value })
}

/// Twice the upper tail of the normal distribution (Abramowitz and Stegun 1964, 7.1.26; error below
/// 2e-7).
fn normal_two_sided(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (poly * (-x * x).exp()).clamp(0.0, 1.0)
}

/// Changes of level, and the level at each sample.
fn find_levels(rest: &[f64], options: &PatternOptions) -> Result<(Vec<usize>, Vec<f64>), Error> {
    // A step is no correlation: where one stands out, correlation is measured around a running
    // median. Elsewhere a wandering level counts as correlation.
    let smooth = running_median(rest);
    let around: Vec<f64> = rest.iter().zip(&smooth).map(|(value, level)| value - level).collect();
    let reference = if has_jump(&smooth) { around } else { without_trend(rest) };
    let blocks = BlockMeans::new(rest, &reference);
    let change_options = ChangeOptions {
        significance: Ratio(options.false_alarms.max(0.001)),
        at_least: Ratio(0.0),
        resamples: 199.max((5.0 / options.false_alarms.max(0.001)).ceil() as u32),
        seed: 1,
    };
    let found = find_changes(&blocks.means, &change_options)?;
    let changes: Vec<usize> = found.steps.iter().map(|step| step.at * blocks.length).collect();
    let edges: Vec<usize> = std::iter::once(0).chain(changes.iter().copied()).chain([rest.len()]).collect();
    let mut levels = Vec::with_capacity(rest.len());
    for part in edges.windows(2) {
        let some = &rest[part[0]..part[1]];
        let mean = some.iter().sum::<f64>() / some.len().max(1) as f64;
        levels.extend(std::iter::repeat_n(mean, some.len()));
    }
    Ok((changes, levels))
}

/// Medians over a window of a sixteenth of the series.
fn running_median(values: &[f64]) -> Vec<f64> {
    let reach = smoothing_reach(values.len());
    (0..values.len())
        .map(|at| sorted_median(&values[at.saturating_sub(reach)..(at + reach + 1).min(values.len())]))
        .collect()
}

fn smoothing_reach(samples: usize) -> usize {
    (samples / 32).max(2)
}

/// Whether one change within the window of a smoothed series exceeds the usual ones by far.
fn has_jump(smooth: &[f64]) -> bool {
    let length = 2 * smoothing_reach(smooth.len());
    let mut changes: Vec<f64> =
        smooth.windows(length + 1).map(|some| (some[length] - some[0]).abs()).collect();
    changes.sort_unstable_by(f64::total_cmp);
    changes.last().copied().unwrap_or_default() > JUMP_RATIO * median(&changes).unwrap_or_default()
}

fn sorted_median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median(&sorted).unwrap_or_default()
}

fn median_deviation(values: &[f64]) -> f64 {
    let middle = sorted_median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    sorted_median(&distances)
}

/// Samples beyond [`UNUSUAL_DEVIATIONS`] (Iglewicz and Hoaglin 1993 on the scale).
fn unusual_samples(noise: &[f64]) -> Vec<usize> {
    // The deviation is a floor: where most samples fit exactly, the others are not all unusual.
    let scale = (median_deviation(noise) / MEDIAN_DEVIATION_SHARE).max(variance(noise).sqrt());
    if scale <= 0.0 {
        return Vec::new();
    }
    let centre = sorted_median(noise);
    let far = |at: &usize| (noise[*at] - centre).abs() > UNUSUAL_DEVIATIONS * scale;
    (0..noise.len()).filter(far).take(MAX_UNUSUAL).collect()
}

fn variance(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count
}

/// Quantiles of a series.
struct SpreadQuantiles {
    low: f64,
    middle: f64,
    high: f64,
}

impl SpreadQuantiles {
    fn new(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            sorted
                .get(((sorted.len().max(1) - 1) as f64 * share).round() as usize)
                .copied()
                .unwrap_or_default()
        };
        Self { low: at(0.01), middle: at(0.5), high: at(0.99) }
    }

    fn is_constant(&self) -> bool {
        self.high - self.low <= CONSTANT_SPREAD * self.middle.abs()
    }

    fn is_bursty(&self) -> bool {
        self.high - self.middle > BURST_ASYMMETRY * (self.middle - self.low).max(1e-12 * self.high.abs())
    }

    /// Share of the variance in samples above the middle between median and peak.
    fn burst_share(&self, values: &[f64]) -> f64 {
        let limit = (self.middle + self.high) / 2.0;
        let square = |value: &f64| (value - self.middle).powi(2);
        let total: f64 = values.iter().map(square).sum();
        let peaks: f64 = values.iter().filter(|value| **value > limit).map(square).sum();
        if total > 0.0 { peaks / total } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use metier_types::random::SplitMix64;

    use super::*;

    fn kind_of(values: &[f64]) -> PatternKind {
        analyse_series(&mut PeriodDetector::new(), values, &PatternOptions::default()).unwrap().kind
    }

    fn noise(random: &mut SplitMix64) -> f64 {
        (0..12).map(|_| random.next_fraction()).sum::<f64>() - 6.0
    }

    fn noisy(seed: u64, shape: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut random = SplitMix64::new(seed);
        (0..240).map(|at| shape(at) + 3.0 * noise(&mut random)).collect()
    }

    #[test]
    fn each_kind_is_named() {
        assert_eq!(kind_of(&[0.0; 100]), PatternKind::Idle);
        assert_eq!(kind_of(&[7.5; 100]), PatternKind::Constant);
        assert_eq!(kind_of(&noisy(1, |at| 50.0 + 20.0 * (at as f64 / 4.0).sin())), PatternKind::Cyclic);
        assert_eq!(kind_of(&noisy(2, |at| at as f64)), PatternKind::Trend);
        assert_eq!(kind_of(&noisy(3, |at| if at < 100 { 20.0 } else { 80.0 })), PatternKind::LevelChange);
        assert_eq!(kind_of(&noisy(4, |_| 50.0)), PatternKind::Irregular);
        let bursts = [17, 18, 19, 77, 140, 141, 190, 191, 230];
        let bursty = noisy(5, |at| if bursts.contains(&at) { 90.0 } else { 10.0 });
        assert_eq!(kind_of(&bursty), PatternKind::Bursty);
    }

    #[test]
    fn a_cycle_on_a_trend_shows_both() {
        let values = noisy(6, |at| 0.4 * at as f64 + if at % 20 < 6 { 60.0 } else { 0.0 });
        let found = analyse_series(&mut PeriodDetector::new(), &values, &PatternOptions::default()).unwrap();
        assert!((found.periods[0].samples - 20.0).abs() < 0.2, "{found:?}");
        let slope = found.trend.unwrap().slope;
        assert!((slope - 0.4).abs() < 0.05, "{slope}");
    }

    #[test]
    fn a_clean_cycle_has_no_unusual_samples() {
        let values: Vec<f64> = (0..480).map(|at| if at % 40 < 26 { 60.0 } else { 8.0 }).collect();
        let found = analyse_series(&mut PeriodDetector::new(), &values, &PatternOptions::default()).unwrap();
        assert!((found.periods[0].samples - 40.0).abs() < 0.1, "{found:?}");
        assert_eq!(found.unusual, Vec::<usize>::new());
        let noisy = noisy(9, |at| 50.0 + 20.0 * (at as f64 / 9.0).sin());
        let found = analyse_series(&mut PeriodDetector::new(), &noisy, &PatternOptions::default()).unwrap();
        assert!(found.unusual.len() < 3, "{found:?}");
    }

    #[test]
    fn two_periods_are_both_found() {
        let values = noisy(7, |at| {
            let turn = at as f64 * std::f64::consts::TAU;
            40.0 + 20.0 * (turn / 40.0).sin() + 12.0 * (turn / 7.3).sin()
        });
        let found = analyse_series(&mut PeriodDetector::new(), &values, &PatternOptions::default()).unwrap();
        let periods: Vec<f64> = found.periods.iter().map(|period| period.samples).collect();
        assert!((periods[0] - 40.0).abs() < 1.0 && (periods[1] - 7.3).abs() < 0.1, "{periods:?}");
    }

    #[test]
    fn a_change_of_level_is_placed_and_an_odd_sample_is_named() {
        let mut values = noisy(8, |at| if at < 100 { 20.0 } else { 80.0 });
        values[30] = 70.0;
        let found = analyse_series(&mut PeriodDetector::new(), &values, &PatternOptions::default()).unwrap();
        assert!(found.changes.iter().any(|at| at.abs_diff(100) <= 8), "{found:?}");
        assert!(found.unusual.contains(&30), "{found:?}");
    }

    #[test]
    fn wandering_noise_has_neither_trend_nor_levels_nor_period() {
        let mut alarms = 0;
        for seed in 0..200 {
            let mut random = SplitMix64::new(1000 + seed);
            let mut level = 50.0;
            let walk: Vec<f64> = (0..240)
                .map(|_| {
                    level += noise(&mut random);
                    level
                })
                .collect();
            alarms += usize::from(!matches!(kind_of(&walk), PatternKind::Irregular | PatternKind::Bursty));
        }
        // Three tests at 1 % each: 6 of 200 are expected at most; 14 have a probability below 0.4
        // %.
        assert!(alarms < 14, "{alarms} of 200 random walks got a pattern");
    }

    #[test]
    fn bad_options_and_values_are_refused() {
        let detector = &mut PeriodDetector::new();
        let options = PatternOptions { false_alarms: 0.9 };
        let error = analyse_series(detector, &[1.0; 20], &options).unwrap_err().to_string();
        assert!(error.contains("false alarms is 0.9"), "{error}");
        let error = analyse_series(detector, &[1.0, f64::NAN], &PatternOptions::default()).unwrap_err();
        assert!(error.to_string().contains("finite"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_finite_values_give_an_answer(values in proptest::collection::vec(-1e12..1e12, 0..150)) {
            let found = analyse_series(&mut PeriodDetector::new(), &values, &PatternOptions::default());
            let found = found.unwrap();
            assert!((0.0..=1.0).contains(&found.strength), "{found:?}");
            assert!(found.periods.iter().all(|period| period.samples >= 2.0 && period.false_alarm_rate <= 0.01));
        }
    }
}
