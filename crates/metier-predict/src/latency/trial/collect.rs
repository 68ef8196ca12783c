//! Runs trials on this device until a time budget is used up: the user's graphs first, then
//! generated networks with the largest predicted uncertainty.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::operator_model::graph::sum;
use crate::operator_model::{OperatorPredictor, ResourcePressure, TimedGraph};
use metier_infer::{EngineOperatorTime, EngineRuntime, GraphSource, InferenceEngine, graph_inputs};
use metier_onnx::{GraphAnalysis, OnnxLimits, ShapeBindings};
use metier_store::RecordStore;
use metier_types::DeviceId;

use super::measure::{self, MeasureEffort, TimedInference};
use super::network;
use super::noise_probe::NoiseProbe;
use super::record::{KIND, TrialRecord};
use super::stress::StressLevel;
use crate::latency::operator_features::{
    self, FEATURE_VERSION, LINEAR_FEATURES, OperatorStep, TREE_FEATURES,
};
use crate::latency::{LatencyError, SopranoCounts};

/// A graph of the user.
#[derive(Debug, Clone)]
pub struct UserGraph {
    /// Name of the graph; points of one name are held out together.
    pub name: String,
    /// Path of the graph; external weights may be beside it.
    pub path: PathBuf,
    pub bytes: Arc<Vec<u8>>,
    /// Sizes for symbolic dimensions.
    pub bindings: ShapeBindings,
}

/// Which graphs are timed under stress of processors and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StressCoverage {
    None,
    /// Occasional generated networks, enough to train the load model.
    #[default]
    Some,
    /// Also every user graph at every stress level.
    All,
}

/// Settings of a trial campaign.
pub struct TrialCampaign<'a> {
    /// Store for the trials.
    pub store: &'a RecordStore,
    pub device: &'a DeviceId,
    pub cores: u32,
    pub engine: InferenceEngine,
    pub threads: &'a [u32],
    /// Time budget.
    pub budget: Duration,
    /// Graphs of the user.
    pub graphs: &'a [UserGraph],
    /// Which graphs are timed under stress.
    pub load: StressCoverage,
    /// Whether known points are repeated instead of adding new ones.
    pub again: bool,
    /// Whether generated networks are disabled.
    pub only_graphs: bool,
    /// Whether a stop was requested.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Progress of a campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialProgress {
    pub points: u64,
    /// Points that failed.
    pub failed: u64,
    /// Used share of the budget.
    pub share: f64,
    /// The latest trial.
    pub last: String,
    /// User graphs that could not be timed, each with the first reason.
    pub refused: BTreeMap<String, String>,
}

/// Measurement effort for a user graph.
pub const GRAPH_EFFORT: MeasureEffort = MeasureEffort { seconds: 0.35, fewest: 5, most: 100, looks: 3 };
/// Measurement effort for a generated network.
pub const NETWORK_EFFORT: MeasureEffort = MeasureEffort { seconds: 0.06, fewest: 5, most: 40, looks: 4 };
/// Effort under stress, where times vary more.
const LOADED_GRAPH_EFFORT: MeasureEffort = MeasureEffort { seconds: 0.6, fewest: 5, most: 200, looks: 0 };
/// Effort for a generated network under stress, and the number of idle networks per stressed one.
const LOADED_NETWORK_EFFORT: MeasureEffort = MeasureEffort { seconds: 0.25, fewest: 5, most: 100, looks: 0 };
const NETWORKS_PER_LOADED: usize = 10;
/// Candidates per trial, of which the most uncertain is timed.
const CANDIDATES_PER_TRIAL: u64 = 3;
/// A trial is discarded if median
/// lower quartile of its repeats exceeds this.
const DISTURBED_RATIO: f64 = 1.15;
/// A trial is also discarded if CPU contention was seen in more than this share of its segments.
const MAX_CROWDED_SHARE: f64 = 0.5;
/// Duration of the host's noise calibration, unless the budget is small.
const CALIBRATION_TIME: Duration = Duration::from_secs(3);
/// Trials before the first model is trained.
const MIN_TRIALS: usize = 64;

