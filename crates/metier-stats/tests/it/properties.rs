//! Properties of every comparison and every downsampled series.

use crate::common::{run, walls};
use metier_stats::{CompareOptions, ComparisonVerdict, RunComparison, SummaryField, compare, downsample};
use metier_types::{
    Bytes, ColumnKind, ColumnUnit, ColumnValues, Ratio, Run, RunId, Seconds, Series, SeriesColumn,
};
use proptest::prelude::*;

fn options() -> CompareOptions {
    CompareOptions { resamples: 200, ..CompareOptions::default() }
}

fn group() -> impl Strategy<Value = Vec<Run>> {
    // Few distinct memory sizes, so that ties and constant fields occur.
    prop::collection::vec((0.5f64..1.5, 0u64..3, 0u64..5), 1..12).prop_map(|values| {
        let with = |(wall, memory, read): (f64, u64, u64)| {
            let mut run = run();
            run.summary.wall_seconds = Some(Seconds(wall));
            run.summary.peak_memory_bytes = Some(Bytes(1000 + memory));
            run.summary.read_bytes = (read < 4).then_some(Bytes(read * 4096));
            run
        };
        values.into_iter().map(with).collect()
    })
}

fn close(x: Option<Ratio>, y: Option<Ratio>) -> bool {
    match (x, y) {
        (Some(x), Some(y)) => (x.get() - y.get()).abs() <= 1e-9 * (1.0 + x.get().abs()),
        (x, y) => x.is_none() && y.is_none(),
    }
}

fn same_findings(x: &RunComparison, y: &RunComparison) {
    for (one, other) in x.metrics.iter().zip(&y.metrics) {
        assert_eq!(one.verdict, other.verdict, "{one:?} {other:?}");
        for (p, q) in [
            (one.change_ratio, other.change_ratio),
            (one.low, other.low),
            (one.high, other.high),
            (one.p_value, other.p_value),
        ] {
            assert!(close(p, q), "{one:?} {other:?}");
        }
    }
}

/// 1/(1 + x) − 1: the change with the sides swapped.
fn mirrored(x: Option<Ratio>) -> Option<f64> {
    x.map(|x| 1.0 / (1.0 + x.get()) - 1.0).filter(|x| x.is_finite())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scaling_both_groups_changes_nothing(a in group(), b in group(), scale in 0.001f64..1000.0, times in 1u64..1000) {
        let scaled = |runs: &[Run]| -> Vec<Run> {
            runs.iter().cloned().map(|mut run| {
                run.summary.wall_seconds = run.summary.wall_seconds.map(|x| Seconds(x.get() * scale));
                run.summary.peak_memory_bytes = run.summary.peak_memory_bytes.map(|x| Bytes(x.get() * times));
                run.summary.read_bytes = run.summary.read_bytes.map(|x| Bytes(x.get() * times));
                run
            }).collect()
        };
        let before = compare(&a, &b, &options()).unwrap();
        same_findings(&before, &compare(&scaled(&a), &scaled(&b), &options()).unwrap());
    }

    #[test]
    fn swapping_the_groups_mirrors_everything(a in group(), b in group()) {
        let there = compare(&a, &b, &options()).unwrap();
        let back = compare(&b, &a, &options()).unwrap();
        for (x, y) in there.metrics.iter().zip(&back.metrics) {
            let want = match x.verdict {
                ComparisonVerdict::Increase => ComparisonVerdict::Decrease,
                ComparisonVerdict::Decrease => ComparisonVerdict::Increase,
                other => other,
            };
            prop_assert_eq!(y.verdict, want);
            prop_assert!(close(x.p_value, y.p_value), "{:?} {:?}", x, y);
            prop_assert_eq!(x.a, y.b);
            for (p, q) in [(x.change_ratio, y.change_ratio), (x.low, y.high), (x.high, y.low)] {
                if let (Some(p), Some(q)) = (mirrored(p), q) {
                    prop_assert!((p - q.get()).abs() < 1e-9, "{:?} {:?}", x, y);
                }
            }
        }
    }

    #[test]
    fn the_order_of_runs_is_irrelevant(a in group(), b in group(), turn in 0usize..12) {
        let before = compare(&a, &b, &options()).unwrap();
        let (mut a, mut b) = (a, b);
        a.reverse();
        let turn = turn % b.len();
        b.rotate_left(turn);
        prop_assert_eq!(before, compare(&a, &b, &options()).unwrap());
    }

    #[test]
    fn the_interval_holds_the_median_change_and_stays_inside_what_was_measured(a in group(), b in group()) {
        for metric in compare(&a, &b, &options()).unwrap().metrics {
            if let (Some(low), Some(change), Some(high)) = (metric.low, metric.change_ratio, metric.high) {
                prop_assert!(low <= change && change <= high, "{:?}", metric);
                if metric.field == SummaryField::WallSeconds {
                    let most = metric.b.max.unwrap() / metric.a.min.unwrap() - 1.0;
                    prop_assert!(high.get() <= most + 1e-12, "{:?}", metric);
                }
            }
        }
    }

    #[test]
    fn a_comparison_reads_back_what_it_writes(a in group(), b in group()) {
        let comparison = compare(&a, &b, &options()).unwrap();
        let json = serde_json::to_string(&comparison).unwrap();
        let again: RunComparison = serde_json::from_str(&json).unwrap();
        // Numbers may differ in the last bit: the JSON reader is not exact there.
        same_findings(&comparison, &again);
        prop_assert_eq!((&again.a, &again.b, &again.warnings), (&comparison.a, &comparison.b, &comparison.warnings));
    }

    #[test]
    fn a_thinned_series_keeps_extremes_and_invents_nothing(
        values in prop::collection::vec((0i64..50, -100i64..100, any::<bool>()), 0..400),
        points in 4usize..100,
        from in 0i64..2000,
        length in 0i64..10_000,
    ) {
        let series = series_of(&values);
        let to = from + length;
        let thin = downsample(&series, from, to, points).unwrap();
        prop_assert!(thin.times.len() <= points);
        prop_assert_eq!(thin.find_defect(), None);
        let rows = |series: &Series| -> Vec<(i64, i64, i64, bool)> {
            let (ColumnValues::Integer(c), ColumnValues::Integer(g)) = (&series.columns[0].values, &series.columns[1].values) else {
                panic!("columns are integers")
            };
            let absent = &series.columns[1].absent;
            (0..series.times.len()).map(|i| (series.times[i], c[i], g[i], absent.contains(&(i as u32)))).collect()
        };
        let inside: Vec<_> = rows(&series).into_iter().filter(|row| (from..=to).contains(&row.0)).collect();
        let kept = rows(&thin);
        // Each kept row is a row of the input, in order.
        let mut left = inside.iter();
        prop_assert!(kept.iter().all(|row| left.any(|other| other == row)));
        prop_assert_eq!(inside.first(), kept.first());
        prop_assert_eq!(inside.last(), kept.last());
        let gauge = |rows: &[(i64, i64, i64, bool)]| {
            let there: Vec<i64> = rows.iter().filter(|row| !row.3).map(|row| row.2).collect();
            (there.iter().min().copied(), there.iter().max().copied())
        };
        prop_assert_eq!(gauge(&inside), gauge(&kept));
    }
}

