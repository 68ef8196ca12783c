//! Statistics of a batch, and the advice that follows.

use crate::common::walls;
use metier_stats::{SummaryField, batch_spread, value_spread};
use metier_types::{Bytes, Ratio, Run, RunWarning};

/// A batch in the order of its repetitions.
fn batch(values: &[f64]) -> Vec<Run> {
    let mut runs = walls(values);
    for (at, run) in runs.iter_mut().enumerate() {
        run.context.repetition = at as u32 + 1;
    }
    runs
}

fn warning(runs: &[Run], code: &str) -> Option<RunWarning> {
    batch_spread(runs).unwrap().warnings.into_iter().find(|warning| warning.code == code)
}

#[test]
fn figures_are_those_of_the_textbook() {
    let spread = value_spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
    assert_eq!((spread.n, spread.min, spread.median, spread.mean, spread.max), (8, 2.0, 4.5, 5.0, 9.0));
    assert!((spread.standard_deviation.unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    assert_eq!(spread.mad, 0.5);
    assert_eq!(value_spread(&[3.0]).unwrap().standard_deviation, None);
    assert_eq!(value_spread(&[]), None);
    assert_eq!(value_spread(&[1.0, f64::NAN]), None);
}

#[test]
fn a_stray_run_is_an_outlier_and_a_harmless_microsecond_is_not() {
    assert_eq!(value_spread(&[1.0, 1.01, 0.99, 1.02, 3.0, 1.0]).unwrap().outliers, [4]);
    assert!(value_spread(&[1.0, 1.0, 1.0, 1.0, 1.000_01, 1.0]).unwrap().outliers.is_empty());
    assert_eq!(value_spread(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0]).unwrap().outliers, [7]);
    assert!(
        value_spread(&[1.0, 9.0, 1.0]).unwrap().outliers.is_empty(),
        "three are too few to stand out from"
    );
}

#[test]
fn a_slow_first_run_is_told_with_advice_that_fits() {
    let mut runs = batch(&[2.0, 1.0, 1.01, 1.0, 0.99, 1.0, 1.02]);
    let text = warning(&runs, "slow-first-run").unwrap().text;
    assert!(text.contains("--warmup 1"), "{text}");
    assert!(warning(&runs, "outliers").is_none(), "one cause, one warning");
    for (at, run) in runs.iter_mut().enumerate() {
        run.summary.read_bytes = Some(Bytes(if at == 0 { 100 << 20 } else { 0 }));
    }
    let text = warning(&runs, "slow-first-run").unwrap().text;
    assert!(text.contains("read from storage"), "{text}");
    let mut warm = batch(&[2.0])[0].clone();
    warm.context.warmup = true;
    runs.push(warm);
    let text = warning(&runs, "slow-first-run").unwrap().text;
    assert!(text.contains("--warmup 3"), "{text}");
    assert!(warning(&batch(&[1.0, 1.0, 1.01, 1.0, 0.99]), "slow-first-run").is_none());
    assert!(warning(&batch(&[1.0, 2.0, 1.01, 1.0, 0.99]), "slow-first-run").is_none());
}

#[test]
fn outliers_are_told_with_their_cause_where_the_host_knows_it() {
    let mut runs = batch(&[1.0, 1.01, 0.99, 1.0, 1.9, 1.0, 1.02]);
    assert!(warning(&runs, "outliers").unwrap().text.contains("1 of 7"));
    for (at, run) in runs.iter_mut().enumerate() {
        run.host.steal_ratio = Some(Ratio(if at == 4 { 0.3 } else { 0.001 }));
    }
    let text = warning(&runs, "outliers").unwrap().text;
    assert!(text.contains("hypervisor") && text.contains("30"), "{text}");
}

#[test]
fn too_few_repeats_are_told_but_a_single_run_is_left_in_peace() {
    assert!(warning(&batch(&[1.0]), "too-few-repeats").is_none());
    assert!(warning(&batch(&[1.0, 1.0]), "too-few-repeats").unwrap().text.contains("--repeat 10"));
    assert!(warning(&batch(&[1.0, 1.01, 1.0, 0.99, 1.0]), "too-few-repeats").is_none());
    let wide = warning(&batch(&[1.0, 1.2, 0.8, 1.1, 0.9]), "too-few-repeats").unwrap();
    assert!(wide.text.contains("--repeat"), "{}", wide.text);
}

#[test]
fn only_runs_that_count_are_counted() {
    let mut runs = batch(&[5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0]);
    runs[0].context.warmup = true;
    runs[6].exit.as_mut().unwrap().code = Some(1);
    let spread = batch_spread(&runs).unwrap();
    assert_eq!((spread.runs.len(), spread.left_out), (5, 2));
    let wall = spread.fields.iter().find(|it| it.field == SummaryField::WallSeconds).unwrap();
    assert_eq!((wall.spread.n, wall.spread.max), (5, 1.0));
    assert!(spread.fields.iter().all(|it| it.field != SummaryField::EnergyJoules), "absent is not 0");
    assert!(batch_spread(&[]).unwrap().fields.is_empty());
}