/// Runs trials and returns their number.
pub fn collect(
    campaign: &TrialCampaign,
    tell: &mut dyn FnMut(&TrialProgress),
) -> Result<TrialProgress, LatencyError> {
    let begin = Instant::now();
    let mut progress =
        TrialProgress { points: 0, failed: 0, share: 0.0, last: String::new(), refused: BTreeMap::new() };
    let mut known = TrialRecord::join(&campaign.store.trials(campaign.device, KIND)?);
    known.retain(|record| record.runtime == campaign.engine.name() && record.is_of_this_version());
    let mut done: BTreeSet<String> = known.iter().map(TrialRecord::key).collect();
    let runtimes: Vec<(u32, EngineRuntime)> = campaign
        .threads
        .iter()
        .map(|threads| Ok((*threads, EngineRuntime::open(&campaign.engine, *threads as usize)?)))
        .collect::<Result<_, metier_infer::Error>>()?;
    let mut pulse = NoiseProbe::calibrate(campaign.threads, CALIBRATION_TIME.min(campaign.budget / 20));
    let is_over = || begin.elapsed() >= campaign.budget || (campaign.is_stopped)();
    let mut keep = |record: Result<TrialRecord, LatencyError>,
                    name: &str,
                    is_given: bool,
                    progress: &mut TrialProgress,
                    known: &mut Vec<TrialRecord>|
     -> Result<(), LatencyError> {
        match record {
            Ok(trial_record) => {
                let pieces = trial_record.pieces().map_err(|error| LatencyError::Trial {
                    name: name.to_string(),
                    why: error.to_string(),
                })?;
                campaign.store.put_trials(campaign.device, KIND, &pieces)?;
                known.push(trial_record);
                progress.points += 1;
            }
            Err(error) if is_given => {
                progress.refused.entry(name.to_string()).or_insert_with(|| error.to_string());
            }
            Err(error) => {
                tracing::debug!(name, %error, "a trial that cannot be made");
                progress.failed += 1;
            }
        }
        progress.last = name.to_string();
        progress.share = (begin.elapsed().as_secs_f64() / campaign.budget.as_secs_f64().max(1e-9)).min(1.0);
        tell(progress);
        Ok(())
    };
    for given in campaign.graphs {
        let source = GraphSource::File(&given.path);
        let graph = match analyse(&given.bytes, &given.bindings) {
            Ok(graph) => graph,
            Err(error) => {
                keep(Err(error), &given.name, true, &mut progress, &mut known)?;
                continue;
            }
        };
        for (threads, runtime) in &runtimes {
            let id = graph_id(&given.name, &graph);
            let mut levels = vec![None];
            if campaign.load == StressCoverage::All {
                levels.extend(StressLevel::levels(campaign.cores).into_iter().map(Some));
            }
            for level in levels {
                if is_over() {
                    return Ok(progress);
                }
                let pressure = level.map_or(ResourcePressure::default(), |level: StressLevel| {
                    level.pressure(*threads, campaign.cores)
                });
                let probe =
                    TrialPoint { id: &id, name: &given.name, is_trial: false, threads: *threads, pressure };
                let key = probe.key(runtime);
                let effort = if level.is_some() { LOADED_GRAPH_EFFORT } else { GRAPH_EFFORT };
                if campaign.again {
                    let Some(before) = known
                        .iter()
                        .find(|trial_record| trial_record.key() == key && trial_record.again.is_none())
                    else {
                        continue;
                    };
                    let before = before.clone();
                    let once = MeasureEffort { looks: 0, ..effort };
                    let _stress = level.map(StressLevel::start);
                    let trial_record = measure_point(runtime, source, &graph, &probe, &once, &mut pulse);
                    let repeated =
                        trial_record.map(|repeat| TrialRecord { again: Some(repeat.seconds), ..before });
                    keep(repeated, &given.name, true, &mut progress, &mut known)?;
                    continue;
                }
                if !done.insert(key) {
                    continue;
                }
                let trial_record = {
                    let _stress = level.map(StressLevel::start);
                    measure_point(runtime, source, &graph, &probe, &effort, &mut pulse)
                };
                keep(trial_record, &given.name, true, &mut progress, &mut known)?;
            }
        }
    }
    if campaign.again || campaign.only_graphs {
        return Ok(progress);
    }
    let levels =
        if campaign.load == StressCoverage::None { Vec::new() } else { StressLevel::levels(campaign.cores) };
    let mut made = 0;
    let mut turn = 0;
    let mut laws: Option<OperatorPredictor> = None;
    let mut learned_from = 0;
    while !is_over() {
        if known.len() >= MIN_TRIALS && known.len() >= 2 * learned_from {
            laws = learn(&known);
            learned_from = known.len();
        }
        let next = choose(turn, laws.as_ref(), campaign.engine.name());
        turn += 1;
        let (name, bytes) = network::network(next);
        let Ok(graph) = analyse(&bytes, &ShapeBindings::default()) else { continue };
        for (threads, runtime) in &runtimes {
            let id = format!("net-{FEATURE_VERSION}-{next}");
            let probe = TrialPoint {
                id: &id,
                name: &name,
                is_trial: true,
                threads: *threads,
                pressure: ResourcePressure::default(),
            };
            if is_over() || !done.insert(probe.key(runtime)) {
                continue;
            }
            let trial_record = measure_point(
                runtime,
                GraphSource::Bytes(&bytes),
                &graph,
                &probe,
                &NETWORK_EFFORT,
                &mut pulse,
            );
            keep(trial_record, &name, false, &mut progress, &mut known)?;
            made += 1;
            let level = levels.get(made / NETWORKS_PER_LOADED % levels.len().max(1));
            let Some(level) = level.filter(|_| made.is_multiple_of(NETWORKS_PER_LOADED) && !is_over()) else {
                continue;
            };
            let probe = TrialPoint { pressure: level.pressure(*threads, campaign.cores), ..probe };
            if done.insert(probe.key(runtime)) {
                let measured = {
                    let _stress = level.start();
                    measure_point(
                        runtime,
                        GraphSource::Bytes(&bytes),
                        &graph,
                        &probe,
                        &LOADED_NETWORK_EFFORT,
                        &mut pulse,
                    )
                };
                keep(measured, &name, false, &mut progress, &mut known)?;
            }
        }
        if turn > 1_000_000 {
            break;
        }
    }
    Ok(progress)
}

