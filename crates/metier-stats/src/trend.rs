//! The history of a workload on a device: values in time order, changes of level, and other
//! differences at each change.
//!
//! Warm-up, failed and unfinished runs are excluded and counted. Of a long history, the latest
//! [`MOST`](crate::change::MOST) runs are used.

mod figure;
mod record;
mod suspects;

use std::collections::BTreeMap;

use metier_types::{Extra, Ratio, Run, Schema, Warning};

pub use figure::{Figure, Statistic};
pub use record::{LevelChange, Point, Suspect, Trend, TrendState, Trends};

use crate::bootstrap::{change_atoms, interval, median, median_atoms};
use crate::change::{ChangeOptions, Changes, FEWEST, MOST, Step, find_changes};
use crate::choose::{reason_to_leave_out, tally};
use crate::comparison::{LeftOut, Level};
use crate::{Error, bootstrap};

/// Nominal coverage of the intervals of levels and changes.
const COVERAGE: f64 = 0.95;

/// The histories in these runs, one per workload and device, sorted by name.
pub fn trends(runs: &[Run], figure: &Figure, options: &ChangeOptions) -> Result<Trends, Error> {
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
    let trends: Result<Vec<Trend>, Error> =
        groups.into_values().map(|group| trend(group, figure, options)).collect();
    Ok(Trends {
        schema: Schema::new(),
        metric: figure.to_string(),
        unit: figure.unit(),
        significance: options.significance,
        at_least: options.at_least,
        trends: trends?,
        extra: Extra::new(),
    })
}

fn trend(mut runs: Vec<&Run>, figure: &Figure, options: &ChangeOptions) -> Result<Trend, Error> {
    runs.sort_by_key(|run| (run.started, run.id));
    runs.dedup_by_key(|run| run.id);
    let (mut kept, mut left_out, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for run in &runs {
        match (reason_to_leave_out(run, false), figure.value(run)?) {
            (Some(because), _) => left_out.push(LeftOut { run: run.id, because }),
            (None, Some(value)) => kept.push((*run, value)),
            (None, None) => without.push(*run),
        }
    }
    let older = kept.len().saturating_sub(MOST);
    kept.drain(..older);
    let values: Vec<f64> = kept.iter().map(|(_, value)| *value).collect();
    let found = find_changes(&values, options)?;
    let changes = changes(&kept, &values, &found.steps);
    let (workload, device) = match runs.first() {
        Some(run) => (run.workload.clone(), run.device.clone()),
        None => return Err(Error::NoRuns { side: "a" }),
    };
    let from = found.steps.last().map_or(0, |step| step.at);
    let mut trend = Trend {
        workload,
        device,
        state: state(values.len(), &found),
        points: kept
            .iter()
            .map(|(run, value)| Point { run: run.id, batch: run.batch, started: run.started, value: *value })
            .collect(),
        level: level(&values[from..]),
        changes,
        drift: found.drift,
        left_out: left_out.len(),
        without_value: without.len(),
        older: older as u64,
        because: None,
        warnings: Vec::new(),
        extra: Extra::new(),
    };
    trend.because = because(&trend, &left_out, &without, figure);
    trend.warnings.extend(one_batch_each(&trend));
    Ok(trend)
}

fn state(n: usize, found: &Changes) -> TrendState {
    if n < FEWEST {
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
fn because(trend: &Trend, left_out: &[LeftOut], without: &[&Run], figure: &Figure) -> Option<String> {
    if trend.state != TrendState::TooFewRuns {
        return None;
    }
    let mut text = format!("{} runs with a value; a change can be told from {FEWEST} on", trend.points.len());
    if !left_out.is_empty() {
        text.push_str(&format!("; left out: {}", tally(left_out)));
    }
    if let Some(run) = without.first() {
        let path = figure.path();
        let reason = path.and_then(|path| run.missing.get(&path)).map(|missing| format!(" ({missing})"));
        text.push_str(&format!("; {} without a value{}", without.len(), reason.unwrap_or_default()));
    }
    Some(text)
}

/// Repetitions of one batch share the state of the device, so a change between two batches may come
/// from that state.
fn one_batch_each(trend: &Trend) -> Option<Warning> {
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
        Warning::new(
            "one-batch-each",
            "a change lies between two batches: their repetitions share the state of the device, so measure another batch on each side to rule that out",
        )
    })
}

fn changes(kept: &[(&Run, f64)], values: &[f64], steps: &[Step]) -> Vec<LevelChange> {
    let edges: Vec<usize> =
        std::iter::once(0).chain(steps.iter().map(|step| step.at)).chain([values.len()]).collect();
    let runs: Vec<&Run> = kept.iter().map(|(run, _)| *run).collect();
    let describe = |(at, step): (usize, &Step)| {
        let (from, to) = (edges[at], edges[at + 2]);
        let (before, after) = (&values[from..step.at], &values[step.at..to]);
        let (sorted_before, sorted_after) = (sorted(before), sorted(after));
        let atoms = change_atoms(&median_atoms(&sorted_before), &median_atoms(&sorted_after));
        let ends = interval(&atoms, tail(before.len().min(after.len())));
        let finite = |x: f64| x.is_finite().then_some(Ratio(x));
        let ratio = median(&sorted_before).zip(median(&sorted_after)).map(|(x, y)| bootstrap::change(x, y));
        LevelChange {
            at: step.at,
            run: runs[step.at].id,
            started: runs[step.at].started,
            before: level(before),
            after: level(after),
            change_ratio: ratio.and_then(finite),
            low: ends.and_then(|ends| finite(ends.0)),
            high: ends.and_then(|ends| finite(ends.1)),
            coverage: Some(Ratio(COVERAGE)),
            p_value: step.p_value,
            suspects: suspects::between(&runs[from..step.at], &runs[step.at..to]),
            extra: Extra::new(),
        }
    };
    steps.iter().enumerate().map(describe).collect()
}

/// With fewer than 5 values the bootstrap's tails are too thin; the correction is the whole range,
/// as in `compare`.
fn tail(n: usize) -> f64 {
    if n < 5 { 0.0 } else { (1.0 - COVERAGE) / 2.0 }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn level(values: &[f64]) -> Level {
    let sorted = sorted(values);
    let mut atoms = median_atoms(&sorted);
    atoms.sort_unstable_by(|l, r| l.0.total_cmp(&r.0));
    let ends = if sorted.len() < 3 { None } else { interval(&atoms, tail(sorted.len())) };
    Level {
        n: sorted.len(),
        median: median(&sorted),
        low: ends.map(|ends| ends.0),
        high: ends.map(|ends| ends.1),
        min: sorted.first().copied(),
        max: sorted.last().copied(),
    }
}
