//! What measured runs of graphs teach: a `metier bench` is a point like those that are made in order to learn.
//!
//! A run is taken where its result is kept, its graph's file is still what it was, and nothing held it back. What else ran meanwhile is
//! known (`host.others_ratio`), so a run on a busy host teaches what being busy costs. Reads graphs' files; writes trials.

use std::collections::BTreeMap;
use std::path::Path;

use crate::operator_model::Pressure;
use metier_infer::job::{Outcome, RESULT};
use metier_onnx::{Analysis, Bindings, Limits};
use metier_store::{RunFilter, Store, Trial};
use metier_types::{DeviceId, GraphUse, Ratio, Run, RunState, Seconds};

use super::learned::pressure;
use super::trial::collect::{Probe, graph_id};
use super::trial::measure::{self, Timed};
use super::trial::record::{KIND, Kept};
use super::{Conditions, Error, memory};

/// Share of the processors' time that others may use on a host that counts as idle.
const IDLE: f64 = 0.1;
/// Loads are told apart in steps of this.
const LOAD_STEP: f64 = 0.05;
/// Share of the time that a hypervisor may keep for others.
const STOLEN: f64 = 0.05;
/// Largest result of a run, and largest file of a graph, that are read.
const LARGEST_RESULT: u64 = 64 << 20;
const LARGEST_GRAPH: u64 = 4 << 30;
/// Runs that are looked at, newest first, and how many at once.
const MOST: usize = 20_000;
const PAGE: u32 = 1000;
/// The kind of the trials that say which runs were looked at.
pub(super) const LOOKED: &str = "latency-run";

/// What came of looking at runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    /// Points that were new.
    pub points: u64,
    /// Runs of graphs that had been looked at before.
    pub known: u64,
    /// Runs of graphs that teach nothing, by the reason.
    pub left_out: BTreeMap<String, u64>,
}

/// Takes the newest runs of graphs on a device. A run that was looked at before is not looked at again, unless it taught nothing then and `again` asks for it.
pub fn take(store: &Store, device: &DeviceId, again: bool) -> Result<Taken, Error> {
    let filter = RunFilter {
        device: Some(device.to_string()),
        state: Some(RunState::Finished),
        ..RunFilter::default()
    };
    let looked: BTreeMap<String, Look> = store
        .trials(device, LOOKED)?
        .into_iter()
        .filter_map(|mark| Some((mark.key, serde_json::from_str(&mark.record).ok()?)))
        .collect();
    let mut taken = Taken::default();
    let mut fresh = Vec::new();
    let mut page = RunFilter { limit: PAGE, ..filter };
    let mut seen = 0;
    while seen < MOST {
        let found = store.runs(&page)?;
        seen += found.runs.len();
        for row in &found.runs {
            match looked.get(&row.id.to_string()) {
                Some(Look { is_graph: false, .. }) => (),
                Some(Look { left_out: None, .. }) => taken.known += 1,
                Some(_) if !again => taken.known += 1,
                _ => fresh.push(row.id),
            }
        }
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    // What is no graph never becomes one: it is read once, and not counted.
    let mut others = Vec::new();
    // The oldest first, so that the newest is what stays.
    for id in fresh.into_iter().rev() {
        let Some(run) = store.run(id)? else { continue };
        if run.context.graph.is_none() {
            others.push(mark(&run, &Look { left_out: None, is_graph: false })?);
            continue;
        }
        match take_one(store, &run)? {
            Ok(()) => taken.points += 1,
            Err(why) => *taken.left_out.entry(why).or_default() += 1,
        }
    }
    if !others.is_empty() {
        store.put_trials(device, LOOKED, &others)?;
    }
    Ok(taken)
}

/// Takes one run. The inner error says why it teaches nothing.
pub fn take_one(store: &Store, run: &Run) -> Result<Result<(), String>, Error> {
    let device = &run.device.id;
    let told = point(store, run)?;
    let left_out = told.as_ref().err().cloned();
    if let Ok(kept) = &told {
        let key = kept.key();
        let before = Kept::join(&store.trials(device, KIND)?).into_iter().find(|one| one.key() == key);
        let kept = before.map_or(kept.clone(), |before| joined(&before, kept.clone()));
        let unkept =
            |error: serde_json::Error| Error::Trial { name: kept.name.clone(), why: error.to_string() };
        store.put_trials(device, KIND, &kept.pieces().map_err(unkept)?)?;
    }
    store.put_trials(device, LOOKED, &[mark(run, &Look { left_out, is_graph: true })?])?;
    Ok(told.map(|_| ()))
}

/// What came of looking at a run.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Look {
    /// Why it teaches nothing.
    left_out: Option<String>,
    /// Whether it was a run of a graph; only those were marked once.
    #[serde(default = "yes")]
    is_graph: bool,
}

const fn yes() -> bool {
    true
}

fn mark(run: &Run, look: &Look) -> Result<Trial, Error> {
    let key = run.id.to_string();
    match serde_json::to_string(look) {
        Ok(record) => Ok(Trial { key, record }),
        Err(error) => Err(Error::Trial { name: key, why: error.to_string() }),
    }
}

/// The same measured before and now: the new time counts, and times of operators that only the old one has stay.
fn joined(before: &Kept, now: Kept) -> Kept {
    let has_operators = now.parts.iter().any(|part| part.5.is_some());
    let is_alike = before.parts.len() == now.parts.len();
    let parts = if has_operators || !is_alike { now.parts } else { before.parts.clone() };
    Kept { again: Some(before.seconds), parts, ..now }
}

