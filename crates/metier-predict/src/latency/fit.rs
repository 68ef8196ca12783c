//! Learns a predictor from the trials of a device, scores it on graphs that it has not seen, and keeps the better one.

use std::collections::{BTreeMap, BTreeSet};

use crate::operator_model::{Lessons, Point, Predictor as Law, Pressure};
use metier_learn::boost::{Boosted, Settings};
use metier_learn::conformal::{Calibration, Unseen};
use metier_learn::validate::group_of;
use metier_learn::{Table, validate};
use metier_store::Store;
use metier_types::schema::Schema;
use metier_types::{Device, DeviceId, Extra, HeldOut, Passport, Predictor, RunId, Standing, Timestamp};
use serde_json::json;

use super::compare_predictors::{self, LatencyComparison};
use super::learned::{COUNTS, CountsLaw, File, KIND, SCHEMA, counts_row};
use super::step::{BASIS, FEATURES};
use super::trial::record::{self, Kept};
use super::{COVERAGE, Error};
use crate::lifecycle::{PredictorScope, PromotionDecision, UnseenPredictions, standing};

/// Fewest graphs that are held out in turns.
const FEWEST_GRAPHS: usize = 3;
/// The trivial answer that a predictor has to beat: with a worse one a passport answers better.
pub(super) const BASELINE: &str = "multiply-adds × constant";
/// Runs that a record names.
const MOST_RUNS: usize = 1000;

/// What came of learning.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyFit {
    pub record: Predictor,
    pub file: Vec<u8>,
    /// What was said of graphs that were held out.
    pub rows: Vec<Row>,
    /// What was in use before, beside the new one.
    pub before: Option<LatencyComparison>,
}

/// What is said of one point by a predictor that has not seen its graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: String,
    pub graph: String,
    pub threads: u32,
    /// Whether something else ran.
    pub is_loaded: bool,
    pub pressure: Pressure,
    pub measured: f64,
    /// Seconds measured once more.
    pub again: Option<f64>,
    pub predicted: f64,
    /// Factor to either side, calibrated on the other graphs.
    pub factor: f64,
    /// Seconds that trivial answers say, by name.
    pub baselines: BTreeMap<&'static str, f64>,
}

/// All trials of a runtime on a device; those that another version counted otherwise are left out.
pub fn known(store: &Store, device: &DeviceId, runtime: &str) -> Result<Vec<Kept>, Error> {
    let mut all = Kept::join(&store.trials(device, record::KIND)?);
    all.retain(|kept| kept.runtime == runtime && kept.seconds > 0.0 && kept.is_of_this_version());
    Ok(all)
}

/// Learns from everything that is known of a device, and keeps what is better.
pub fn fit(
    store: &Store,
    device: &Device,
    passport: Option<Passport>,
    runtime: &str,
) -> Result<LatencyFit, Error> {
    let kept = known(store, &device.id, runtime)?;
    let (law, rows) = learn(&kept, runtime)?;
    let file = File {
        schema: SCHEMA.to_string(),
        counted: super::step::COUNTED,
        device: device.reference(),
        cores: device.cpu.threads.max(1),
        passport,
        law,
        counts: counts_law(&kept)?,
    };
    let graphs: BTreeSet<&str> =
        kept.iter().filter(|one| !one.is_trial).map(|one| one.name.as_str()).collect();
    let bytes = serde_json::to_vec(&file)
        .map_err(|error| Error::Trial { name: "predictor".into(), why: error.to_string() })?;
    let id = metier_store::digest::of_bytes(&bytes);
    let trials = kept.iter().filter(|one| one.is_trial).count();
    let held_out = [false, true].into_iter().filter_map(|is_loaded| score(&rows, is_loaded));
    let mut extra = Extra::new();
    extra.insert("runtime".into(), json!(runtime));
    extra.insert("graphs".into(), json!(graphs));
    let mut record = Predictor {
        schema: Schema::new(),
        id,
        kind: KIND.to_string(),
        name: format!("{runtime} on {}", device.name),
        device: Some(device.reference()),
        standing: Standing::InUse,
        made: Timestamp::now(),
        provenance: format!(
            "laws of operator families from {trials} made-up networks and {} runs of {} graphs, corrected by whole graphs",
            kept.len() - trials,
            graphs.len()
        ),
        rows: kept.len() as u64,
        runs: runs_of(&kept),
        held_out: held_out.collect(),
        extra,
    };
    let scope = PredictorScope::new(KIND, Some(&device.id), runtime);
    let before = match scope.in_use(store)? {
        Some(old) if old.id != id => Some(LatencyComparison::new(store, &old, &kept, &rows)?),
        _ => None,
    };
    let decision = before.as_ref().map_or(PromotionDecision::Promoted, LatencyComparison::decide);
    let (standing, because) = match standing::lost_against(&record, &[BASELINE]) {
        Some(_) => (Standing::Passed, standing::unfit_because("multiply-adds × a constant")),
        None if decision == PromotionDecision::Promoted => {
            (Standing::InUse, compare_predictors::because(before.as_ref()))
        }
        None => (Standing::Passed, compare_predictors::because(before.as_ref())),
    };
    standing::set_standing(&mut record, standing, &because);
    standing::install(store, &record, &bytes, &format!("{id} was better"))?;
    scope.prune(store)?;
    Ok(LatencyFit { record, file: bytes, rows, before })
}

