//! Forecasts: order, equivariance, coverage, limits.

use metier_signal::Error;
use metier_signal::forecast::methods::{PointMethod, list_methods};
use metier_signal::forecast::{
    ForecastDistribution, ForecastOptions, SeriesForecast, SeriesTracker, forecast,
};
use metier_types::random::SplitMix64;
use proptest::prelude::*;

fn distributions(result: &SeriesForecast) -> impl Iterator<Item = &ForecastDistribution> {
    result.steps.iter().chain([&result.mean, &result.peak])
}

fn options(horizon: usize) -> ForecastOptions {
    ForecastOptions { horizon, ..ForecastOptions::default() }
}

/// A normal number, by Box and Muller.
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.next_fraction()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.next_fraction()).cos()
}

fn red_noise(random: &mut SplitMix64, samples: usize) -> Vec<f64> {
    let mut value = 0.0;
    (0..samples)
        .map(|_| {
            value = 0.6 * value + normal(random);
            value
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn quantiles_never_cross(
        values in prop::collection::vec(-1e6_f64..1e6, 2..200),
        horizon in 1_usize..40,
        period in prop::option::of(2.0_f64..50.0),
    ) {
        let result = forecast(&values, period, &options(horizon)).unwrap();
        prop_assert_eq!(result.steps.len(), horizon);
        for one in distributions(&result) {
            prop_assert!(one.quantiles.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", one);
            prop_assert!(one.mean.is_finite() && one.quantiles.iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn nonnegative_series_stay_nonnegative(values in prop::collection::vec(0.0_f64..9.0, 2..120)) {
        let result = forecast(&values, Some(12.0), &options(12)).unwrap();
        prop_assert!(distributions(&result).all(|one| one.mean >= 0.0 && one.quantiles[0] >= 0.0));
    }

    #[test]
    fn forecasts_follow_shift_and_scale(
        mut values in prop::collection::vec(-10.0_f64..10.0, 40..120),
        shift in -100.0_f64..-30.0,
        scale in 0.1_f64..1.0,
    ) {
        // One negative value turns the floor at 0 off in both series.
        values[0] = -1.0;
        let moved: Vec<f64> = values.iter().map(|value| scale * value + shift).collect();
        let plain = forecast(&values, Some(7.0), &options(9)).unwrap();
        let other = forecast(&moved, Some(7.0), &options(9)).unwrap();
        for (left, right) in distributions(&plain).zip(distributions(&other)) {
            for (before, after) in left.quantiles.iter().zip(&right.quantiles) {
                let expected = scale * before + shift;
                prop_assert!((expected - after).abs() < 1e-6 * (1.0 + expected.abs()), "{expected} {after}");
            }
        }
    }
}

#[test]
fn constant_series_have_a_band_without_width() {
    for value in [0.0, 0.1, -7.3, 1e9] {
        let result = forecast(&[value; 60], Some(12.0), &options(12)).unwrap();
        for one in distributions(&result) {
            assert!(one.quantiles.iter().all(|other| *other == value), "{value}: {one:?}");
        }
    }
}

#[test]
fn smoothing_equals_the_sum_by_hand() {
    // Level 0.5 after 4, 8, 2, 6: the gain starts at 1, 1/2, then stays: 4, 6, 4, 5.
    let gain_is_half =
        |method: &PointMethod| matches!(method, PointMethod::Level { gain, .. } if *gain == 0.5);
    let mut method = list_methods(None).into_iter().find(gain_is_half).unwrap();
    for (time, value) in [4.0, 8.0, 2.0, 6.0].into_iter().enumerate() {
        method.update(time, value);
    }
    let mut steps = [0.0; 3];
    method.predict(3, &[6.0], steps.iter_mut());
    assert_eq!(steps, [5.0; 3]);
}

#[test]
fn two_samples_give_a_wide_band() {
    let result = forecast(&[10.0, 12.0], None, &options(6)).unwrap();
    let last = &result.steps[5].quantiles;
    assert!(last[4] - last[0] > 2.0 * (12.0 - 10.0), "{last:?}");
    assert!(result.peak.quantiles[4] >= last[4]);
}

#[test]
fn unusable_input_names_the_value() {
    assert_eq!(forecast(&[1.0], None, &options(3)), Err(Error::TooFewSamples { got: 1, want: 2 }));
    let gap = forecast(&[1.0, 2.0, f64::NAN, 3.0], None, &options(3)).unwrap_err();
    assert!(gap.to_string().contains("NaN at sample 2"), "{gap}");
    assert!(forecast(&[1.0, f64::INFINITY], None, &options(3)).is_err());
    assert!(forecast(&[1.0, 2.0], None, &options(0)).is_err());
    assert!(forecast(&[1.0, 2.0], None, &options(1_000_000)).is_err());
    assert!(forecast(&[1.0, 2.0], Some(f64::NAN), &options(3)).is_err());
    let crossed = ForecastOptions { horizon: 3, quantiles: vec![0.9, 0.1] };
    assert!(forecast(&[1.0, 2.0], None, &crossed).is_err());
}

#[test]
fn a_tracker_equals_the_whole_series() {
    let values = red_noise(&mut SplitMix64::new(3), 150);
    let mut tracker = SeriesTracker::new(None, &options(8)).unwrap();
    values.iter().for_each(|value| tracker.push(*value).unwrap());
    assert_eq!(tracker.forecast(), forecast(&values, None, &options(8)));
}

/// Shares of simulated series that lie inside the 80 and 95 % bands at the last step, and whose peak
/// lies above its 97.5 % quantile.
fn coverage(
    seed: u64,
    make: impl Fn(&mut SplitMix64, usize) -> Vec<f64>,
    period: Option<f64>,
) -> Result<[f64; 3], Error> {
    const SERIES: usize = 400;
    let mut random = SplitMix64::new(seed);
    let mut counts = [0.0; 3];
    for _ in 0..SERIES {
        let values = make(&mut random, 312);
        let (past, future) = values.split_at(300);
        let result = forecast(past, period, &options(12))?;
        let (last, band) = (future[11], &result.steps[11].quantiles);
        let peak = future.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        counts[0] += f64::from(band[1] <= last && last <= band[3]);
        counts[1] += f64::from(band[0] <= last && last <= band[4]);
        counts[2] += f64::from(peak > result.peak.quantiles[4]);
    }
    Ok(counts.map(|count| count / SERIES as f64))
}

/// Four binomial standard errors of 400 series, and 2 points for what finite samples cost.
fn assert_near(share: f64, want: f64) {
    let tolerance = 4.0 * (want * (1.0 - want) / 400.0).sqrt() + 0.02;
    assert!((share - want).abs() < tolerance, "{share} instead of {want} ± {tolerance}");
}

#[test]
fn bands_cover_what_they_say_on_red_noise() {
    let [inside_80, inside_95, peak_above] = coverage(11, red_noise, None).unwrap();
    assert_near(inside_80, 0.8);
    assert_near(inside_95, 0.95);
    assert_near(peak_above, 0.025);
}

#[test]
fn bands_cover_what_they_say_on_seasonal_series() {
    let make = |random: &mut SplitMix64, samples: usize| -> Vec<f64> {
        let phase = |at: usize| (std::f64::consts::TAU * at as f64 / 24.0).sin();
        (0..samples).map(|at| 10.0 * phase(at) + normal(random)).collect()
    };
    let [inside_80, inside_95, peak_above] = coverage(12, make, Some(24.0)).unwrap();
    assert_near(inside_80, 0.8);
    assert_near(inside_95, 0.95);
    assert_near(peak_above, 0.025);
}

#[test]
fn a_horizon_longer_than_the_history_stays_near_the_values() {
    let values: Vec<f64> = (0..40).map(|at| if at % 10 < 5 { 10.0 } else { 2.0 }).collect();
    let options = ForecastOptions { horizon: 240, quantiles: vec![0.05, 0.5, 0.95] };
    let found = forecast(&values, Some(10.0), &options).unwrap();
    assert!((2.0..=10.0).contains(&found.mean.mean), "{:?}", found.mean);
    let reach = 8.0 * 240.0 / 40.0;
    assert!(found.steps.iter().all(|step| step.quantiles.iter().all(|q| *q <= 10.0 + reach)));
}