/// Analyses a graph.
pub fn analyse(bytes: &[u8], bindings: &ShapeBindings) -> Result<GraphAnalysis, LatencyError> {
    let limits = OnnxLimits::default();
    let model = metier_onnx::read_onnx(bytes, &limits)?;
    Ok(metier_onnx::analyse_graph(&model, bindings, &limits)?)
}

/// Graph id with its shapes and a digest, since many graphs are named `model`.
pub fn graph_id(name: &str, graph: &GraphAnalysis) -> String {
    let shapes: Vec<String> = graph
        .inputs
        .iter()
        .map(|input| {
            operator_features::dims(Some(input))
                .iter()
                .map(|size| format!("{size:.0}"))
                .collect::<Vec<_>>()
                .join("x")
        })
        .collect();
    let own: Vec<String> = graph
        .operators
        .iter()
        .map(|cost| {
            format!("{} {:?} {:?}", cost.kind, cost.multiply_adds, cost.weight_bytes.map(|bytes| bytes.0))
        })
        .collect();
    let own = metier_learn::cross_validation::hash_group(&own.join(","));
    format!("{name}|{}|{:08x}", shapes.join(","), own >> 32)
}

/// Identity of a point.
#[derive(Debug, Clone, Copy)]
pub struct TrialPoint<'a> {
    /// Graph id with shapes.
    pub id: &'a str,
    pub name: &'a str,
    /// Whether the graph is generated.
    pub is_trial: bool,
    pub threads: u32,
    pub pressure: ResourcePressure,
}

