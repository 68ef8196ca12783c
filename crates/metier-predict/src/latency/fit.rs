//! Trains a predictor on a device's trials, computes its held-out error, and keeps the better of
//! the old and new predictor.

use std::collections::{BTreeMap, BTreeSet};

use crate::operator_model::{GraphTimePredictor as Law, GraphTrainingSet, ResourcePressure, TimedGraph};
use metier_learn::boost::{BoostedTrees, Settings};
use metier_learn::conformal::{CalibrationRow, ConformalCalibration};
use metier_learn::cross_validation::hash_group;
use metier_learn::{TrainingTable, cross_validation};
use metier_store::RecordStore;
use metier_types::schema::RecordSchema;
use metier_types::{
    Device, DeviceId, ExtraFields, HeldOutError, Passport, Predictor, PredictorStanding, RunId, UtcTimestamp,
};
use serde_json::json;

use super::compare_predictors::{self, LatencyComparison};
use super::learned_predictor::{
    COUNT_FEATURES, CountsPredictor, KIND, LatencyPredictorFile, SCHEMA, counts_row,
};
use super::operator_features::{LINEAR_FEATURES, TREE_FEATURES};
use super::trial::record::{self, TrialRecord};
use super::{COVERAGE, LatencyError};
use crate::lifecycle::{PredictorScope, PromotionDecision, UnseenPredictions, standing};

/// Fewest graphs for cross-validation.
const MIN_GRAPHS: usize = 3;
/// The baseline that a predictor must beat; otherwise the passport estimate is better.
pub(super) const BASELINE: &str = "multiply-adds × constant";
/// Largest number of runs listed in a record.
const MAX_RECORDED_RUNS: usize = 1000;

/// Result of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyFit {
    pub record: Predictor,
    pub file: Vec<u8>,
    /// Held-out predictions.
    pub rows: Vec<HeldOutPrediction>,
    /// The previous predictor, compared with the new one.
    pub before: Option<LatencyComparison>,
}

/// Held-out prediction of one point: the predictor was trained without its graph.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOutPrediction {
    pub name: String,
    pub graph: String,
    pub threads: u32,
    /// Whether co-runners were active.
    pub is_loaded: bool,
    pub pressure: ResourcePressure,
    pub measured: f64,
    /// Seconds of a repeated measurement.
    pub again: Option<f64>,
    pub predicted: f64,
    /// Interval factor, calibrated on the other graphs.
    pub factor: f64,
    /// Seconds of the baselines, by name.
    pub baselines: BTreeMap<&'static str, f64>,
}

/// All trials of a runtime on a device, except those with another feature version.
pub fn usable_trials(
    store: &RecordStore,
    device: &DeviceId,
    runtime: &str,
) -> Result<Vec<TrialRecord>, LatencyError> {
    let mut all = TrialRecord::join(&store.trials(device, record::KIND)?);
    all.retain(|record| record.runtime == runtime && record.seconds > 0.0 && record.is_of_this_version());
    Ok(all)
}

/// Trains on all data of a device and stores the better predictor.
pub fn fit(
    store: &RecordStore,
    device: &Device,
    passport: Option<Passport>,
    runtime: &str,
) -> Result<LatencyFit, LatencyError> {
    let records = usable_trials(store, &device.id, runtime)?;
    let (law, rows) = learn(&records, runtime)?;
    let file = LatencyPredictorFile {
        schema: SCHEMA.to_string(),
        counted: super::operator_features::FEATURE_VERSION,
        device: device.reference(),
        cores: device.cpu.threads.max(1),
        passport,
        law,
        counts: counts_law(&records)?,
    };
    let graphs: BTreeSet<&str> =
        records.iter().filter(|record| !record.is_trial).map(|record| record.name.as_str()).collect();
    let bytes = serde_json::to_vec(&file)
        .map_err(|error| LatencyError::Trial { name: "predictor".into(), why: error.to_string() })?;
    let id = metier_store::digest::digest_bytes(&bytes);
    let trials = records.iter().filter(|record| record.is_trial).count();
    let held_out = [false, true].into_iter().filter_map(|is_loaded| score(&rows, is_loaded));
    let mut extra = ExtraFields::new();
    extra.insert("runtime".into(), json!(runtime));
    extra.insert("graphs".into(), json!(graphs));
    let mut record = Predictor {
        schema: RecordSchema::new(),
        id,
        kind: KIND.to_string(),
        name: format!("{runtime} on {}", device.name),
        device: Some(device.reference()),
        standing: PredictorStanding::InUse,
        made: UtcTimestamp::now(),
        provenance: format!(
            "laws of operator families from {trials} made-up networks and {} runs of {} graphs, corrected by whole graphs",
            records.len() - trials,
            graphs.len()
        ),
        rows: records.len() as u64,
        runs: runs_of(&records),
        held_out: held_out.collect(),
        extra,
    };
    let scope = PredictorScope::new(KIND, Some(&device.id), runtime);
    let before = match scope.in_use(store)? {
        Some(old) if old.id != id => Some(LatencyComparison::new(store, &old, &records, &rows)?),
        _ => None,
    };
    let degeneracy = file.degeneracy().filter(|_| !file.has_peak());
    let decision = before.as_ref().map_or(PromotionDecision::Promoted, LatencyComparison::decide);
    let (standing, because) = match standing::lost_against(&record, &[BASELINE]) {
        _ if degeneracy.is_some() => (PredictorStanding::Passed, degeneracy.unwrap_or_default()),
        Some(_) => (PredictorStanding::Passed, standing::unfit_because("multiply-adds × a constant")),
        None if decision == PromotionDecision::Promoted => {
            (PredictorStanding::InUse, compare_predictors::promotion_reason(before.as_ref()))
        }
        None => (PredictorStanding::Passed, compare_predictors::promotion_reason(before.as_ref())),
    };
    standing::set_standing(&mut record, standing, &because);
    standing::install(store, &record, &bytes, &format!("{id} was better"))?;
    scope.prune(store)?;
    Ok(LatencyFit { record, file: bytes, rows, before })
}

