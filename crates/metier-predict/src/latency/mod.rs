//! Predicts the inference time of a graph on a device, with an interval and a reason.
//!
//! [`operator_features`] computes the operators that a runtime executes. [`passport_estimate`]
//! predicts from a device's passport alone. A [`learned_predictor`] trained on the device is
//! better; one trained elsewhere is transferred. [`trial`] makes training data, [`run_trials`]
//! imports measured runs, [`fit`] trains, [`retrain`] repeats that for new data, and [`memory`]
//! predicts memory. [`LatencyPredictor`] is the common entry point for command line, HTTP API and
//! placement. It holds the predictors in use, is cheap to share between threads, and deterministic.

pub mod compare_predictors;
pub mod conditions;
mod error;
pub mod family;
pub mod fit;
pub mod generic_device;
mod kinds;
pub mod learned_predictor;
pub mod measured_graph;
pub mod memory;
pub mod operator_features;
mod operator_fusion;
pub mod passport_estimate;
mod physical_bound;
pub mod retrain;
pub mod run_trials;
pub mod soprano_counts;
pub mod trial;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lifecycle::standing;
use crate::operator_model::device_adaptation::TransferGraph;
use metier_onnx::{DataType, GraphAnalysis};
use metier_store::RecordStore;
use metier_types::passport::PassportOrigin;
use metier_types::{
    ContentDigest, Device, NumberPrecision, Passport, Prediction, PredictionInterval, Ratio, Seconds,
    UtcTimestamp,
};

pub use conditions::InferenceConditions;
use conditions::{ONNX_RUNTIME, RTEN};
pub use error::LatencyError;
use family::OperatorFamily;
pub use kinds::{KINDS, LatencyKind, MemoryKind};
use learned_predictor::{DeviceTransfer, KIND, LatencyPredictorFile, LearnedPredictor};
use operator_features::OperatorStep;
use passport_estimate::{AcceleratorSpeed, DeviceSpeeds};
use physical_bound::PhysicalBound;
pub use soprano_counts::SopranoCounts;
use trial::record::{self, TrialRecord};

/// Coverage of all intervals.
pub const COVERAGE: f64 = 0.9;
/// Memory of a runtime without a graph.
const RUNTIME_BYTES: f64 = 16e6;

/// Predicts inference times.
#[derive(Debug, Clone)]
pub struct LatencyPredictor {
    passport: ContentDigest,
    learned: Arc<Vec<LearnedPredictor>>,
    memory: Arc<Vec<(ContentDigest, memory::MemoryPredictor)>>,
}

/// Components of one prediction.
struct GraphEstimate {
    steps: Vec<OperatorStep>,
    /// Seconds of each step over all iterations.
    times: Vec<f64>,
    /// Least seconds of all steps together, by the device's peak rates.
    least: f64,
    /// Interval factors below and above.
    factors: (f64, f64),
    in_range: bool,
    predictor: ContentDigest,
    /// Description of the data source.
    source: String,
}

/// Predicted time of one operator.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedOperatorTime {
    /// Index of the operator in the graph.
    pub operator: usize,
    /// Seconds over all iterations.
    pub seconds: Seconds,
    /// Share of the graph's time.
    pub share: Ratio,
    /// The operator that this one is fused into, if any.
    pub within: Option<usize>,
}

impl LatencyPredictor {
    /// Loads the predictors in use.
    pub fn open(store: &RecordStore) -> Result<Self, LatencyError> {
        let read = standing::read_in_use(store, KIND, LatencyPredictorFile::read)?.into_iter();
        let mut all: Vec<LearnedPredictor> =
            read.map(|(id, file)| LearnedPredictor { id, file, elsewhere: BTreeMap::new() }).collect();
        if !all.is_empty() {
            load_transfers(store, &mut all)?;
        }
        let memory = Arc::new(standing::read_in_use(store, memory::KIND, memory::MemoryPredictor::read)?);
        Ok(Self { passport: passport_estimate::id(), learned: Arc::new(all), memory })
    }

