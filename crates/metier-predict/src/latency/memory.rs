//! Predicts the memory that a graph needs: a constant for the runtime, plus a factor each for
//! weights and activations.
//!
//! Without measurements the three numbers are estimates with a wide interval. `metier bench`
//! measures peak memory; the numbers and the interval are then fitted and validated on held-out
//! graphs. Memory requests for a cluster use the upper end.

use std::collections::{BTreeMap, BTreeSet};

use crate::operator_model::linear::fit_proportional;
use metier_learn::conformal::{CalibrationRow, ConformalCalibration};
use metier_learn::cross_validation::hash_group;
use metier_onnx::GraphAnalysis;
use metier_store::{RecordStore, StoredTrial};
use metier_types::schema::RecordSchema;
use metier_types::{
    Bytes, ContentDigest, Device, DeviceId, DeviceRef, ExtraFields, HeldOutError, Prediction,
    PredictionInterval, Predictor, PredictorStanding, Ratio, Run, UtcTimestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::conditions::InferenceConditions;
use super::{COVERAGE, LatencyError, LatencyPredictor, RUNTIME_BYTES};
use crate::lifecycle::{self, PredictorScope, UnseenPredictions, standing};

/// The record's `kind`, also of its trials.
pub const KIND: &str = "memory";
/// Schema of the predictor's file.
pub const SCHEMA: &str = "metier.memory/1";
/// Fewest graphs for a fit.
const MIN_GRAPHS: usize = 4;
/// Default coefficients without measurements, and their upper limit.
const GUESSED_COEFFICIENTS: [f64; 3] = [RUNTIME_BYTES, 1.2, 1.3];
const MAX_COEFFICIENTS: [f64; 3] = [RUNTIME_BYTES, 2.5, 3.0];
/// Sizes up to this many bytes always count as seen.
const SMALL_BYTES: f64 = 1e6;

/// A measured graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct MemorySample {
    name: String,
    runtime: String,
    /// Bytes of weights, then of activations.
    weights: f64,
    alive: f64,
    /// Peak memory.
    bytes: f64,
}

impl MemorySample {
    fn basis(&self) -> [f64; 3] {
        [1.0, self.weights, self.alive]
    }
}

/// File of a predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryPredictor {
    /// `metier.memory/1`.
    pub schema: String,
    /// Device of the training data.
    pub device: DeviceRef,
    /// Runtime of the training data.
    pub runtime: String,
    /// Bytes for the runtime, per byte of weights, per byte of activations; all non-negative.
    pub coefficients: [f64; 3],
    /// Held-out errors on the logarithm.
    pub calibration: ConformalCalibration,
    /// Largest weights and activations in training, in bytes.
    pub largest: [f64; 2],
}

impl MemoryPredictor {
    /// Reads and checks a file.
    pub fn read(id: &ContentDigest, bytes: &[u8]) -> Result<Self, lifecycle::LifecycleError> {
        let wrong = |why: String| lifecycle::LifecycleError::unusable(id, why);
        let law: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let is_fit = |value: &f64| value.is_finite() && *value >= 0.0;
        if law.schema != SCHEMA || !law.coefficients.iter().all(is_fit) {
            return Err(wrong(format!("want {SCHEMA:?} with coefficients of at least 0")));
        }
        Ok(law)
    }
}

fn sum(coefficients: &[f64; 3], basis: &[f64; 3]) -> f64 {
    coefficients.iter().zip(basis).map(|(a, b)| a * b).sum()
}

/// Bytes of weights and of simultaneously live activations, and whether the latter are known.
fn memory_needs(graph: &GraphAnalysis) -> (f64, f64, bool) {
    let weights = graph.weight_bytes.0 as f64;
    let largest =
        graph.operators.iter().filter_map(|cost| Some(cost.read_bytes?.0 + cost.written_bytes?.0)).max();
    let alive = graph.peak_activation_bytes.map_or(largest.unwrap_or(0), |bytes| bytes.0) as f64;
    (weights, alive, graph.peak_activation_bytes.is_some())
}