/// Runs among the training data, newest first.
fn runs_of(records: &[TrialRecord]) -> Vec<RunId> {
    let mut runs: Vec<RunId> = records.iter().filter_map(|record| record.run).collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    runs.dedup();
    runs.truncate(MAX_RECORDED_RUNS);
    runs
}

/// Graphs in a predictor's training data.
pub fn graphs_of(record: &Predictor) -> impl Iterator<Item = &str> {
    let list = record.extra.get("graphs").and_then(|list| list.as_array());
    list.into_iter().flatten().filter_map(|name| name.as_str())
}

/// The predictor trained last, whatever its standing.
pub fn newest(
    store: &RecordStore,
    device: &DeviceId,
    runtime: &str,
) -> Result<Option<Predictor>, LatencyError> {
    Ok(PredictorScope::new(KIND, Some(device), runtime).predictors(store)?.into_iter().next())
}

/// Trains a predictor and computes held-out predictions.
pub fn learn(records: &[TrialRecord], runtime: &str) -> Result<(Law, Vec<HeldOutPrediction>), LatencyError> {
    let points: Vec<TimedGraph> = records.iter().map(TrialRecord::point).collect();
    let features = TREE_FEATURES.map(String::from);
    let lessons =
        GraphTrainingSet { points: &points, features: &features, basis: LINEAR_FEATURES.len(), runtime };
    let (law, unseen) = Law::fit(&lessons)?;
    let graphs: BTreeSet<u64> =
        points.iter().filter(|point| !point.is_trial).map(|point| point.group).collect();
    let mut rows = Vec::new();
    let by_counts = counts_held_out(records)?;
    for graph in &unseen {
        let (point, record) = (&points[graph.point], &records[graph.point]);
        let is_loaded = !point.pressure.is_idle();
        let others: Vec<CalibrationRow> = unseen
            .iter()
            .filter(|other| {
                points[other.point].group != point.group
                    && points[other.point].pressure.is_idle() != is_loaded
            })
            .map(|other| {
                let at = &points[other.point];
                CalibrationRow {
                    measured: at.seconds.ln(),
                    predicted: other.seconds.ln(),
                    scale: other.scale,
                    group: at.group,
                }
            })
            .collect();
        let reach = ConformalCalibration::new(&others)
            .ok()
            .and_then(|calibration| calibration.interval_factor(COVERAGE))
            .unwrap_or(2.5);
        rows.push(HeldOutPrediction {
            name: record.name.clone(),
            graph: record.graph.clone(),
            threads: record.threads,
            is_loaded,
            pressure: point.pressure,
            measured: point.seconds,
            again: record.again,
            predicted: graph.seconds,
            factor: (reach * graph.scale).min(5.0).exp(),
            baselines: baselines(record, &by_counts),
        });
    }
    if graphs.len() < MIN_GRAPHS {
        tracing::info!(graphs = graphs.len(), "too few graphs to say how far off it is");
    }
    let rows = with_adds(rows, records, &points);
    Ok((law, rows))
}

fn with_adds(
    mut rows: Vec<HeldOutPrediction>,
    records: &[TrialRecord],
    points: &[TimedGraph],
) -> Vec<HeldOutPrediction> {
    let mut real: Vec<(u64, u32, f64, f64)> = Vec::new();
    for (record, point) in records.iter().zip(points).filter(|(trial_record, _)| !trial_record.is_trial) {
        real.push((point.group, point.threads, record.multiply_adds.max(1) as f64, point.seconds));
    }
    for row in &mut rows {
        let group = hash_group(&row.name);
        let others = || real.iter().filter(|(other, threads, ..)| *other != group && *threads == row.threads);
        let adds = records
            .iter()
            .find(|trial_record| trial_record.graph == row.graph)
            .map_or(1.0, |trial_record| trial_record.multiply_adds.max(1) as f64);
        let count = others().count().max(1) as f64;
        let mean = others().map(|(_, _, _, seconds)| seconds.ln()).sum::<f64>() / count;
        let each = others().map(|(_, _, adds, seconds)| (seconds / adds).ln()).sum::<f64>() / count;
        row.baselines.insert("mean", mean.exp());
        row.baselines.insert(BASELINE, each.exp() * adds);
    }
    rows
}

