//! Histories of workloads on devices: grouping, excluded runs, circumstances of a change.

use crate::common::{run, timed};
use metier_stats::trend::{TrendReport, TrendState};
use metier_stats::{ChangeMemo, ChangeOptions, TrendMetric, find_trends};
use metier_types::{AppStage, BatchId, ContentDigest, ExitCause, Run, UtcTimestamp};
use serde_json::json;

/// Ten runs of 1 s and ten of 1.2 s, an hour apart, each a batch; the executable changed with the
/// level.
fn history() -> Vec<Run> {
    (0..20u32)
        .map(|at| {
            let mut run = timed(if at < 10 { 1.0 } else { 1.2 } + 0.001 * f64::from(at % 4));
            run.started = UtcTimestamp::from_second(1_700_000_000 + i64::from(at) * 3600).unwrap();
            run.batch = BatchId::new();
            let digest = if at < 10 { "a" } else { "b" }.repeat(64);
            run.context.executable_digest =
                Some(format!("sha256:{digest}").parse::<ContentDigest>().unwrap());
            run.context.environment_digest = Some(
                format!("sha256:{}", (at / 10 + u32::from(at == 3)).to_string().repeat(64))
                    .parse::<ContentDigest>()
                    .unwrap(),
            );
            run
        })
        .collect()
}

fn wall(runs: &[Run]) -> TrendReport {
    find_trends(runs, &"wall".parse().unwrap(), &ChangeOptions::default(), &ChangeMemo::default()).unwrap()
}

#[test]
fn a_boards_power_mode_that_was_set_is_a_suspect() {
    let mut runs = history();
    let modes = ["0 MAXN", "2 MODE_15W_6CORE"];
    runs.iter_mut().enumerate().for_each(|(at, run)| run.context.power_mode = Some(modes[at / 10].into()));
    runs.reverse();
    let trends = wall(&runs);
    let suspects = &trends.trends[0].changes[0].suspects;
    let mode = suspects.iter().find(|it| it.code == "power-mode-differs").unwrap();
    assert_eq!((mode.before.as_str(), mode.after.as_str(), mode.is_clean), (modes[0], modes[1], true));
}

#[test]
fn a_change_names_its_first_run_its_size_and_what_changed_with_it() {
    let mut runs = history();
    runs.reverse();
    let trends = wall(&runs);
    let trend = &trends.trends[0];
    assert_eq!((trend.state, trend.changes.len(), trend.points.len()), (TrendState::Changed, 1, 20));
    let change = &trend.changes[0];
    assert_eq!((change.at, change.run), (10, runs[9].id));
    let ratio = change.change_ratio.unwrap().get();
    assert!((ratio - 0.2).abs() < 0.01);
    assert!(change.low.unwrap().get() <= ratio && ratio <= change.high.unwrap().get());
    assert!(change.p_value.get() <= 0.05);
    assert_eq!((change.before.n, change.after.n), (10, 10));
    let suspects: Vec<(&str, bool)> =
        change.suspects.iter().map(|it| (it.code.as_str(), it.is_clean)).collect();
    assert_eq!(suspects, [("executable-differs", true), ("environment-differs", false)]);
    assert_eq!(trend.level.n, 10);
    assert_eq!(trend.find_regressions(10, true).0.len(), 1);
    assert_eq!(trend.find_regressions(9, true).0.len(), 0);
    assert_eq!(trend.find_regressions(10, false).0.len(), 0);
}

#[test]
fn a_rebuilt_program_stays_in_its_history_and_other_arguments_make_another() {
    let mut runs = history();
    for (at, run) in runs.iter_mut().enumerate() {
        run.workload.id = if at < 10 { "sha256-a" } else { "sha256-b" }.parse().unwrap();
    }
    assert_eq!(wall(&runs).trends.len(), 1);
    runs[19].context.command.push("--other".into());
    assert_eq!(wall(&runs).trends.len(), 2);
    // A named workload is identified by its name, whatever its arguments.
    runs.iter_mut().for_each(|run| run.workload.id = "sort".parse().unwrap());
    assert_eq!(wall(&runs).trends.len(), 1);
    runs[0].device.id = "d-2".parse().unwrap();
    assert_eq!(wall(&runs).trends.len(), 2);
}

#[test]
fn runs_that_do_not_count_are_counted_and_too_few_are_told_with_the_reason() {
    let mut runs = history();
    runs[0].context.warmup = true;
    runs[1].exit.as_mut().unwrap().code = Some(1);
    runs[2].exit.as_mut().unwrap().cause = ExitCause::Timeout;
    runs[3].summary.wall_seconds = None;
    let trend = &wall(&runs).trends[0];
    assert_eq!((trend.points.len(), trend.left_out, trend.without_value), (16, 3, 1));
    let trend = &wall(&runs[..9]).trends[0];
    assert_eq!(trend.state, TrendState::TooFewRuns);
    let because = trend.because.as_deref().unwrap();
    assert!(because.contains("5 runs") && because.contains("1 failed, 1 timeout, 1 warm-up"), "{because}");
}

#[test]
fn a_stage_of_the_application_has_a_history_too() {
    let mut runs = history();
    for (at, run) in runs.iter_mut().enumerate() {
        let p95 = if at < 10 { 0.02 } else { 0.05 } + 1e-5 * (at % 3) as f64;
        let stage = json!({ "name": "infer", "kind": "duration", "source": "lines", "count": 9, "rate_per_second": 3.0,
            "sum": null, "mean": null, "min": null, "p50": null, "p95": p95, "p99": null, "max": null,
            "cpu_seconds_per_item": null, "joules_per_item": null });
        run.stages.push(serde_json::from_value::<AppStage>(stage).unwrap());
    }
    let figure: TrendMetric = "stage:infer:p95".parse().unwrap();
    let found = find_trends(&runs, &figure, &ChangeOptions::default(), &ChangeMemo::default()).unwrap();
    assert_eq!((found.metric.as_str(), found.trends[0].changes[0].at), ("stage:infer:p95", 10));
    let figure: TrendMetric = "stage:absent:p95".parse().unwrap();
    let found = find_trends(&runs, &figure, &ChangeOptions::default(), &ChangeMemo::default()).unwrap();
    assert_eq!((found.trends[0].state, found.trends[0].without_value), (TrendState::TooFewRuns, 20));
}

#[test]
fn two_batches_alone_carry_a_warning_and_the_record_reads_back() {
    let mut runs = history();
    let batches = [BatchId::new(), BatchId::new()];
    for (at, run) in runs.iter_mut().enumerate() {
        run.batch = batches[at / 10];
    }
    let trends = wall(&runs);
    assert_eq!(trends.trends[0].warnings[0].code, "one-batch-each");
    assert!(wall(&history()).trends[0].warnings.is_empty());
    let json = serde_json::to_value(&trends).unwrap();
    assert_eq!(json["schema"], "metier.trend/1");
    assert_eq!(serde_json::from_value::<TrendReport>(json).unwrap(), trends);
    assert!(wall(&[run()]).trends[0].because.is_some());
}