impl LatencyPredictor {
    /// Predicts peak memory. A fitted model of the runtime, from any device, has precedence over
    /// estimates.
    pub fn memory(
        &self,
        graph: &GraphAnalysis,
        conditions: &InferenceConditions,
    ) -> Result<Prediction, LatencyError> {
        conditions.check()?;
        let (weights, alive, is_known) = memory_needs(graph);
        let basis = [1.0, weights, alive];
        let of = format!(
            "{} of weights, at most {} of live activations, and the runtime itself",
            graph.weight_bytes,
            Bytes(alive as u64)
        );
        let law = self.memory.iter().find(|(_, law)| law.runtime == conditions.runtime);
        if let Some((id, law)) = law
            && let Some(reach) = law.calibration.interval_factor(COVERAGE)
        {
            // Graphs of a few kilobytes do not determine coefficients for hundreds of megabytes:
            // beyond twice the largest training size the estimates are used.
            let reached = |at: usize| basis[at + 1].min(2.0 * law.largest[at].max(SMALL_BYTES));
            let seen = [1.0, reached(0), reached(1)];
            let beyond = [0.0, weights - seen[1], alive - seen[2]];
            let is_larger = beyond != [0.0; 3];
            let is_inside = is_known && !is_larger;
            let learned = sum(&law.coefficients, &seen).max(1.0);
            let factor = (reach * if is_inside { 1.0 } else { 2.0 }).min(3.0).exp();
            let value = learned + sum(&GUESSED_COEFFICIENTS, &beyond);
            let interval = PredictionInterval::new(
                learned / factor,
                learned * factor + sum(&MAX_COEFFICIENTS, &beyond),
                Ratio(COVERAGE),
            )?;
            let further = if is_larger { "; it is larger than these, and estimated beyond them" } else { "" };
            let because = format!(
                "{of}; as {} graphs used it with {} on {}{further}",
                law.calibration.groups(),
                law.runtime,
                law.device.name
            );
            return Ok(Prediction::new(value, "bytes", interval, *id, is_inside, because)?);
        }
        let value = sum(&GUESSED_COEFFICIENTS, &basis);
        let interval =
            PredictionInterval::new(weights.min(value), sum(&MAX_COEFFICIENTS, &basis), Ratio(COVERAGE))?;
        let because = format!("{of}; an estimate, nothing was measured");
        Ok(Prediction::new(value, "bytes", interval, self.passport, is_known, because)?)
    }
}

/// Stores the peak memory of a run as a trial.
pub(super) fn record_memory_trial(
    store: &RecordStore,
    run: &Run,
    graph: &GraphAnalysis,
    name: &str,
) -> Result<(), LatencyError> {
    let (weights, alive, is_known) = memory_needs(graph);
    // Peak memory of the process, without the page cache charged to the whole cgroup.
    let used = run.memory.peak_process_bytes.or(run.summary.peak_memory_bytes);
    let (Some(used), true, Some(of)) = (used, is_known, &run.context.graph) else { return Ok(()) };
    let seen = MemorySample {
        name: name.to_string(),
        runtime: of.runtime.clone(),
        weights,
        alive,
        bytes: used.0 as f64,
    };
    let shapes: Vec<String> = of.shapes.iter().map(|(name, sizes)| format!("{name}{sizes:?}")).collect();
    let shapes = metier_store::digest::digest_bytes(shapes.join(" ").as_bytes());
    // Many graphs are named `model`, so the key contains the digest.
    let key = format!("{name}/{}/{}/t{}/{}", of.digest.short(), of.runtime, of.threads, shapes.short());
    let unkept =
        |error: serde_json::Error| LatencyError::Trial { name: name.to_string(), why: error.to_string() };
    let trial = StoredTrial { key, record: serde_json::to_string(&seen).map_err(unkept)? };
    Ok(store.put_trials(&run.device.id, KIND, &[trial])?)
}

fn learn(rows: &[&MemorySample]) -> [f64; 3] {
    // Each graph counts alike, whatever its number of measured shapes.
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    rows.iter().for_each(|row| *sizes.entry(&row.name).or_default() += 1.0);
    let bases: Vec<[f64; 3]> = rows.iter().map(|row| row.basis()).collect();
    let weighted: Vec<(&[f64], f64, f64)> = rows
        .iter()
        .zip(&bases)
        .map(|(row, basis)| (basis.as_slice(), row.bytes, 1.0 / sizes.get(row.name.as_str()).unwrap_or(&1.0)))
        .collect();
    let found = fit_proportional(&weighted, 3);
    [found[0], found[1], found[2]]
}

fn memory_samples(
    store: &RecordStore,
    device: &DeviceId,
    runtime: &str,
) -> Result<Vec<MemorySample>, LatencyError> {
    let all = store.trials(device, KIND)?;
    let read = all.iter().filter_map(|trial| serde_json::from_str::<MemorySample>(&trial.record).ok());
    Ok(read.filter(|seen| seen.runtime == runtime && seen.bytes > 0.0).collect())
}