/// Runs that were learned from, newest first.
fn runs_of(kept: &[Kept]) -> Vec<RunId> {
    let mut runs: Vec<RunId> = kept.iter().filter_map(|one| one.run).collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    runs.dedup();
    runs.truncate(MOST_RUNS);
    runs
}

/// The graphs that a predictor was learned from.
pub fn graphs_of(record: &Predictor) -> impl Iterator<Item = &str> {
    let list = record.extra.get("graphs").and_then(|list| list.as_array());
    list.into_iter().flatten().filter_map(|name| name.as_str())
}

/// The one that was learned last, whatever its standing.
pub fn newest(store: &Store, device: &DeviceId, runtime: &str) -> Result<Option<Predictor>, Error> {
    Ok(PredictorScope::new(KIND, Some(device), runtime).predictors(store)?.into_iter().next())
}

/// Learns, and says what a predictor that had not seen a graph says of it.
pub fn learn(kept: &[Kept], runtime: &str) -> Result<(Law, Vec<Row>), Error> {
    let points: Vec<Point> = kept.iter().map(Kept::point).collect();
    let features = FEATURES.map(String::from);
    let lessons = Lessons { points: &points, features: &features, basis: BASIS.len(), runtime };
    let (law, unseen) = Law::fit(&lessons)?;
    let graphs: BTreeSet<u64> =
        points.iter().filter(|point| !point.is_trial).map(|point| point.group).collect();
    let mut rows = Vec::new();
    let by_counts = counts_held_out(kept)?;
    for one in &unseen {
        let (point, kept) = (&points[one.point], &kept[one.point]);
        let is_loaded = !point.pressure.is_idle();
        let others: Vec<Unseen> = unseen
            .iter()
            .filter(|other| {
                points[other.point].group != point.group
                    && points[other.point].pressure.is_idle() != is_loaded
            })
            .map(|other| {
                let at = &points[other.point];
                Unseen {
                    measured: at.seconds.ln(),
                    predicted: other.seconds.ln(),
                    scale: other.scale,
                    group: at.group,
                }
            })
            .collect();
        let reach = Calibration::new(&others).ok().and_then(|one| one.reach(COVERAGE)).unwrap_or(2.5);
        rows.push(Row {
            name: kept.name.clone(),
            graph: kept.graph.clone(),
            threads: kept.threads,
            is_loaded,
            pressure: point.pressure,
            measured: point.seconds,
            again: kept.again,
            predicted: one.seconds,
            factor: (reach * one.scale).min(5.0).exp(),
            baselines: baselines(kept, &by_counts),
        });
    }
    if graphs.len() < FEWEST_GRAPHS {
        tracing::info!(graphs = graphs.len(), "too few graphs to say how far off it is");
    }
    let rows = with_adds(rows, kept, &points);
    Ok((law, rows))
}

