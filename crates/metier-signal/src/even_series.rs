//! Cleans timed values and puts them on an even grid.
//!
//! Values that are not numbers are dropped; times are sorted; the last of several values at one
//! time counts; a counter becomes a rate, with a fall taken as a restart from 0. The step of the
//! grid is the median distance of samples. Short gaps are bridged by a straight line. At a gap that
//! is longer than [`MAX_BRIDGED_STEPS`], the part after it counts, or the part before it where that
//! is longer. Each repair is counted.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Error;
use crate::median::median;

/// Most samples of a series.
pub const MAX_SAMPLES: usize = 2_000_000;
/// Longest gap that is bridged, in steps.
pub const MAX_BRIDGED_STEPS: f64 = 10.0;

/// How the values of a series add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueMeaning {
    /// A level at each time.
    #[default]
    Gauge,
    /// A total that only grows, except at restarts.
    Counter,
}

/// Values at even distances.
#[derive(Debug, Clone, PartialEq)]
pub struct EvenSeries {
    /// Time of the first value, in seconds.
    pub start: f64,
    /// Seconds between values.
    pub step: f64,
    pub values: Vec<f64>,
    pub repairs: SeriesRepairs,
}

/// What was mended before the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct SeriesRepairs {
    /// Values that are no finite numbers.
    pub not_finite: u64,
    /// Samples before an earlier one, sorted in.
    pub out_of_order: u64,
    /// Samples at the time of another one.
    pub repeated_times: u64,
    /// Falls of a counter, taken as restarts.
    pub counter_resets: u64,
    /// Grid points that were interpolated in gaps.
    pub bridged: u64,
    /// Samples left out because a long gap separates them from the others.
    pub cut_off: u64,
}

impl EvenSeries {
    /// Cleans samples and puts them on a grid.
    pub fn new(times: &[f64], values: &[f64], meaning: ValueMeaning) -> Result<Self, Error> {
        if times.len() != values.len() {
            return Err(Error::UnequalLengths { times: times.len(), values: values.len() });
        }
        if times.len() > MAX_SAMPLES {
            return Err(Error::TooManySamples { got: times.len(), most: MAX_SAMPLES });
        }
        let mut repairs = SeriesRepairs::default();
        let mut samples = ordered_samples(times, values, &mut repairs);
        if meaning == ValueMeaning::Counter {
            samples = counter_rates(&samples, &mut repairs);
        }
        let samples = longest_stretch(samples, &mut repairs);
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            return Err(Error::TooFewSamples { got: 0, want: 2 });
        };
        let (start, end) = (first.0, last.0);
        let step = median_distance(&samples).ok_or(Error::TooFewSamples { got: samples.len(), want: 2 })?;
        let count = (((end - start) / step).round() as usize).saturating_add(1);
        if count > MAX_SAMPLES {
            return Err(Error::TooManySamples { got: count, most: MAX_SAMPLES });
        }
        let values = interpolate(&samples, start, step, count, &mut repairs);
        Ok(Self { start, step, values, repairs })
    }

    /// The time of a value, in seconds.
    pub fn time_at(&self, sample: f64) -> f64 {
        self.start + self.step * sample
    }
}

/// Finite samples by time, one for each time.
fn ordered_samples(times: &[f64], values: &[f64], repairs: &mut SeriesRepairs) -> Vec<(f64, f64)> {
    let mut samples: Vec<(f64, f64)> = times
        .iter()
        .copied()
        .zip(values.iter().copied())
        .filter(|(t, v)| t.is_finite() && v.is_finite())
        .collect();
    repairs.not_finite = (times.len() - samples.len()) as u64;
    let mut latest = f64::NEG_INFINITY;
    for (time, _) in &samples {
        repairs.out_of_order += u64::from(*time < latest);
        latest = latest.max(*time);
    }
    // Stable: of several values at one time, the last one given stays last.
    samples.sort_by(|left, right| left.0.total_cmp(&right.0));
    let before = samples.len();
    samples.reverse();
    samples.dedup_by(|next, earlier| next.0 == earlier.0);
    samples.reverse();
    repairs.repeated_times = (before - samples.len()) as u64;
    samples
}

/// Rates of a counter, at the end of each interval.
fn counter_rates(samples: &[(f64, f64)], repairs: &mut SeriesRepairs) -> Vec<(f64, f64)> {
    samples
        .windows(2)
        .map(|pair| {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            let is_reset = after < before;
            repairs.counter_resets += u64::from(is_reset);
            let grown = if is_reset { after.max(0.0) } else { after - before };
            (to, grown / (to - from))
        })
        .collect()
}

fn median_distance(samples: &[(f64, f64)]) -> Option<f64> {
    let mut distances: Vec<f64> = samples.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    distances.sort_unstable_by(f64::total_cmp);
    median(&distances).filter(|step| *step > 0.0 && step.is_finite())
}