fn baselines(record: &TrialRecord, by_counts: &BTreeMap<String, f64>) -> BTreeMap<&'static str, f64> {
    let mut all = BTreeMap::new();
    if let Some(seconds) = by_counts.get(&record.key()) {
        all.insert("SOPRANO features + boosted trees", *seconds);
    }
    all
}

fn settings() -> Settings {
    Settings { trees: 150, leaves: 6, leaf_rows: 4, rate: 0.08, ..Settings::default() }
}

/// Counts of real graphs that were timed on an idle device.
fn counts_table(records: &[TrialRecord]) -> Result<(TrainingTable, Vec<String>), LatencyError> {
    let mut table = TrainingTable::new(COUNT_FEATURES.map(String::from).to_vec());
    let mut keys = Vec::new();
    for record in records
        .iter()
        .filter(|trial_record| !trial_record.is_trial && trial_record.point().pressure.is_idle())
    {
        table.push_row(
            &counts_row(record.counts, record.threads),
            record.seconds.ln(),
            hash_group(&record.name),
        )?;
        keys.push(record.key());
    }
    Ok((table, keys))
}

fn counts_held_out(records: &[TrialRecord]) -> Result<BTreeMap<String, f64>, LatencyError> {
    let (table, keys) = counts_table(records)?;
    let mut values = BTreeMap::new();
    let Ok(folds) = cross_validation::group_folds(&table, 5, 41) else { return Ok(values) };
    for fold in folds {
        let trees = BoostedTrees::fit(&table.select_rows(&fold.train), None, &settings())?;
        for row in fold.test {
            values.insert(keys[row].clone(), trees.predict(table.row(row)).exp());
        }
    }
    Ok(values)
}

fn counts_law(records: &[TrialRecord]) -> Result<Option<CountsPredictor>, LatencyError> {
    let (table, keys) = counts_table(records)?;
    let currents = counts_held_out(records)?;
    if currents.is_empty() {
        return Ok(None);
    }
    let rows: Vec<CalibrationRow> = (0..table.len())
        .filter_map(|row| {
            let predicted = currents.get(&keys[row])?.ln();
            Some(CalibrationRow {
                measured: table.target()[row],
                predicted,
                scale: 1.0,
                group: table.groups()[row],
            })
        })
        .collect();
    let calibration = ConformalCalibration::new(&rows)?;
    let range = (0..table.width())
        .map(|at| {
            let values = (0..table.len()).map(|row| table.row(row)[at]);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        })
        .collect();
    Ok(Some(CountsPredictor { trees: BoostedTrees::fit(&table, None, &settings())?, calibration, range }))
}

/// Held-out error of the rows and of the baselines.
fn score(rows: &[HeldOutPrediction], is_loaded: bool) -> Option<HeldOutError> {
    let rows: Vec<&HeldOutPrediction> = rows.iter().filter(|row| row.is_loaded == is_loaded).collect();
    let measured: Vec<f64> = rows.iter().map(|row| row.measured).collect();
    let values: Vec<f64> = rows.iter().map(|row| row.predicted).collect();
    let covered =
        rows.iter().filter(|row| (row.predicted / row.measured).ln().abs() <= row.factor.ln()).count();
    let baselines: [(&str, Option<Vec<f64>>); 3] = ["mean", BASELINE, "SOPRANO features + boosted trees"]
        .map(|name| (name, rows.iter().map(|row| row.baselines.get(name).copied()).collect()));
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let logs: f64 = rows.iter().map(|row| (row.predicted / row.measured).ln().abs()).sum();
    let mut held = UnseenPredictions {
        target: if is_loaded { "latency, loaded" } else { "latency" },
        unit: "seconds",
        held_out: "graphs",
        groups: names.len(),
        measured: &measured,
        predicted: &values,
        covered,
        coverage: COVERAGE,
        baselines: &baselines,
    }
    .score()?;
    held.extra.insert("mean_log_error".into(), json!(logs / rows.len() as f64));
    let by_graph = compare_predictors::by_graph(rows.iter().copied());
    held.extra.insert(compare_predictors::ERROR_BY_GRAPH_FIELD.into(), json!(by_graph));
    held.extra.insert("baselines_are".into(), json!("mean absolute error over the measured value"));
    Some(held)
}