fn with_adds(mut rows: Vec<Row>, kept: &[Kept], points: &[Point]) -> Vec<Row> {
    let mut real: Vec<(u64, u32, f64, f64)> = Vec::new();
    for (one, point) in kept.iter().zip(points).filter(|(one, _)| !one.is_trial) {
        real.push((point.group, point.threads, one.multiply_adds.max(1) as f64, point.seconds));
    }
    for row in &mut rows {
        let group = group_of(&row.name);
        let others = || real.iter().filter(|(other, threads, ..)| *other != group && *threads == row.threads);
        let adds =
            kept.iter().find(|one| one.graph == row.graph).map_or(1.0, |one| one.multiply_adds.max(1) as f64);
        let count = others().count().max(1) as f64;
        let mean = others().map(|(_, _, _, seconds)| seconds.ln()).sum::<f64>() / count;
        let each = others().map(|(_, _, adds, seconds)| (seconds / adds).ln()).sum::<f64>() / count;
        row.baselines.insert("mean", mean.exp());
        row.baselines.insert(BASELINE, each.exp() * adds);
    }
    rows
}

fn baselines(kept: &Kept, by_counts: &BTreeMap<String, f64>) -> BTreeMap<&'static str, f64> {
    let mut all = BTreeMap::new();
    if let Some(seconds) = by_counts.get(&kept.key()) {
        all.insert("SOPRANO features + boosted trees", *seconds);
    }
    all
}

fn settings() -> Settings {
    Settings { trees: 150, leaves: 6, leaf_rows: 4, rate: 0.08, ..Settings::default() }
}

/// Real graphs that were timed on an idle device, as rows of counts.
fn counts_table(kept: &[Kept]) -> Result<(Table, Vec<String>), Error> {
    let mut table = Table::new(COUNTS.map(String::from).to_vec());
    let mut keys = Vec::new();
    for one in kept.iter().filter(|one| !one.is_trial && one.point().pressure.is_idle()) {
        table.push(&counts_row(one.counts, one.threads), one.seconds.ln(), group_of(&one.name))?;
        keys.push(one.key());
    }
    Ok((table, keys))
}

fn counts_held_out(kept: &[Kept]) -> Result<BTreeMap<String, f64>, Error> {
    let (table, keys) = counts_table(kept)?;
    let mut said = BTreeMap::new();
    let Ok(folds) = validate::folds(&table, 5, 41) else { return Ok(said) };
    for fold in folds {
        let trees = Boosted::fit(&table.select(&fold.train), None, &settings())?;
        for row in fold.test {
            said.insert(keys[row].clone(), trees.predict(table.row(row)).exp());
        }
    }
    Ok(said)
}

fn counts_law(kept: &[Kept]) -> Result<Option<CountsLaw>, Error> {
    let (table, keys) = counts_table(kept)?;
    let said = counts_held_out(kept)?;
    if said.is_empty() {
        return Ok(None);
    }
    let rows: Vec<Unseen> = (0..table.len())
        .filter_map(|row| {
            let predicted = said.get(&keys[row])?.ln();
            Some(Unseen { measured: table.target()[row], predicted, scale: 1.0, group: table.groups()[row] })
        })
        .collect();
    let calibration = Calibration::new(&rows)?;
    let range = (0..table.width())
        .map(|at| {
            let values = (0..table.len()).map(|row| table.row(row)[at]);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        })
        .collect();
    Ok(Some(CountsLaw { trees: Boosted::fit(&table, None, &settings())?, calibration, range }))
}

/// The score of the rows, beside what trivial answers have.
fn score(rows: &[Row], is_loaded: bool) -> Option<HeldOut> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.is_loaded == is_loaded).collect();
    let measured: Vec<f64> = rows.iter().map(|row| row.measured).collect();
    let said: Vec<f64> = rows.iter().map(|row| row.predicted).collect();
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
        predicted: &said,
        covered,
        coverage: COVERAGE,
        baselines: &baselines,
    }
    .score()?;
    held.extra.insert("mean_log_error".into(), json!(logs / rows.len() as f64));
    let by_graph = compare_predictors::by_graph(rows.iter().copied());
    held.extra.insert(compare_predictors::BY_GRAPH.into(), json!(by_graph));
    held.extra.insert("baselines_are".into(), json!("mean absolute error over the measured value"));
    Some(held)
}
