//! What was measured answers before what was learned: runs of `metier bench` of the very graph, on
//! the device, with the same shapes, runtime and number of threads.
//!
//! The value is the lower quartile of single inferences, as in training. The interval is the spread
//! of all single inferences. Runs beside other load are used only if there are none on an idle
//! host. A question about a loaded host is left to the learned predictors.

use std::collections::BTreeMap;

use metier_infer::inference_job::InferenceOutcome;
use metier_onnx::GraphAnalysis;
use metier_onnx::analysis::ValueDescription;
use metier_store::{RecordStore, RunFilter};
use metier_types::{ContentDigest, DeviceId, Prediction, PredictionInterval, Ratio, Run, RunState};

use super::conditions::InferenceConditions;
use super::run_trials::{self, MAX_IDLE_LOAD};
use super::{COVERAGE, LatencyError};

/// Newest runs that are considered.
const MAX_RUNS: u32 = 200;
/// Newest runs that answer.
const MAX_USED_RUNS: usize = 10;
/// Largest run result that is read.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// Shapes of a graph's inputs, as runs record them.
pub fn input_shapes(graph: &GraphAnalysis) -> BTreeMap<String, Vec<u64>> {
    let shape = |value: &ValueDescription| {
        let sizes = value.shape.iter().flatten().map(|size| size.unwrap_or_default());
        (value.name.clone(), sizes.collect())
    };
    graph.inputs.iter().map(shape).collect()
}

/// The measured time of a graph's file on a device under these conditions; `None` if it was not
/// measured.
pub fn measured_time(
    store: &RecordStore,
    file: &ContentDigest,
    graph: &GraphAnalysis,
    device: &DeviceId,
    conditions: &InferenceConditions,
) -> Result<Option<Prediction>, LatencyError> {
    let is_loaded =
        [conditions.cpu_load, conditions.memory_load].into_iter().flatten().any(|load| load.get() > 0.0);
    if is_loaded {
        return Ok(None);
    }
    let shapes = input_shapes(graph);
    let is_same = |run: &Run| {
        run.context.graph.as_ref().is_some_and(|used| {
            used.digest == *file
                && used.runtime == conditions.runtime
                && used.threads == conditions.threads
                && used.shapes == shapes
        })
    };
    let is_undisturbed = |run: &Run| {
        run.exit.as_ref().is_some_and(|exit| exit.is_complete())
            && !run.context.warmup
            && run.context.limits.is_empty()
            && run.context.company.is_empty()
            && !run.context.is_company
    };
    let mut runs: Vec<(Run, InferenceOutcome)> = Vec::new();
    for workload in store.workloads()?.into_iter().filter(|workload| workload.digest == Some(*file)) {
        let filter = RunFilter {
            workload: Some(workload.id.to_string()),
            device: Some(device.to_string()),
            state: Some(RunState::Finished),
            limit: MAX_RUNS,
            ..RunFilter::default()
        };
        for row in store.runs(&filter)?.runs {
            let Some(run) = store.run(row.id)?.filter(|run| is_same(run) && is_undisturbed(run)) else {
                continue;
            };
            if let Ok(outcome) = run_trials::outcome(store, &run, MAX_RESULT_BYTES)? {
                runs.push((run, outcome));
            }
        }
    }
    let is_idle = |run: &Run| run.host.others_ratio.is_some_and(|others| others.get() <= MAX_IDLE_LOAD);
    let is_busy = !runs.iter().any(|(run, _)| is_idle(run));
    runs.retain(|(run, _)| is_busy || is_idle(run));
    runs.sort_by_key(|(run, _)| std::cmp::Reverse(run.started));
    runs.truncate(MAX_USED_RUNS);
    let mut walls: Vec<f64> =
        runs.iter().flat_map(|(_, outcome)| &outcome.runs).map(|one| one.wall.get()).collect();
    walls.retain(|seconds| seconds.is_finite() && *seconds > 0.0);
    walls.sort_unstable_by(f64::total_cmp);
    let at =
        |share: f64| walls.get(((walls.len().saturating_sub(1)) as f64 * share).round() as usize).copied();
    let tail = (1.0 - COVERAGE) / 2.0;
    let (Some(low), Some(value), Some(high), Some((newest, _))) =
        (at(tail), at(0.25), at(1.0 - tail), runs.first())
    else {
        return Ok(None);
    };
    let (count, s) = (runs.len(), if runs.len() == 1 { "" } else { "s" });
    let load = if is_busy { ", beside other programs" } else { "" };
    let because = format!(
        "measured on {}: {} inferences in {count} run{s} of this graph with {} threads{load}; the interval is their spread",
        newest.device.name,
        walls.len(),
        conditions.threads,
    );
    let interval = PredictionInterval::new(low.min(value), high.max(value), Ratio(COVERAGE))?;
    Ok(Some(Prediction::new(value, "seconds", interval, source_id(), true, because)?))
}

/// Id of measured answers, where predictions have that of their predictor.
fn source_id() -> ContentDigest {
    metier_store::digest::digest_bytes(b"metier.latency.measured/1")
}