fn series_of(values: &[(i64, i64, bool)]) -> Series {
    let mut series = Series::new(RunId::new(), "use");
    let (mut time, mut count) = (0, 0);
    let (mut counter, mut gauge, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for (row, (step, level, there)) in values.iter().enumerate() {
        time += step;
        count += step * 3;
        series.times.push(time);
        counter.push(count);
        gauge.push(*level);
        if !there {
            absent.push(row as u32);
        }
    }
    let column = |name: &str, kind, values, absent| SeriesColumn {
        name: name.into(),
        kind,
        unit: ColumnUnit::Count,
        values: ColumnValues::Integer(values),
        absent,
    };
    series.columns = vec![
        column("c", ColumnKind::Counter, counter, Vec::new()),
        column("g", ColumnKind::Gauge, gauge, absent),
    ];
    series
}

#[test]
fn a_spike_of_one_sample_survives_a_thousandfold_thinning() {
    let mut values: Vec<(i64, i64, bool)> = (0..100_000).map(|i| (10, i % 7, true)).collect();
    values[71_234].1 = 5000;
    let thin = downsample(&series_of(&values), 0, i64::MAX, 100).unwrap();
    assert!(thin.times.len() <= 100 && thin.times.len() >= 50, "{}", thin.times.len());
    let ColumnValues::Integer(gauge) = &thin.columns[1].values else { panic!() };
    assert!(gauge.contains(&5000));
}

#[test]
fn what_cannot_be_thinned_is_refused_with_what_would_be_right() {
    let mut series = series_of(&[(1, 1, true), (1, 2, true), (1, 3, true), (1, 4, true), (1, 5, true)]);
    let error = downsample(&series, 0, 10, 3).unwrap_err().to_string();
    assert!(error.contains("at least 4"), "{error}");
    series.times.reverse();
    assert!(downsample(&series, 0, 10, 4).unwrap_err().to_string().contains("time goes back"));
    assert!(downsample(&series_of(&[]), 0, 10, 4).unwrap().times.is_empty());
    assert!(downsample(&series_of(&[(1, 1, true)]), 10, 0, 4).unwrap().times.is_empty());
}

#[test]
fn wall_times_alone_are_enough() {
    let result = compare(&walls(&[1.0]), &walls(&[2.0]), &options()).unwrap();
    assert_eq!(result.metric(SummaryField::WallSeconds).unwrap().change_ratio, Some(Ratio(1.0)));
}