/// Fits on a device's runs and stores the model if it beats the estimates on held-out graphs.
/// `None` with too few graphs.
pub fn fit(store: &RecordStore, device: &Device, runtime: &str) -> Result<Option<Predictor>, LatencyError> {
    let all = memory_samples(store, &device.id, runtime)?;
    let names: BTreeSet<&str> = all.iter().map(|seen| seen.name.as_str()).collect();
    if names.len() < MIN_GRAPHS {
        return Ok(None);
    }
    let laws: BTreeMap<&str, [f64; 3]> = names
        .iter()
        .map(|name| (*name, learn(&all.iter().filter(|seen| seen.name != *name).collect::<Vec<_>>())))
        .collect();
    let unseen: Vec<CalibrationRow> = all
        .iter()
        .map(|seen| {
            let law = laws.get(seen.name.as_str()).unwrap_or(&GUESSED_COEFFICIENTS);
            let predicted = sum(law, &seen.basis()).max(1.0).ln();
            CalibrationRow { measured: seen.bytes.ln(), predicted, scale: 1.0, group: hash_group(&seen.name) }
        })
        .collect();
    let largest = |of: fn(&MemorySample) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let law = MemoryPredictor {
        schema: SCHEMA.to_string(),
        device: device.reference(),
        runtime: runtime.to_string(),
        coefficients: learn(&all.iter().collect::<Vec<_>>()),
        calibration: ConformalCalibration::new(&unseen)?,
        largest: [largest(|seen| seen.weights), largest(|seen| seen.alive)],
    };
    let bytes = serde_json::to_vec(&law)
        .map_err(|error| LatencyError::Trial { name: KIND.to_string(), why: error.to_string() })?;
    let id = metier_store::digest::digest_bytes(&bytes);
    let held_out = score(&judge_held_out(&all, &unseen), names.len());
    let own = held_out.as_ref().and_then(|held| held.mean_absolute_error_ratio);
    let estimate = held_out.as_ref().and_then(|held| held.baselines.get(ESTIMATE_BASELINE)).copied();
    let because = format!(
        "its mean error on graphs that were left out is {}, that of the estimates {}",
        own.unwrap_or(Ratio(f64::INFINITY)),
        Ratio(estimate.unwrap_or(0.0))
    );
    let mut extra = ExtraFields::new();
    extra.insert("runtime".into(), json!(runtime));
    let mut record = Predictor {
        schema: RecordSchema::new(),
        id,
        kind: KIND.to_string(),
        name: format!("memory of {runtime} on {}", device.name),
        device: Some(device.reference()),
        standing: PredictorStanding::InUse,
        made: UtcTimestamp::now(),
        provenance: format!("{} runs of {} graphs", all.len(), names.len()),
        rows: all.len() as u64,
        runs: Vec::new(),
        held_out: held_out.into_iter().collect(),
        extra,
    };
    if standing::lost_against(&record, &[ESTIMATE_BASELINE]).is_some() {
        record.standing = PredictorStanding::Passed;
    }
    let standing = record.standing;
    standing::set_standing(&mut record, standing, &because);
    standing::install(store, &record, &bytes, &format!("{id} has learned from more runs"))?;
    // The new model includes the data of the old one, so it replaces it without a comparison.
    let scope = PredictorScope::of(&record);
    scope.demote_others(store, &id, &format!("{id} has learned from more runs"))?;
    scope.prune(store)?;
    Ok(Some(record))
}

/// Name of the estimate without measurements, among the baselines.
pub(super) const ESTIMATE_BASELINE: &str = "estimate from weights and activations";

/// Held-out prediction and estimate for one graph.
struct HeldOutMemory {
    unseen: CalibrationRow,
    measured: f64,
    predicted: f64,
    guessed: f64,
    /// Upper ends: of the estimate, and of the held-out interval.
    most: f64,
    upper: f64,
}

fn judge_held_out(all: &[MemorySample], unseen: &[CalibrationRow]) -> Vec<HeldOutMemory> {
    let one = |(seen, unseen_one): (&MemorySample, &CalibrationRow)| {
        let others: Vec<CalibrationRow> =
            unseen.iter().filter(|other| other.group != unseen_one.group).copied().collect();
        let reach = ConformalCalibration::new(&others).ok().and_then(|all| all.interval_factor(COVERAGE));
        let predicted = unseen_one.predicted.exp();
        HeldOutMemory {
            unseen: *unseen_one,
            measured: seen.bytes,
            predicted,
            guessed: sum(&GUESSED_COEFFICIENTS, &seen.basis()),
            most: sum(&MAX_COEFFICIENTS, &seen.basis()),
            upper: predicted * reach.unwrap_or(f64::INFINITY).exp(),
        }
    };
    all.iter().zip(unseen).map(one).collect()
}

