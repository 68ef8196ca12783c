//! Error rates of change detection, by simulation with fixed seeds, and difficult histories.

use crate::common::{Noise, Shape};
use metier_stats::ChangeOptions;
use metier_stats::change::{DetectedChanges, find_changes};
use metier_types::Ratio;

/// Fewer shuffles than by default: the level still holds, and the simulation is quick.
fn options() -> ChangeOptions {
    ChangeOptions { resamples: 199, at_least: Ratio(0.0), ..ChangeOptions::default() }
}

fn places(found: &DetectedChanges) -> Vec<usize> {
    found.steps.iter().map(|step| step.at).collect()
}

fn draw(shape: Shape, n: usize, noise: &mut Noise) -> Vec<f64> {
    (0..n).map(|_| shape.draw(noise)).collect()
}

#[test]
fn a_history_without_a_change_is_alarmed_at_most_one_time_in_twenty() {
    for shape in Shape::ALL {
        for (n, trials) in [(8, 1000), (12, 1000), (30, 1000)] {
            let mut noise = Noise::new(n as u64);
            let alarms = (0..trials)
                .filter(|_| {
                    let found = find_changes(&draw(shape, n, &mut noise), &options()).unwrap();
                    !found.steps.is_empty() || found.drift.is_some()
                })
                .count();
            let rate = alarms as f64 / f64::from(trials);
            eprintln!("false alarms, {shape:?}, n = {n}: {:.1} %", rate * 100.0);
            // Nominal 5 %; the standard error of the simulated rate is 0.7 points.
            assert!(rate <= 0.065, "{shape:?}, n = {n}: {rate}");
        }
    }
}

#[test]
fn values_with_many_ties_raise_no_more_false_alarms() {
    let mut noise = Noise::new(3);
    let trials = 400;
    let alarms = (0..trials)
        .filter(|_| {
            let values: Vec<f64> = (0..16).map(|_| 100.0 + (noise.even() * 3.0).floor()).collect();
            !find_changes(&values, &options()).unwrap().steps.is_empty()
        })
        .count();
    let rate = alarms as f64 / f64::from(trials);
    eprintln!("false alarms among three values, n = 16: {:.1} %", rate * 100.0);
    assert!(rate <= 0.075, "{rate}");
}

#[test]
fn five_per_cent_in_two_per_cent_of_noise_is_found_at_its_place() {
    for (n, at, want) in [(10, 5, 0.5), (20, 10, 0.95), (40, 32, 0.95)] {
        let mut noise = Noise::new(17);
        let trials = 200;
        let (mut found, mut near) = (0, 0);
        for _ in 0..trials {
            let values: Vec<f64> =
                (0..n).map(|i| Shape::Normal.draw(&mut noise) * if i < at { 1.0 } else { 1.05 }).collect();
            let places = places(&find_changes(&values, &options()).unwrap());
            found += usize::from(!places.is_empty());
            near += usize::from(places.iter().any(|place| place.abs_diff(at) <= 1));
        }
        let (rate, placed) =
            (f64::from(found as u32) / f64::from(trials), f64::from(near as u32) / f64::from(trials));
        eprintln!(
            "5 % after {at} of {n}: found {:.1} %, at most one run off {:.1} %",
            rate * 100.0,
            placed * 100.0
        );
        assert!(rate >= want, "{n}: {rate}");
        assert!(placed >= want - 0.15, "{n}: {placed}");
    }
}

#[test]
fn a_dip_that_recovers_and_a_small_change_beside_a_large_one_are_found() {
    let mut noise = Noise::new(23);
    let mut history = |levels: &[(usize, f64)]| -> Vec<f64> {
        levels
            .iter()
            .flat_map(|(n, level)| {
                (0..*n).map(|_| level * (1.0 + 0.005 * noise.normal())).collect::<Vec<_>>()
            })
            .collect()
    };
    let dip = history(&[(12, 1.0), (6, 1.2), (12, 1.0)]);
    assert_eq!(places(&find_changes(&dip, &options()).unwrap()), [12, 18]);
    let beside = history(&[(15, 1.0), (15, 1.03), (15, 5.0)]);
    assert_eq!(places(&find_changes(&beside, &options()).unwrap()), [15, 30]);
    let many =
        history(&[(10, 1.0), (10, 1.2), (10, 0.9), (10, 1.5), (10, 1.0), (10, 1.3), (10, 1.1), (10, 2.0)]);
    assert_eq!(places(&find_changes(&many, &options()).unwrap()), [10, 20, 30, 40, 50, 60, 70]);
}