fn stem(graph: &GraphUse) -> Option<&str> {
    Path::new(&graph.file).file_stem().and_then(|name| name.to_str())
}

/// The point that a run is. The inner error says why it is none.
fn point(store: &Store, run: &Run) -> Result<Result<Kept, String>, Error> {
    let Some(graph) = &run.context.graph else { return Ok(Err("it is no run of a graph".to_string())) };
    let has_ended_well = run.exit.as_ref().is_some_and(|exit| exit.is_complete());
    if run.context.warmup || run.state != RunState::Finished || !has_ended_well {
        return Ok(Err("it did not end well".to_string()));
    }
    if !run.context.limits.is_empty() {
        return Ok(Err("it was held back by limits".to_string()));
    }
    let told = match read(graph) {
        Ok(told) => told,
        Err(why) => return Ok(Err(why)),
    };
    if let Some(name) = stem(graph) {
        memory::keep(store, run, &told, name)?;
    }
    if run.host.steal_ratio.is_some_and(|stolen| stolen.get() > STOLEN) {
        return Ok(Err("the hypervisor gave its processors to others".to_string()));
    }
    let cores = store.devices()?.into_iter().find(|one| one.id == run.device.id).map(|one| one.cpu.threads);
    let Some(pressure) = around(run, cores) else {
        return Ok(Err("what else ran meanwhile is not known".to_string()));
    };
    let point = outcome(store, run, LARGEST_RESULT)?
        .and_then(|outcome| described(graph, &told, &outcome, pressure))
        .map(|kept| Kept { run: Some(run.id), ..kept });
    Ok(point)
}

/// What the runtime told of a run. The inner error says why nothing is known of it.
fn outcome(store: &Store, run: &Run, most: u64) -> Result<Result<Outcome, String>, Error> {
    let Some(result) = run.artefacts.iter().find(|file| file.name == RESULT) else {
        return Ok(Err("its result was not kept".to_string()));
    };
    if result.size_bytes.0 > most {
        return Ok(Err("its result is too large".to_string()));
    }
    let mut bytes = Vec::new();
    store.artefact(&result.digest, &mut bytes)?;
    let Ok(outcome) = serde_json::from_slice::<Outcome>(&bytes) else {
        return Ok(Err("its result cannot be read".to_string()));
    };
    if outcome.runs.is_empty() {
        return Ok(Err("it has no inference that counts".to_string()));
    }
    Ok(Ok(outcome))
}

/// What predictors learn that one inference of a run took: the lower quartile of its inferences. `None` where its result was not kept, or
/// has more than `most` bytes.
pub fn seconds(store: &Store, run: &Run, most: u64) -> Result<Option<Seconds>, Error> {
    let told = outcome(store, run, most)?.ok();
    Ok(told.map(|told| Seconds(timed(&told).seconds)))
}

fn timed(outcome: &Outcome) -> Timed {
    let walls = outcome.runs.iter().map(|spent| spent.wall.get()).collect();
    let cpus = outcome.runs.iter().map(|spent| spent.cpu.get()).collect();
    Timed::of(walls, cpus)
}

/// What ran beside a run, from how much of the processors others used.
fn around(run: &Run, cores: Option<u32>) -> Option<Pressure> {
    let others = run.host.others_ratio?.get().clamp(0.0, 1.0);
    if others <= IDLE {
        return Some(Pressure::default());
    }
    let threads = run.context.graph.as_ref()?.threads;
    let load = (others / LOAD_STEP).round() * LOAD_STEP;
    let conditions = Conditions { threads, cpu_load: Some(Ratio(load)), ..Conditions::default() };
    let here = || std::thread::available_parallelism().map_or(1, usize::from) as u32;
    Some(pressure(&conditions, f64::from(cores.unwrap_or_else(here))))
}

/// The graph that was run, where its file is still there.
fn read(graph: &GraphUse) -> Result<Analysis, String> {
    let gone = || "its graph's file is gone, or another by now".to_string();
    let path = Path::new(&graph.file);
    if std::fs::metadata(path).map_err(|_| gone())?.len() > LARGEST_GRAPH {
        return Err(gone());
    }
    let bytes = std::fs::read(path).map_err(|_| gone())?;
    if metier_store::digest::of_bytes(&bytes) != graph.digest {
        return Err(gone());
    }
    let limits = Limits::default();
    let bindings = Bindings { shapes: graph.shapes.clone(), ..Bindings::default() };
    metier_onnx::read(&bytes, &limits)
        .and_then(|model| metier_onnx::analyse(&model, &bindings, &limits))
        .map_err(|error| error.to_string())
}

fn described(
    graph: &GraphUse,
    told: &Analysis,
    outcome: &Outcome,
    pressure: Pressure,
) -> Result<Kept, String> {
    let steps = measure::steps(told, &graph.runtime, graph.threads).map_err(|error| error.to_string())?;
    let name = stem(graph).ok_or("its graph's file has no name that can be written")?;
    let id = graph_id(name, told);
    let probe = Probe { id: &id, name, is_trial: false, threads: graph.threads, pressure };
    Ok(probe.timed(&graph.runtime, told, &steps, &outcome.operators, &timed(outcome)))
}

#[cfg(test)]
pub(crate) mod tests;
