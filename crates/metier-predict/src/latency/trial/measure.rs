//! Times a graph for training: in total, and operator by operator.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::operator_model::GraphOperator;
use metier_infer::{EngineOperatorTime, LoadedGraph};
use metier_onnx::GraphAnalysis;

use super::noise_probe::{HostNoise, NoiseProbe};
use crate::latency::operator_features::{self, OperatorStep};

/// Effort for a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasureEffort {
    /// Seconds of repeats, unless the fewest repeats take longer.
    pub seconds: f64,
    pub fewest: usize,
    pub most: usize,
    /// Number of profiled inferences.
    pub looks: usize,
}

/// Measured times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedInference {
    /// Lower quartile of the repeats, so that short disturbances do not count.
    pub seconds: f64,
    /// Median of the repeats.
    pub median: f64,
    /// Median processor time.
    pub cpu_seconds: f64,
    pub runs: usize,
    /// Share of the segments with CPU contention.
    pub crowded: f64,
}

/// Length of a timing segment.
const PIECE_SECONDS: f64 = 0.004;
/// Largest multiple of the effort on a noisy host.
const MAX_EFFORT_FACTOR: f64 = 3.0;
/// Share of the effort in quiet repeats that suffices.
const ENOUGH_CALM_SHARE: f64 = 0.3;
/// Fewest quiet repeats that represent the point.
const MIN_CALM_REPEATS: usize = 3;
/// Largest number of profiling attempts until the host is quiet.
const MAX_OPERATOR_LOOKS: usize = 3;

/// Repeats a graph. The first repeats are discarded. With a noise probe only repeats on a quiet
/// host count, if there are any.
pub fn time_graph(
    loaded: &mut LoadedGraph,
    effort: &MeasureEffort,
    mut pulse: Option<(&mut NoiseProbe, u32)>,
) -> Result<TimedInference, metier_infer::Error> {
    let first = loaded.run_once()?.wall.0;
    for _ in 0..if first > 0.2 { 0 } else { 2 } {
        loaded.run_once()?;
    }
    let (mut walls, mut cpus, mut calm) = (Vec::new(), Vec::new(), Vec::new());
    let (mut pieces, mut crowded) = (0.0, 0.0);
    let begin = Instant::now();
    let mut piece = |walls: &mut Vec<f64>, cpus: &mut Vec<f64>| -> Result<(), metier_infer::Error> {
        let (begin, most) = (Instant::now(), walls.len() + effort.most.div_ceil(4));
        while walls.len() < most && begin.elapsed().as_secs_f64() < PIECE_SECONDS {
            let spent = loaded.run_once()?;
            walls.push(spent.wall.0);
            cpus.push(spent.cpu.0);
        }
        Ok(())
    };
    loop {
        let before = walls.len();
        let host = match &mut pulse {
            Some((pulse, threads)) => {
                let (done, host) = pulse.guard(*threads, || piece(&mut walls, &mut cpus));
                done?;
                host
            }
            None => {
                piece(&mut walls, &mut cpus)?;
                HostNoise::Calm
            }
        };
        pieces += 1.0;
        crowded += f64::from(u8::from(host == HostNoise::Crowded));
        if host == HostNoise::Calm {
            calm.extend_from_slice(&walls[before..]);
        }
        let spent = begin.elapsed().as_secs_f64();
        let value = if pulse.is_some() { ENOUGH_CALM_SHARE } else { 1.0 } * effort.seconds;
        let is_enough =
            calm.len() >= effort.fewest && (calm.iter().sum::<f64>() >= value || calm.len() >= effort.most);
        let is_late = walls.len() >= effort.fewest && spent >= MAX_EFFORT_FACTOR * effort.seconds;
        if is_enough || is_late {
            return Ok(TimedInference {
                crowded: crowded / pieces,
                ..TimedInference::of_calm(calm, walls, cpus)
            });
        }
    }
}

/// Profiles each operator. With a noise probe it tries up to three times until the host is quiet;
/// the shortest profile counts.
pub fn time_operators(
    loaded: &mut LoadedGraph,
    count: usize,
    pulse: Option<(&mut NoiseProbe, u32)>,
) -> Result<Vec<EngineOperatorTime>, metier_infer::Error> {
    let Some((pulse, threads)) = pulse else { return loaded.time_operators(count) };
    let mut best: Option<(f64, Vec<EngineOperatorTime>)> = None;
    for _ in 0..MAX_OPERATOR_LOOKS {
        let (times, host) = pulse.guard(threads, || loaded.time_operators(count));
        let engine_operator_times = times?;
        let sum = engine_operator_times.iter().map(|time| time.seconds).sum();
        if best.as_ref().is_none_or(|(least, _)| sum < *least) {
            best = Some((sum, engine_operator_times));
        }
        if host == HostNoise::Calm {
            break;
        }
    }
    Ok(best.map(|(_, times)| times).unwrap_or_default())
}