#[test]
fn stray_runs_are_no_change_and_do_not_hide_one() {
    let mut noise = Noise::new(29);
    let mut values: Vec<f64> = (0..24).map(|_| 1.0 + 0.01 * noise.normal()).collect();
    values[5] = 40.0;
    values[17] = 0.01;
    values[18] = 90.0;
    assert_eq!(places(&find_changes(&values, &options()).unwrap()), [] as [usize; 0]);
    values[12..].iter_mut().for_each(|x| *x *= 1.1);
    assert_eq!(places(&find_changes(&values, &options()).unwrap()), [12]);
}

#[test]
fn a_steady_drift_is_told_as_one_and_a_step_is_not() {
    let mut noise = Noise::new(31);
    let drifting: Vec<f64> =
        (0..30).map(|i| (1.0 + 0.01 * f64::from(i)) * (1.0 + 0.005 * noise.normal())).collect();
    let found = find_changes(&drifting, &options()).unwrap();
    let drift = found.drift.expect("a drift");
    assert!(found.steps.is_empty());
    assert!((0.2..0.35).contains(&drift.change_ratio.get()), "{drift:?}");
    let stepping: Vec<f64> =
        (0..30).map(|i| if i < 15 { 1.0 } else { 1.3 } * (1.0 + 0.005 * noise.normal())).collect();
    let found = find_changes(&stepping, &options()).unwrap();
    assert!(found.drift.is_none());
    assert_eq!(places(&found), [15]);
}

#[test]
fn eight_runs_suffice_for_a_clear_change_in_the_middle_and_fewer_never_do() {
    let clear = [1.0, 1.01, 1.02, 1.005, 1.3, 1.31, 1.32, 1.305];
    let found = find_changes(&clear, &ChangeOptions::default()).unwrap();
    assert_eq!(places(&found), [4]);
    assert!(found.steps[0].p_value.get() <= 0.05);
    assert!(find_changes(&clear[..7], &ChangeOptions::default()).unwrap().steps.is_empty());
    assert!(find_changes(&[], &ChangeOptions::default()).unwrap().steps.is_empty());
}

#[test]
fn an_equal_history_has_no_change_and_one_too_small_to_matter_is_not_told() {
    assert_eq!(find_changes(&[5.0; 40], &ChangeOptions::default()).unwrap(), DetectedChanges::default());
    let tiny: Vec<f64> = (0..40).map(|i| if i < 20 { 1e9 } else { 1e9 + 4096.0 }).collect();
    assert_eq!(find_changes(&tiny, &ChangeOptions::default()).unwrap(), DetectedChanges::default());
    assert_eq!(places(&find_changes(&tiny, &options()).unwrap()), [20]);
}

#[test]
fn the_scale_does_not_matter_and_nor_does_a_change_from_nothing() {
    let mut noise = Noise::new(37);
    let values: Vec<f64> = (0..24)
        .map(|i| (if i < 10 { 1.0 } else { 1.1 }) * Shape::LogNormal.draw(&mut noise).powf(0.1))
        .collect();
    let scaled: Vec<f64> = values.iter().map(|x| (x * 1e9).powi(2)).collect();
    let of = |values: &[f64]| places(&find_changes(values, &options()).unwrap());
    assert_eq!(of(&values), of(&scaled));
    let from_nothing: Vec<f64> = (0..20).map(|i| if i < 10 { 0.0 } else { 7.0 }).collect();
    assert_eq!(of(&from_nothing), [10]);
}

#[test]
fn wrong_values_and_options_are_refused_with_what_would_be_right() {
    let refused =
        |values: &[f64], options: &ChangeOptions| find_changes(values, options).unwrap_err().to_string();
    assert!(refused(&[1.0, f64::NAN], &options()).contains("finite"));
    assert!(refused(&[1.0; 1001], &options()).contains("at most 1000"));
    let wrong = ChangeOptions { significance: Ratio(0.0), ..options() };
    assert!(refused(&[], &wrong).contains("0.001 to 0.5"));
    let wrong = ChangeOptions { at_least: Ratio(-1.0), ..options() };
    assert!(refused(&[], &wrong).contains("0 to 10"));
}
