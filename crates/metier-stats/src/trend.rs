//! The history of a workload on a device: values in time order, changes of level, and other
//! differences at each change.
//!
//! Warm-up, failed and unfinished runs are excluded and counted. Of a long history, the latest
//! [`MAX_VALUES`](crate::relative_change::MAX_VALUES) runs are used.

mod record;
mod suspects;
mod trend_metric;

use std::collections::BTreeMap;

use metier_types::{ExtraFields, Ratio, RecordSchema, Run, RunWarning};

pub use record::{ChangeSuspect, LevelChange, TrendPoint, TrendReport, TrendState, WorkloadTrend};
pub use trend_metric::{StageStatistic, TrendMetric};

use crate::bootstrap::{change_distribution, median, median_distribution, quantile_interval};
use crate::change::{ChangeMemo, ChangeOptions, ChangePoint, DetectedChanges, MAX_VALUES, MIN_VALUES};
use crate::comparison::{ExcludedRun, LevelSummary};
use crate::run_selection::{count_reasons, exclusion_reason};
use crate::{Error, bootstrap};

/// Nominal coverage of the intervals of levels and changes.
const INTERVAL_COVERAGE: f64 = 0.95;

/// The histories in these runs, one per workload and device, sorted by name.
pub fn find_trends(
    runs: &[Run],
    figure: &TrendMetric,
    options: &ChangeOptions,
    memo: &ChangeMemo,
) -> Result<TrendReport, Error> {
    let mut groups: BTreeMap<(&str, &str, &str, &[String]), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let (workload, device) = (&run.workload, &run.device);
        // The id of an unnamed workload contains the digest of its executable. Rebuilt programs
        // must stay in one history, so unnamed workloads are identified by their command line.
        let is_named = workload.id.as_str() == workload.name;
        let command: &[String] = if is_named { &[] } else { &run.context.command };
        let key = (workload.name.as_str(), device.name.as_str(), device.id.as_str(), command);
        groups.entry(key).or_default().push(run);
    }
    let trends: Result<Vec<WorkloadTrend>, Error> =
        groups.into_values().map(|group| build_trend(group, figure, options, memo)).collect();
    Ok(TrendReport {
        schema: RecordSchema::new(),
        metric: figure.to_string(),
        unit: figure.unit(),
        significance: options.significance,
        at_least: options.at_least,
        trends: trends?,
        extra: ExtraFields::new(),
    })
}