impl TimedInference {
    /// Uses repeats on a quiet host. If these are too few it uses all; the shortest was disturbed
    /// least.
    pub(super) fn of_calm(calm: Vec<f64>, walls: Vec<f64>, cpus: Vec<f64>) -> Self {
        if calm.len() >= MIN_CALM_REPEATS {
            return Self { runs: walls.len(), ..Self::of(calm, cpus) };
        }
        let least = walls.iter().copied().fold(f64::INFINITY, f64::min);
        Self { seconds: least, ..Self::of(walls, cpus) }
    }

    /// Builds the result from the wall and processor time of each repeat.
    pub fn of(mut walls: Vec<f64>, mut cpus: Vec<f64>) -> Self {
        walls.sort_by(f64::total_cmp);
        cpus.sort_by(f64::total_cmp);
        let at = |list: &[f64], share: usize| {
            list.get(list.len() * share / 4).or(list.last()).copied().unwrap_or(0.0)
        };
        Self {
            seconds: at(&walls, 1),
            median: at(&walls, 2),
            cpu_seconds: at(&cpus, 2),
            runs: walls.len(),
            crowded: 0.0,
        }
    }
}

/// Steps with their profiled times, and the profiled time outside any step.
pub fn parts(
    graph: &GraphAnalysis,
    steps: &[OperatorStep],
    times: &[EngineOperatorTime],
) -> (Vec<GraphOperator>, Vec<EngineOperatorTime>) {
    let places = StepIndex::of(graph, steps);
    let mut seconds: Vec<Option<f64>> = vec![None; steps.len()];
    let mut beside = Vec::new();
    for time in times {
        match places.find(time) {
            // Sub-graphs may repeat names, which the runtime reports as one; the time is divided by
            // iterations.
            Some(found) => {
                let all: f64 = found.iter().map(|at| steps[*at].turns as f64).sum();
                for at in found {
                    let share = steps[*at].turns as f64 / all.max(1.0);
                    *seconds[*at].get_or_insert(0.0) += share * time.seconds;
                }
            }
            None => beside.push(time.clone()),
        }
    }
    let parts = steps.iter().zip(seconds).map(|(step, seconds)| part(step, seconds)).collect();
    (parts, beside)
}

/// Index of steps by the values they produce or first consume, and by operator name.
struct StepIndex<'a> {
    makers: BTreeMap<&'a str, Vec<usize>>,
    takers: BTreeMap<&'a str, Vec<usize>>,
    names: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> StepIndex<'a> {
    fn of(graph: &'a GraphAnalysis, steps: &[OperatorStep]) -> Self {
        let mut this = Self { makers: BTreeMap::new(), takers: BTreeMap::new(), names: BTreeMap::new() };
        for (at, step) in steps.iter().enumerate() {
            for operator in step.absorbed.iter().chain([&step.operator]) {
                let operator = &graph.operators[*operator];
                for value in &operator.outputs {
                    let makers = this.makers.entry(value.name.as_str()).or_default();
                    if !makers.contains(&at) {
                        makers.push(at);
                    }
                }
                for value in &operator.inputs {
                    this.takers.entry(&value.name).or_insert_with(|| vec![at]);
                }
                if !operator.name.is_empty() {
                    this.names.entry(&operator.name).or_insert_with(|| vec![at]);
                }
            }
        }
        this
    }

    /// The steps of a profiled operator: one, except for names used in several sub-graphs.
    fn find(&self, time: &EngineOperatorTime) -> Option<&[usize]> {
        let made = time
            .outputs
            .iter()
            .find_map(|name| self.makers.get(name.as_str()).or_else(|| self.makers.get(written_for(name))));
        // ONNX Runtime names a convolution in its own layout after the operator or its output.
        let name = time.name.strip_suffix("_nchwc").unwrap_or(&time.name);
        let named = || self.names.get(name).or_else(|| self.makers.get(name)).filter(|_| !name.is_empty());
        // Conversion into that layout belongs to the operator that needs it.
        let consumer = || {
            let takes = time.inputs.iter().find_map(|name| self.takers.get(name.as_str()));
            takes.filter(|_| time.kind == "ReorderInput")
        };
        made.or_else(named).or_else(consumer).map(Vec::as_slice)
    }
}

/// Operators missing in the built-in engine are decomposed; the parts' values are named after the
/// whole.
fn written_for(name: &str) -> &str {
    name.rsplit_once('~').map_or(name, |(whole, _)| whole)
}

/// Converts a step to an operator of the model.
pub fn part(step: &OperatorStep, seconds: Option<f64>) -> GraphOperator {
    GraphOperator {
        family: step.family.name().to_string(),
        kind: step.kind.clone(),
        turns: step.turns as f64,
        basis: step.basis.to_vec(),
        features: step.features.to_vec(),
        seconds,
    }
}

/// Steps of a graph for a number of threads.
pub fn steps(
    graph: &GraphAnalysis,
    runtime: &str,
    threads: u32,
) -> Result<Vec<OperatorStep>, crate::latency::LatencyError> {
    let mut steps = operator_features::steps(graph, runtime)?;
    for step in &mut steps {
        step.features[operator_features::FEATURE_COUNT - 1] = f64::from(threads);
    }
    Ok(steps)
}