    pub fn from_passports() -> Self {
        Self { passport: passport_estimate::id(), learned: Arc::default(), memory: Arc::default() }
    }

    /// Predicts the time of one inference.
    pub fn graph(
        &self,
        graph: &GraphAnalysis,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Result<Prediction, LatencyError> {
        let estimate = self.estimate(graph, passport, &conditions.on(passport))?;
        let sum: f64 = estimate.times.iter().sum();
        let because = because_of(&estimate, graph);
        let low = (sum / estimate.factors.0).max(estimate.least);
        let interval = PredictionInterval::new(low.min(sum), sum * estimate.factors.1, Ratio(COVERAGE))?;
        Ok(Prediction::new(sum, "seconds", interval, estimate.predictor, estimate.in_range, because)?)
    }

    /// Predicts the time of each operator.
    pub fn operators(
        &self,
        graph: &GraphAnalysis,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Result<Vec<PredictedOperatorTime>, LatencyError> {
        let GraphEstimate { steps, times, .. } = self.estimate(graph, passport, &conditions.on(passport))?;
        let sum: f64 = times.iter().sum();
        let mut all: Vec<PredictedOperatorTime> = (0..graph.operators.len())
            .map(|operator| PredictedOperatorTime {
                operator,
                seconds: Seconds(0.0),
                share: Ratio(0.0),
                within: None,
            })
            .collect();
        for (step, seconds) in steps.iter().zip(&times) {
            if let Some(time) = all.get_mut(step.operator) {
                (time.seconds, time.share) = (Seconds(*seconds), Ratio(seconds / sum));
            }
            for absorbed in &step.absorbed {
                if let Some(predicted_operator_time) = all.get_mut(*absorbed) {
                    predicted_operator_time.within = Some(step.operator);
                }
            }
        }
        Ok(all)
    }

    /// Predictors trained for other devices or runtimes, the best informed first.
    fn nearest(&self, passport: &Passport, runtime: &str) -> Vec<&LearnedPredictor> {
        let graphs = |predictor: &LearnedPredictor| {
            predictor.transfer_to(passport, runtime).map_or(0, |moved| moved.graphs)
        };
        let is_alike = |learned_predictor: &LearnedPredictor| learned_predictor.file.law.runtime == runtime;
        let mut all: Vec<&LearnedPredictor> = self
            .learned
            .iter()
            // With another device, another runtime and no measured graphs, a transfer is no better
            // than the passport estimate.
            .filter(|candidate| graphs(candidate) > 0 || is_alike(candidate) || candidate.is_of(passport))
            .collect();
        all.sort_by_key(|candidate| {
            (Reverse(graphs(candidate)), !is_alike(candidate), !candidate.is_of(passport))
        });
        all
    }

    fn estimate(
        &self,
        graph: &GraphAnalysis,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Result<GraphEstimate, LatencyError> {
        conditions.check()?;
        let steps = operator_features::steps(graph, &conditions.runtime)?;
        let precision = precision(graph);
        let bound = PhysicalBound::new(passport, conditions.threads);
        let bounded =
            |estimate: GraphEstimate| physical_bound::widen_for_unknown(bound.apply(estimate, graph), graph);
        let is_own = |predictor: &&LearnedPredictor| {
            predictor.is_of(passport) && predictor.file.law.runtime == conditions.runtime
        };
        if let Some(learned_predictor) = self.learned.iter().find(is_own) {
            let answer = learned_predictor.predict(&steps, conditions);
            let mut source =
                format!("learned from {} timed graphs on {}", learned_predictor.file.law.rows, passport.name);
            if !answer.in_range {
                source.push_str(&format!(
                    "; {:.0} % of the time is within the training range",
                    100.0 * answer.inside
                ));
                if !answer.unseen.is_empty() {
                    let few: Vec<&str> = answer.unseen.iter().take(4).map(String::as_str).collect();
                    source.push_str(&format!(", never seen: {}", few.join(", ")));
                }
            }
            let (factors, in_range) = ((answer.factor, answer.factor), answer.in_range);
            return Ok(bounded(GraphEstimate {
                steps,
                times: answer.each,
                least: 0.0,
                factors,
                in_range,
                predictor: learned_predictor.id,
                source,
            }));
        }
        for learned in self.nearest(passport, &conditions.runtime) {
            let Some(answer) = learned.predict_transferred(&steps, conditions, passport, precision)? else {
                continue;
            };
            let source = learned.transfer_source(passport, &conditions.runtime);
            let (factors, in_range) = ((answer.factor, answer.factor), answer.in_range);
            let estimate = bounded(GraphEstimate {
                steps,
                times: answer.each,
                least: 0.0,
                factors,
                in_range,
                predictor: learned.id,
                source,
            });
            // Measurements on the device are of its processor.
            let is_timed =
                learned.is_of(passport) || learned.transfer_to(passport, &conditions.runtime).is_some();
            return Ok(if is_timed {
                estimate
            } else {
                accelerated(estimate, passport, conditions, precision)
            });
        }
        let speeds = DeviceSpeeds::of(passport, conditions.threads, precision)?;
        let times = steps
            .iter()
            .map(|step| {
                let idle = passport_estimate::seconds(step, &speeds, conditions) * step.turns as f64;
                let moved = step.bytes * step.turns as f64 / speeds.bytes;
                idle * passport_estimate::slowdown(
                    conditions,
                    speeds.cores,
                    (moved / idle.max(1e-12)).min(1.0),
                )
            })
            .collect();
        let source = format!(
            "from {} of {}: no graph was timed there, so the interval is wide",
            speeds.known.source(),
            passport.name
        );
        let factors = (speeds.reach(), speeds.reach());
        let estimate = bounded(GraphEstimate {
            steps,
            times,
            least: 0.0,
            factors,
            in_range: false,
            predictor: self.passport,
            source,
        });
        Ok(accelerated(estimate, passport, conditions, precision))
    }
}

/// The prediction for a device with a faster accelerator: the accelerator's time, with an interval
/// up to the time on the processor alone.
fn accelerated(
    estimate: GraphEstimate,
    passport: &Passport,
    conditions: &InferenceConditions,
    precision: NumberPrecision,
) -> GraphEstimate {
    let Some(accelerator) = AcceleratorSpeed::of(passport, &conditions.runtime, precision) else {
        return estimate;
    };
    let cores = f64::from(passport.device.cpu.threads.max(1));
    let slowdown = passport_estimate::slowdown(conditions, cores, 0.0);
    let time = |step: &OperatorStep| {
        let turns = step.turns as f64;
        let starts =
            if matches!(step.family, OperatorFamily::View | OperatorFamily::Scalar) { 0.0 } else { turns };
        let bytes = if starts > 0.0 { step.bytes * turns } else { 0.0 };
        accelerator.seconds(step.multiply_adds * turns, bytes, starts, slowdown)
    };
    let times: Vec<f64> = estimate.steps.iter().map(time).collect();
    let (alone, with) = (estimate.times.iter().sum::<f64>(), times.iter().sum::<f64>());
    if with >= alone || with <= 0.0 {
        return estimate;
    }
    let factors = (
        estimate.factors.0.max(passport_estimate::STATED_INTERVAL_FACTOR),
        estimate.factors.1 * alone / with,
    );
    let source = accelerator_note(&estimate.source, &accelerator, alone);
    GraphEstimate { times, least: 0.0, factors, in_range: false, source, ..estimate }
}

/// Adds to the source that an accelerator was assumed, and the time on the processor alone.
fn accelerator_note(source: &str, accelerator: &AcceleratorSpeed, alone: f64) -> String {
    format!(
        "on its accelerator ({}) by what the passport states, if the runtime uses it: else {} on the processor, {source}",
        accelerator.name,
        Seconds(alone)
    )
}

/// Fits transfers from graphs timed on other devices, or in the other runtime.
fn load_transfers(store: &RecordStore, all: &mut [LearnedPredictor]) -> Result<(), LatencyError> {
    for device in store.devices()? {
        let has_own = |runtime: &str| {
            all.iter().any(|predictor| {
                predictor.file.device.id == device.id && predictor.file.law.runtime == runtime
            })
        };
        let strange: Vec<&str> = [RTEN, ONNX_RUNTIME].into_iter().filter(|name| !has_own(name)).collect();
        // The device's own predictor may have thousands of trials; they are not read.
        let mut trials = store.trials(&device.id, record::KIND)?;
        trials.retain(|trial| strange.iter().any(|runtime| record::is_of_runtime(&trial.key, runtime)));
        let records = TrialRecord::join(&trials);
        if records.is_empty() {
            continue;
        }
        let known = metier_device::passport::find_for_device(Some(store), &device);
        let passport = known.unwrap_or_else(|| unmeasured(device.clone()));
        for runtime in strange {
            for predictor in all.iter_mut() {
                let of = |is_idle: bool| -> Vec<(String, TransferGraph)> {
                    let usable = records.iter().filter(|record| {
                        record.runtime == runtime && !record.is_trial && record.pressure.is_idle() == is_idle
                    });
                    let sample_of = |record: &TrialRecord| {
                        Some((record.name.clone(), predictor.transfer_sample(record, &passport)?))
                    };
                    usable.filter_map(sample_of).collect()
                };
                // Runs with co-runners are weaker evidence, used only if idle runs are missing.
                let idle = of(true);
                let is_busy = idle.is_empty();
                let measured = if is_busy { of(false) } else { idle };
                if !measured.is_empty() {
                    let place = (device.id.to_string(), runtime.to_string());
                    predictor
                        .elsewhere
                        .insert(place, DeviceTransfer { is_busy, ..DeviceTransfer::fit(&measured) });
                }
            }
        }
    }
    Ok(())
}

/// A passport of a device without measurements or specifications.
pub fn unmeasured(device: Device) -> Passport {
    Passport {
        made: UtcTimestamp::UNIX_EPOCH,
        ..Passport::without_figures(device, PassportOrigin::Specified)
    }
}

/// The precision of most of the graph's work.
fn precision(graph: &GraphAnalysis) -> NumberPrecision {
    let by_adds = |is_counted: fn(DataType) -> bool| -> u64 {
        let of = graph
            .operators
            .iter()
            .filter(|cost| cost.inputs.first().and_then(|value| value.data_type).is_some_and(is_counted));
        of.filter_map(|cost| cost.multiply_adds?.checked_mul(cost.turns)).fold(0, u64::saturating_add)
    };
    let small = by_adds(|kind| matches!(kind, DataType::Int8 | DataType::Uint8));
    let half = by_adds(|kind| matches!(kind, DataType::Float16 | DataType::Bfloat16));
    let double = by_adds(|kind| kind == DataType::Double);
    let most = graph.multiply_adds / 2;
    match (small > most, half > most, double > most) {
        (true, ..) => NumberPrecision::I8,
        (_, true, _) => NumberPrecision::F16,
        (.., true) => NumberPrecision::F64,
        _ => NumberPrecision::F32,
    }
}

/// The reason as a sentence: the most expensive operators, and the data source.
fn because_of(estimate: &GraphEstimate, graph: &GraphAnalysis) -> String {
    let sum: f64 = estimate.times.iter().sum();
    let mut families: BTreeMap<&str, f64> = BTreeMap::new();
    for (step, seconds) in estimate.steps.iter().zip(&estimate.times) {
        *families.entry(step.family.name()).or_default() += seconds;
    }
    let most = families.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    format!(
        "{} multiply-adds in {} operators, {} takes {:.0} %; {}",
        format_count(graph.multiply_adds as f64),
        estimate.steps.len(),
        most.0,
        100.0 * most.1 / sum,
        estimate.source
    )
}

/// A count with SI prefix.
fn format_count(count: f64) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.into_iter().find(|(step, _)| count >= *step) {
        Some((step, word)) => format!("{:.2} {word}", count / step),
        None => format!("{count:.0}"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
