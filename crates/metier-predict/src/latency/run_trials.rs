//! Imports measured runs of graphs as training points: a `metier bench` run is equivalent to a
//! trial.
//!
//! A run is imported if its result is stored, its graph's file is unchanged, and it was not
//! throttled. The load of co-runners is known (`host.others_ratio`), so runs on a busy host train
//! the load model. Reads graph files; writes trials.

use std::collections::BTreeMap;
use std::path::Path;

use crate::operator_model::ResourcePressure;
use metier_infer::inference_job::{InferenceOutcome, RESULT_FILE};
use metier_onnx::{GraphAnalysis, OnnxLimits, ShapeBindings};
use metier_store::{RecordStore, RunFilter, StoredTrial};
use metier_types::{DeviceId, GraphUse, Ratio, Run, RunState, Seconds};

use super::learned_predictor::pressure;
use super::trial::collect::{TrialPoint, graph_id};
use super::trial::measure::{self, TimedInference};
use super::trial::record::{KIND, TrialRecord};
use super::{InferenceConditions, LatencyError, memory};

/// Largest co-runner share of processor time on a host that counts as idle.
pub(super) const MAX_IDLE_LOAD: f64 = 0.1;
/// Resolution of distinct loads.
const LOAD_STEP: f64 = 0.05;
/// Largest steal time share.
const MAX_STOLEN_SHARE: f64 = 0.05;
/// Largest run result and largest graph file that are read.
const MAX_RESULT_BYTES: u64 = 64 << 20;
const MAX_GRAPH_BYTES: u64 = 4 << 30;
/// Number of runs considered, newest first, and the batch size.
const MAX_RUNS: usize = 20_000;
const RUNS_PER_PAGE: u32 = 1000;
/// Kind of the trials that mark considered runs.
pub(super) const LOOKED_KIND: &str = "latency-run";

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunIntakeResult {
    /// New points.
    pub points: u64,
    /// Runs of graphs that were considered before.
    pub known: u64,
    /// Runs of graphs that were left out, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// Imports the newest runs of graphs on a device. A run is considered once; with `again`, runs that
/// were left out are considered again.
pub fn import_runs(
    store: &RecordStore,
    device: &DeviceId,
    again: bool,
) -> Result<RunIntakeResult, LatencyError> {
    let filter = RunFilter {
        device: Some(device.to_string()),
        state: Some(RunState::Finished),
        ..RunFilter::default()
    };
    let looked: BTreeMap<String, RunTrialMark> = store
        .trials(device, LOOKED_KIND)?
        .into_iter()
        .filter_map(|mark| Some((mark.key, serde_json::from_str(&mark.record).ok()?)))
        .collect();
    let mut taken = RunIntakeResult::default();
    let mut fresh = Vec::new();
    let mut page = RunFilter { limit: RUNS_PER_PAGE, ..filter };
    let mut seen = 0;
    while seen < MAX_RUNS {
        let found = store.runs(&page)?;
        seen += found.runs.len();
        for row in &found.runs {
            match looked.get(&row.id.to_string()) {
                Some(RunTrialMark { is_graph: false, .. }) => (),
                Some(RunTrialMark { left_out: None, .. }) => taken.known += 1,
                Some(_) if !again => taken.known += 1,
                _ => fresh.push(row.id),
            }
        }
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    // Runs of other programs are read once and not counted.
    let mut others = Vec::new();
    // Oldest first, so that the newest measurement prevails.
    for id in fresh.into_iter().rev() {
        let Some(run) = store.run(id)? else { continue };
        if run.context.graph.is_none() {
            others.push(mark(&run, &RunTrialMark { left_out: None, is_graph: false })?);
            continue;
        }
        match import_run(store, &run)? {
            Ok(()) => taken.points += 1,
            Err(why) => *taken.left_out.entry(why).or_default() += 1,
        }
    }
    if !others.is_empty() {
        store.put_trials(device, LOOKED_KIND, &others)?;
    }
    Ok(taken)
}

/// Imports one run. The inner error is the reason why it is left out.
pub fn import_run(store: &RecordStore, run: &Run) -> Result<Result<(), String>, LatencyError> {
    let device = &run.device.id;
    let trial_record = point(store, run)?;
    let left_out = trial_record.as_ref().err().cloned();
    if let Ok(trial) = &trial_record {
        let key = trial.key();
        let before =
            TrialRecord::join(&store.trials(device, KIND)?).into_iter().find(|record| record.key() == key);
        let record = before.map_or(trial.clone(), |before| merge_measurements(&before, trial.clone()));
        let unkept = |error: serde_json::Error| LatencyError::Trial {
            name: record.name.clone(),
            why: error.to_string(),
        };
        store.put_trials(device, KIND, &record.pieces().map_err(unkept)?)?;
    }
    store.put_trials(device, LOOKED_KIND, &[mark(run, &RunTrialMark { left_out, is_graph: true })?])?;
    Ok(trial_record.map(|_| ()))
}

/// The mark of a considered run.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct RunTrialMark {
    /// Reason why it was left out.
    left_out: Option<String>,
    /// Whether it was a run of a graph; earlier versions marked only those.
    #[serde(default = "yes")]
    is_graph: bool,
}

const fn yes() -> bool {
    true
}

fn mark(run: &Run, look: &RunTrialMark) -> Result<StoredTrial, LatencyError> {
    let key = run.id.to_string();
    match serde_json::to_string(look) {
        Ok(record) => Ok(StoredTrial { key, record }),
        Err(error) => Err(LatencyError::Trial { name: key, why: error.to_string() }),
    }
}

/// Merges two measurements of the same point: the new time prevails, operator times missing in it
/// are taken from the old one.
fn merge_measurements(before: &TrialRecord, now: TrialRecord) -> TrialRecord {
    let has_operators = now.parts.iter().any(|part| part.5.is_some());
    let is_alike = before.parts.len() == now.parts.len();
    let parts = if has_operators || !is_alike { now.parts } else { before.parts.clone() };
    TrialRecord { again: Some(before.seconds), parts, ..now }
}

fn stem(graph: &GraphUse) -> Option<&str> {
    Path::new(&graph.file).file_stem().and_then(|name| name.to_str())
}

/// The point of a run. The inner error is the reason why it has none.
fn point(store: &RecordStore, run: &Run) -> Result<Result<TrialRecord, String>, LatencyError> {
    let Some(graph) = &run.context.graph else { return Ok(Err("it is no run of a graph".to_string())) };
    let has_ended_well = run.exit.as_ref().is_some_and(|exit| exit.is_complete());
    if run.context.warmup || run.state != RunState::Finished || !has_ended_well {
        return Ok(Err("it did not end well".to_string()));
    }
    if !run.context.limits.is_empty() {
        return Ok(Err("it was held back by limits".to_string()));
    }
    let analysis = match read(graph) {
        Ok(graph_analysis) => graph_analysis,
        Err(why) => return Ok(Err(why)),
    };
    if let Some(name) = stem(graph) {
        memory::record_memory_trial(store, run, &analysis, name)?;
    }
    if run.host.steal_ratio.is_some_and(|stolen| stolen.get() > MAX_STOLEN_SHARE) {
        return Ok(Err("the hypervisor gave its processors to others".to_string()));
    }
    let cores = store
        .devices()?
        .into_iter()
        .find(|device| device.id == run.device.id)
        .map(|device| device.cpu.threads);
    let Some(pressure) = run_pressure(run, cores) else {
        return Ok(Err("the load of co-runners is not known".to_string()));
    };
    let point = outcome(store, run, MAX_RESULT_BYTES)?
        .and_then(|outcome| described(graph, &analysis, &outcome, pressure))
        .map(|record| TrialRecord { run: Some(run.id), ..record });
    Ok(point)
}

/// The runtime's result of a run. The inner error is the reason why it is unavailable.
pub(super) fn outcome(
    store: &RecordStore,
    run: &Run,
    most: u64,
) -> Result<Result<InferenceOutcome, String>, LatencyError> {
    let Some(result) = run.artefacts.iter().find(|file| file.name == RESULT_FILE) else {
        return Ok(Err("its result was not kept".to_string()));
    };
    if result.size_bytes.0 > most {
        return Ok(Err("its result is too large".to_string()));
    }
    let mut bytes = Vec::new();
    store.read_artefact(&result.digest, &mut bytes)?;
    let Ok(outcome) = serde_json::from_slice::<InferenceOutcome>(&bytes) else {
        return Ok(Err("its result cannot be read".to_string()));
    };
    if outcome.runs.is_empty() {
        return Ok(Err("it has no inference that counts".to_string()));
    }
    Ok(Ok(outcome))
}

/// Time of one inference as used for training: the lower quartile of the run. `None` if the result
/// is not stored or has more than `most` bytes.
pub fn seconds(store: &RecordStore, run: &Run, most: u64) -> Result<Option<Seconds>, LatencyError> {
    let inference_outcome = outcome(store, run, most)?.ok();
    Ok(inference_outcome.map(|outcome| Seconds(timed(&outcome).seconds)))
}

fn timed(outcome: &InferenceOutcome) -> TimedInference {
    let walls = outcome.runs.iter().map(|spent| spent.wall.get()).collect();
    let cpus = outcome.runs.iter().map(|spent| spent.cpu.get()).collect();
    TimedInference::of(walls, cpus)
}

/// Resource pressure during a run, from the co-runners' processor use.
fn run_pressure(run: &Run, cores: Option<u32>) -> Option<ResourcePressure> {
    let others = run.host.others_ratio?.get().clamp(0.0, 1.0);
    if others <= MAX_IDLE_LOAD {
        return Some(ResourcePressure::default());
    }
    let threads = run.context.graph.as_ref()?.threads;
    let load = (others / LOAD_STEP).round() * LOAD_STEP;
    let conditions =
        InferenceConditions { threads, cpu_load: Some(Ratio(load)), ..InferenceConditions::default() };
    let here = || std::thread::available_parallelism().map_or(1, usize::from) as u32;
    Some(pressure(&conditions, f64::from(cores.unwrap_or_else(here))))
}

/// Reads the graph of a run if its file still exists.
fn read(graph: &GraphUse) -> Result<GraphAnalysis, String> {
    let gone = || "its graph's file is gone, or another by now".to_string();
    let path = Path::new(&graph.file);
    if std::fs::metadata(path).map_err(|_| gone())?.len() > MAX_GRAPH_BYTES {
        return Err(gone());
    }
    let bytes = std::fs::read(path).map_err(|_| gone())?;
    if metier_store::digest::digest_bytes(&bytes) != graph.digest {
        return Err(gone());
    }
    let limits = OnnxLimits::default();
    let bindings = ShapeBindings { shapes: graph.shapes.clone(), ..ShapeBindings::default() };
    metier_onnx::read_onnx(&bytes, &limits)
        .and_then(|model| metier_onnx::analyse_graph(&model, &bindings, &limits))
        .map_err(|error| error.to_string())
}

fn described(
    graph: &GraphUse,
    analysis: &GraphAnalysis,
    outcome: &InferenceOutcome,
    pressure: ResourcePressure,
) -> Result<TrialRecord, String> {
    let steps = measure::steps(analysis, &graph.runtime, graph.threads).map_err(|error| error.to_string())?;
    let name = stem(graph).ok_or("its graph's file name is not valid UTF-8")?;
    let id = graph_id(name, analysis);
    let probe = TrialPoint { id: &id, name, is_trial: false, threads: graph.threads, pressure };
    Ok(probe.timed(&graph.runtime, analysis, &steps, &outcome.operators, &timed(outcome)))
}

#[cfg(test)]
pub(crate) mod tests;