fn build_trend(
    mut runs: Vec<&Run>,
    figure: &TrendMetric,
    options: &ChangeOptions,
    memo: &ChangeMemo,
) -> Result<WorkloadTrend, Error> {
    runs.sort_by_key(|run| (run.started, run.id));
    runs.dedup_by_key(|run| run.id);
    let (mut with_value, mut left_out, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for run in &runs {
        match (exclusion_reason(run, false), figure.value_of(run)?) {
            (Some(because), _) => left_out.push(ExcludedRun { run: run.id, because }),
            (None, Some(value)) => with_value.push((*run, value)),
            (None, None) => without.push(*run),
        }
    }
    let older = with_value.len().saturating_sub(MAX_VALUES);
    with_value.drain(..older);
    let values: Vec<f64> = with_value.iter().map(|(_, value)| *value).collect();
    let found = memo.find_changes(&values, options)?;
    let changes = level_changes(&with_value, &values, &found.steps);
    let (workload, device) = match runs.first() {
        Some(run) => (run.workload.clone(), run.device.clone()),
        None => return Err(Error::NoRuns { side: "a" }),
    };
    let from = found.steps.last().map_or(0, |step| step.at);
    let mut trend = WorkloadTrend {
        workload,
        device,
        state: trend_state(values.len(), &found),
        points: with_value
            .iter()
            .map(|(run, value)| TrendPoint {
                run: run.id,
                batch: run.batch,
                started: run.started,
                value: *value,
            })
            .collect(),
        level: level_summary(&values[from..]),
        changes,
        drift: found.drift,
        left_out: left_out.len(),
        without_value: without.len(),
        older: older as u64,
        because: None,
        warnings: Vec::new(),
        extra: ExtraFields::new(),
    };
    trend.because = too_few_reason(&trend, &left_out, &without, figure);
    trend.warnings.extend(batch_boundary_warning(&trend));
    Ok(trend)
}

fn trend_state(n: usize, found: &DetectedChanges) -> TrendState {
    if n < MIN_VALUES {
        TrendState::TooFewRuns
    } else if found.drift.is_some() {
        TrendState::Drifts
    } else if found.steps.is_empty() {
        TrendState::NoChangeShown
    } else {
        TrendState::Changed
    }
}

/// Why there is no conclusion, if there is none.
fn too_few_reason(
    trend: &WorkloadTrend,
    left_out: &[ExcludedRun],
    without: &[&Run],
    figure: &TrendMetric,
) -> Option<String> {
    if trend.state != TrendState::TooFewRuns {
        return None;
    }
    let mut text =
        format!("{} runs with a value; a change can be detected from {MIN_VALUES} on", trend.points.len());
    if !left_out.is_empty() {
        text.push_str(&format!("; left out: {}", count_reasons(left_out)));
    }
    if let Some(run) = without.first() {
        let path = figure.record_path();
        let reason = path.and_then(|path| run.missing.get(&path)).map(|missing| format!(" ({missing})"));
        text.push_str(&format!("; {} without a value{}", without.len(), reason.unwrap_or_default()));
    }
    Some(text)
}

/// Repetitions of one batch share the state of the device, so a change between two batches may come
/// from that state.
fn batch_boundary_warning(trend: &WorkloadTrend) -> Option<RunWarning> {
    let edges: Vec<usize> = std::iter::once(0)
        .chain(trend.changes.iter().map(|change| change.at))
        .chain([trend.points.len()])
        .collect();
    let batches = |from: usize, to: usize| {
        let mut ids: Vec<_> = trend.points[from..to].iter().map(|point| point.batch).collect();
        ids.dedup();
        ids.len()
    };
    let alone = trend.changes.iter().enumerate().any(|(at, change)| {
        let after = batches(change.at, edges[at + 2]);
        after == 1 && edges[at + 2] - change.at > 1 && batches(edges[at], change.at) == 1
    });
    alone.then(|| {
        RunWarning::new(
            "one-batch-each",
            "a change lies between two batches: their repetitions share the state of the device, so measure another batch on each side to rule that out",
        )
    })
}

fn level_changes(with_value: &[(&Run, f64)], values: &[f64], steps: &[ChangePoint]) -> Vec<LevelChange> {
    let edges: Vec<usize> =
        std::iter::once(0).chain(steps.iter().map(|step| step.at)).chain([values.len()]).collect();
    let runs: Vec<&Run> = with_value.iter().map(|(run, _)| *run).collect();
    let describe = |(at, step): (usize, &ChangePoint)| {
        let (from, to) = (edges[at], edges[at + 2]);
        let (before, after) = (&values[from..step.at], &values[step.at..to]);
        let (sorted_before, sorted_after) = (sorted_copy(before), sorted_copy(after));
        let atoms =
            change_distribution(&median_distribution(&sorted_before), &median_distribution(&sorted_after));
        let ends = quantile_interval(&atoms, tail_probability(before.len().min(after.len())));
        let finite = |x: f64| x.is_finite().then_some(Ratio(x));
        let ratio =
            median(&sorted_before).zip(median(&sorted_after)).map(|(x, y)| bootstrap::relative_change(x, y));
        LevelChange {
            at: step.at,
            run: runs[step.at].id,
            started: runs[step.at].started,
            before: level_summary(before),
            after: level_summary(after),
            change_ratio: ratio.and_then(finite),
            low: ends.and_then(|ends| finite(ends.0)),
            high: ends.and_then(|ends| finite(ends.1)),
            coverage: Some(Ratio(INTERVAL_COVERAGE)),
            p_value: step.p_value,
            suspects: suspects::find_suspects(&runs[from..step.at], &runs[step.at..to]),
            extra: ExtraFields::new(),
        }
    };
    steps.iter().enumerate().map(describe).collect()
}

/// With fewer than 5 values the bootstrap's tails are too thin; the correction is the whole range,
/// as in `compare`.
fn tail_probability(n: usize) -> f64 {
    if n < 5 { 0.0 } else { (1.0 - INTERVAL_COVERAGE) / 2.0 }
}

fn sorted_copy(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn level_summary(values: &[f64]) -> LevelSummary {
    let sorted = sorted_copy(values);
    let mut atoms = median_distribution(&sorted);
    atoms.sort_unstable_by(|l, r| l.0.total_cmp(&r.0));
    let ends =
        if sorted.len() < 3 { None } else { quantile_interval(&atoms, tail_probability(sorted.len())) };
    LevelSummary {
        n: sorted.len(),
        median: median(&sorted),
        low: ends.map(|ends| ends.0),
        high: ends.map(|ends| ends.1),
        min: sorted.first().copied(),
        max: sorted.last().copied(),
    }
}