impl TrialPoint<'_> {
    fn key(&self, runtime: &EngineRuntime) -> String {
        self.to_record(runtime.engine().name()).key()
    }

    fn to_record(self, runtime: &str) -> TrialRecord {
        TrialRecord {
            counted: FEATURE_VERSION,
            graph: self.id.to_string(),
            name: self.name.to_string(),
            is_trial: self.is_trial,
            runtime: runtime.to_string(),
            threads: self.threads,
            pressure: self.pressure,
            seconds: 0.0,
            median: 0.0,
            again: None,
            cpu_seconds: 0.0,
            multiply_adds: 0,
            counts: [0.0; 7],
            run: None,
            piece: (0, 1),
            parts: Vec::new(),
        }
    }

    /// Adds the measured times: the total, and each operator as the runtime profiles it.
    pub fn timed(
        &self,
        runtime: &str,
        graph: &GraphAnalysis,
        steps: &[OperatorStep],
        times: &[EngineOperatorTime],
        timed: &TimedInference,
    ) -> TrialRecord {
        let (parts, _) = measure::parts(graph, steps, times);
        let size = |values: &[metier_onnx::analysis::ValueDescription]| -> f64 {
            values
                .iter()
                .map(|value| 4.0 * operator_features::count(&operator_features::dims(Some(value))))
                .sum()
        };
        TrialRecord {
            // Under load the typical time is needed, not the time of undisturbed moments.
            seconds: if self.pressure.is_idle() { timed.seconds } else { timed.median },
            median: timed.median,
            cpu_seconds: timed.cpu_seconds,
            multiply_adds: graph.multiply_adds,
            counts: SopranoCounts::of(&graph.characteristics, size(&graph.inputs), size(&graph.outputs))
                .features(),
            parts: TrialRecord::kept_parts(&parts),
            ..self.to_record(runtime)
        }
    }
}

pub fn measure_point(
    runtime: &EngineRuntime,
    source: GraphSource<'_>,
    graph: &GraphAnalysis,
    probe: &TrialPoint,
    effort: &MeasureEffort,
    pulse: &mut NoiseProbe,
) -> Result<TrialRecord, LatencyError> {
    let engine = runtime.engine().name();
    let steps = measure::steps(graph, engine, probe.threads)?;
    let (given, _) = graph_inputs::make_inputs(graph, &graph_inputs::InputOptions::default())?;
    let mut loaded = runtime.load(source)?;
    loaded.set_inputs(&given)?;
    // No noise filtering while this process generates the load.
    let mut pulse = probe.pressure.is_idle().then_some((pulse, probe.threads));
    let timed = measure::time_graph(
        &mut loaded,
        effort,
        pulse.as_mut().map(|(pulse, threads)| (&mut **pulse, *threads)),
    )?;
    let is_disturbed = timed.median > DISTURBED_RATIO * timed.seconds || timed.crowded > MAX_CROWDED_SHARE;
    if probe.is_trial && probe.pressure.is_idle() && is_disturbed {
        let why = "something else ran meanwhile".to_string();
        return Err(LatencyError::Trial { name: probe.name.to_string(), why });
    }
    let times = match effort.looks {
        0 => Vec::new(),
        looks => measure::time_operators(&mut loaded, looks, pulse)?,
    };
    Ok(probe.timed(engine, graph, &steps, &times, &timed))
}

/// Trains a model on the known points, if they suffice.
fn learn(known: &[TrialRecord]) -> Option<OperatorPredictor> {
    let points: Vec<TimedGraph> = known.iter().map(TrialRecord::point).collect();
    let points: Vec<&TimedGraph> = points.iter().collect();
    OperatorPredictor::learn(&points, &TREE_FEATURES.map(String::from), LINEAR_FEATURES.len()).ok()
}

/// Selects the network of an iteration. Styles rotate, so that each has its share of the training
/// data. Within a style every second network is the most uncertain of a few candidates. Among all
/// styles the most uncertain would mostly be the smallest.
fn choose(turn: u64, laws: Option<&OperatorPredictor>, runtime: &str) -> u64 {
    let styles = network::STYLES.len() as u64;
    let (round, style) = (turn / styles, turn % styles);
    let number = |candidate: u64| (round * CANDIDATES_PER_TRIAL + candidate) * styles + style;
    let Some(laws) = laws.filter(|_| round % 2 == 1) else { return number(0) };
    let doubt = |number: u64| {
        let (_, bytes) = network::network(number);
        let graph = analyse(&bytes, &ShapeBindings::default()).ok()?;
        let steps = measure::steps(&graph, runtime, 1).ok()?;
        let parts: Vec<_> = steps.iter().map(|step| measure::part(step, None)).collect();
        let sum = sum(laws, &parts, 1);
        Some(sum.spread + 0.5 * (1.0 - sum.in_range))
    };
    let scored = (0..CANDIDATES_PER_TRIAL)
        .map(|candidate| (number(candidate), doubt(number(candidate)).unwrap_or(0.0)));
    scored.reduce(|a, b| if b.1 > a.1 { b } else { a }).map_or(number(0), |(number, _)| number)
}