/// The longest stretch without a long gap; of equal ones the last.
fn longest_stretch(samples: Vec<(f64, f64)>, repairs: &mut SeriesRepairs) -> Vec<(f64, f64)> {
    let Some(step) = median_distance(&samples) else { return samples };
    let edges = (1..samples.len()).filter(|at| samples[*at].0 - samples[at - 1].0 > MAX_BRIDGED_STEPS * step);
    let edges: Vec<usize> = std::iter::once(0).chain(edges).chain([samples.len()]).collect();
    let longest = edges.windows(2).max_by_key(|pair| pair[1] - pair[0]).map(|pair| pair[0]..pair[1]);
    let stretch = longest.map(|range| samples[range].to_vec()).unwrap_or_default();
    repairs.cut_off = (samples.len() - stretch.len()) as u64;
    stretch
}

/// Values on the grid, by straight lines between samples.
fn interpolate(
    samples: &[(f64, f64)],
    start: f64,
    step: f64,
    count: usize,
    repairs: &mut SeriesRepairs,
) -> Vec<f64> {
    let mut after = 0;
    (0..count)
        .map(|at| {
            let time = start + step * at as f64;
            while after < samples.len() && samples[after].0 < time {
                after += 1;
            }
            let Some(right) = samples.get(after) else {
                return samples.last().map_or(0.0, |sample| sample.1);
            };
            let left = samples[after.saturating_sub(1)];
            let span = right.0 - left.0;
            repairs.bridged += u64::from(span > 1.5 * step && time > left.0 && time < right.0);
            if span > 0.0 { left.1 + (right.1 - left.1) * (time - left.0) / span } else { right.1 }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(times: &[f64], values: &[f64]) -> EvenSeries {
        EvenSeries::new(times, values, ValueMeaning::Gauge).unwrap()
    }

    #[test]
    fn values_on_a_grid_stay_as_they_are() {
        let series = even(&[10.0, 12.0, 14.0, 16.0], &[1.0, 5.0, 2.0, 7.0]);
        assert_eq!((series.start, series.step), (10.0, 2.0));
        assert_eq!(series.values, [1.0, 5.0, 2.0, 7.0]);
        assert_eq!(series.repairs, SeriesRepairs::default());
    }

    #[test]
    fn each_repair_is_counted() {
        let times = [0.0, 2.0, 1.0, 3.0, 3.0, 4.0, 7.0, 8.0, f64::NAN, 9.0];
        let values = [0.0, 2.0, 1.0, 9.0, 3.0, 4.0, 7.0, f64::INFINITY, 1.0, 9.0];
        let series = even(&times, &values);
        assert_eq!(series.values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let repairs = series.repairs;
        assert_eq!((repairs.not_finite, repairs.out_of_order, repairs.repeated_times), (2, 1, 1));
        assert_eq!(repairs.bridged, 3, "5 and 6 between 4 and 7, and 8 between 7 and 9");
    }

    #[test]
    fn a_counter_becomes_a_rate_and_restarts_from_zero() {
        let times = [0.0, 1.0, 2.0, 3.0, 4.0];
        let series =
            EvenSeries::new(&times, &[100.0, 110.0, 120.0, 10.0, 20.0], ValueMeaning::Counter).unwrap();
        assert_eq!(series.values, [10.0; 4]);
        assert_eq!(series.repairs.counter_resets, 1);
    }

    #[test]
    fn a_clock_jump_keeps_the_longer_part() {
        let times = [0.0, 1.0, 2.0, 1e9, 1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0];
        let series = even(&times, &[1.0, 1.0, 1.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!((series.values.as_slice(), series.repairs.cut_off), (&[5.0, 6.0, 7.0, 8.0][..], 3));
    }

    #[test]
    fn too_little_is_an_error_that_says_so() {
        for (times, values) in
            [(&[][..], &[][..]), (&[1.0][..], &[1.0][..]), (&[1.0, 1.0][..], &[1.0, 2.0][..])]
        {
            let error = EvenSeries::new(times, values, ValueMeaning::Gauge).unwrap_err().to_string();
            assert!(error.contains("usable samples; want at least 2"), "{error}");
        }
        assert!(EvenSeries::new(&[1.0], &[], ValueMeaning::Gauge).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_samples_give_a_bounded_series_or_an_error(
            samples in proptest::collection::vec((proptest::num::f64::ANY, proptest::num::f64::ANY), 0..60),
        ) {
            let (times, values): (Vec<f64>, Vec<f64>) = samples.into_iter().unzip();
            for meaning in [ValueMeaning::Gauge, ValueMeaning::Counter] {
                if let Ok(series) = EvenSeries::new(&times, &values, meaning) {
                    assert!(series.step > 0.0 && series.values.len() <= MAX_SAMPLES);
                }
            }
        }
    }
}