fn score(all: &[HeldOutMemory], graphs: usize) -> Option<HeldOutError> {
    let list = |of: fn(&HeldOutMemory) -> f64| -> Vec<f64> { all.iter().map(of).collect() };
    let measured = list(|memory| memory.measured);
    let count = |is: &dyn Fn(&HeldOutMemory) -> bool| all.iter().filter(|memory| is(memory)).count();
    let share = |is: &dyn Fn(&HeldOutMemory) -> bool| count(is) as f64 / all.len() as f64;
    let middle = |of: fn(&HeldOutMemory) -> f64| {
        let mut ratios: Vec<f64> = all.iter().map(|memory| of(memory) / memory.measured).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().filter(|ratio| ratio.is_finite())
    };
    let mut held = UnseenPredictions {
        target: "memory",
        unit: "bytes",
        held_out: "graphs",
        groups: graphs,
        measured: &measured,
        predicted: &list(|memory| memory.predicted),
        covered: count(&|memory| {
            (memory.unseen.measured - memory.unseen.predicted).abs() <= (memory.upper / memory.predicted).ln()
        }),
        coverage: COVERAGE,
        baselines: &[(ESTIMATE_BASELINE, Some(list(|memory| memory.guessed)))],
    }
    .score()?;
    for (name, value) in [
        ("above_upper_end_ratio", Some(share(&|memory| memory.measured > memory.upper))),
        ("above_estimated_upper_end_ratio", Some(share(&|memory| memory.measured > memory.most))),
        ("upper_end_over_measured_median", middle(|memory| memory.upper)),
        ("estimated_upper_end_over_measured_median", middle(|memory| memory.most)),
    ] {
        held.extra.insert(name.into(), json!(value));
    }
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::run_trials::tests::Place;
    use crate::latency::run_trials::{self};
    use crate::latency::trial::collect::analyse;
    use metier_onnx::ShapeBindings;

    fn graph(place: &Place, number: u64) -> GraphAnalysis {
        analyse(&std::fs::read(place.graph(number)).unwrap(), &ShapeBindings::default()).unwrap()
    }

    #[test]
    fn what_runs_used_corrects_the_estimate_and_its_upper_end_holds() {
        let place = Place::new();
        let truth = |graph: &GraphAnalysis| {
            let (weights, alive, _) = memory_needs(graph);
            40e6 + 2.1 * weights + 1.7 * alive
        };
        assert_eq!(fit(&place.store, &place.device, "rten").unwrap(), None);
        for number in 0..16 {
            let used = truth(&graph(&place, number)) as u64;
            place.run(number, 0.01, |run| run.memory.peak_process_bytes = Some(Bytes(used)));
        }
        run_trials::import_runs(&place.store, &place.device.id, false).unwrap();
        let record = fit(&place.store, &place.device, "rten").unwrap().unwrap();
        assert_eq!(record.standing, PredictorStanding::InUse, "{record:?}");
        let latency = LatencyPredictor::open(&place.store).unwrap();
        let (mut inside, mut near, count) = (0, 0, 20);
        for number in 100..100 + count {
            let graph = graph(&place, number);
            let prediction = latency.memory(&graph, &InferenceConditions::default()).unwrap();
            assert_eq!(prediction.predictor(), record.id);
            // Sizes beyond the training range are estimated in part.
            let is_near = (prediction.value() / truth(&graph) - 1.0).abs() < 0.05;
            assert!(is_near || !prediction.in_range(), "{prediction:?} {}", truth(&graph));
            near += u64::from(is_near);
            inside += u64::from(prediction.interval().high() >= truth(&graph));
        }
        assert!(inside >= count - 3 && near >= count - 3, "{inside} {near}");
        // A much larger graph needs at least its weights, whatever the small graphs used.
        let mut large = graph(&place, 1);
        large.weight_bytes = Bytes(600_000_000);
        let prediction = latency.memory(&large, &InferenceConditions::default()).unwrap();
        assert!(
            !prediction.in_range() && prediction.reason().contains("larger than these"),
            "{prediction:?}"
        );
        assert!(prediction.value() >= 600e6 && prediction.interval().high() >= 1.2e9, "{prediction:?}");
        // No model exists for another runtime.
        let other =
            InferenceConditions { runtime: "onnxruntime".to_string(), ..InferenceConditions::default() };
        let prediction = latency.memory(&graph(&place, 1), &other).unwrap();
        assert!(prediction.reason().contains("nothing was measured"), "{prediction:?}");
    }
}
