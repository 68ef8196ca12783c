//! The complete model of a runtime on a device, with intervals calibrated on held-out graphs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::graph::{
    GraphCorrection, GraphOperator, LoadSlowdown, LoadedPoint, OperatorSum, ResourcePressure, TimedGraph,
    moving, sum,
};
use super::operators::OperatorPredictor;
use metier_learn::Error;
use metier_learn::conformal::{self, ConformalCalibration};
use metier_learn::random::mix_bits;

/// Schema of the file.
pub const SCHEMA: &str = "metier.latency.law/1";
/// Lower bound of an operator model's error; whole graphs have their own correction.
const MIN_SPREAD: f64 = 0.03;
/// Half width of the central 90 % of a normal distribution, in standard deviations.
const NORMAL_90: f64 = 1.645;
/// Interval factor added for predictions outside the training range.
const OUT_OF_RANGE_FACTOR: f64 = 2.0;
/// Smallest time share of operators within the training range.
const MIN_IN_RANGE_SHARE: f64 = 0.9;
/// Number of folds over graphs.
const FOLDS: usize = 5;
/// Number of inner folds, for the correction of operator sums.
const INNER_FOLDS: usize = 3;

/// Training data.
#[derive(Debug, Clone, Copy)]
pub struct GraphTrainingSet<'a> {
    /// Graphs, with operator times if known.
    pub points: &'a [TimedGraph],
    /// Names of the operator features.
    pub features: &'a [String],
    /// Number of basis counts of an operator.
    pub basis: usize,
    pub runtime: &'a str,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphTimePredictor {
    /// `metier.latency.law/1`.
    pub schema: String,
    /// Runtime of the training data.
    pub runtime: String,
    /// Names of the operator features.
    pub features: Vec<String>,
    /// Number of basis counts of an operator.
    pub basis: usize,
    pub operators: OperatorPredictor,
    /// Correction of operator sums.
    pub correction: GraphCorrection,
    /// Slowdown by co-runners.
    pub slowdown: LoadSlowdown,
    /// Calibration of the intervals, on the logarithm.
    pub calibration: Option<ConformalCalibration>,
    pub loaded: Option<ConformalCalibration>,
    /// Number of training points.
    pub rows: u64,
}

/// Prediction for a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphTimeEstimate {
    /// Seconds of one inference.
    pub seconds: f64,
    /// Seconds of each operator over all iterations; they add up to `seconds`.
    pub each: Vec<f64>,
    /// Interval factor for the requested coverage.
    pub factor: f64,
    /// Whether the graph is within the training range.
    pub in_range: bool,
    /// Time share of operators within the training range.
    pub inside: f64,
    /// Operator kinds absent from the training data.
    pub unseen: Vec<String>,
    /// Time share by family.
    pub shares: BTreeMap<String, f64>,
}

/// Held-out prediction of a graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOutGraph {
    pub point: usize,
    pub seconds: f64,
    /// Scale of its error on the logarithm.
    pub scale: f64,
}

impl GraphTimePredictor {
    /// Trains on all points. Intervals come from cross-validation over graphs.
    pub fn fit(lessons: &GraphTrainingSet) -> Result<(Self, Vec<HeldOutGraph>), Error> {
        let real = groups(lessons.points.iter().filter(|point| !point.is_trial));
        let whole = PredictorCore::fit(lessons, &|_| true, &real)?;
        let unseen = whole.held_out(lessons, &real)?;
        let row = |graph: &HeldOutGraph| {
            let point = &lessons.points[graph.point];
            conformal::CalibrationRow {
                measured: point.seconds.ln(),
                predicted: graph.seconds.ln(),
                scale: graph.scale,
                group: point.group,
            }
        };
        let calibrated = |is_loaded: bool| {
            let is = |held_out_graph: &&HeldOutGraph| {
                lessons.points[held_out_graph.point].pressure.is_idle() != is_loaded
            };
            let rows: Vec<conformal::CalibrationRow> = unseen.iter().filter(is).map(row).collect();
            ConformalCalibration::new(&rows).ok()
        };
        let this = Self {
            schema: SCHEMA.to_string(),
            runtime: lessons.runtime.to_string(),
            features: lessons.features.to_vec(),
            basis: lessons.basis,
            calibration: calibrated(false),
            loaded: calibrated(true),
            operators: whole.operators,
            correction: whole.correction,
            slowdown: whole.slowdown,
            rows: lessons.points.len() as u64,
        };
        Ok((this, unseen))
    }

    /// Rejects inconsistent content, since a file may hold anything.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field: &str, why: String| Error::File { field: field.to_string(), why };
        if self.schema != SCHEMA {
            return Err(wrong("law.schema", format!("is {:?}; want {SCHEMA:?}", self.schema)));
        }
        for law in self.operators.laws.values().chain([&self.operators.any]) {
            let is_fit = |line: &Vec<f64>| {
                line.len() == self.basis && line.iter().all(|value| value.is_finite() && *value >= 0.0)
            };
            let of_kinds = law.of_kinds.values().flat_map(BTreeMap::values);
            if !law.coefficients.values().chain(of_kinds).all(is_fit)
                || law.range.len() != self.features.len()
            {
                let why = format!(
                    "has a law that is not of {} counts and {} features",
                    self.basis,
                    self.features.len()
                );
                return Err(wrong("law.operators", why));
            }
        }
        Ok(())
    }

    /// Predicts a graph, with an interval factor for `coverage`.
    pub fn predict(
        &self,
        parts: &[GraphOperator],
        threads: u32,
        pressure: ResourcePressure,
        coverage: f64,
    ) -> GraphTimeEstimate {
        let sum = sum(&self.operators, parts, threads);
        let idle = self.correction.apply(&sum, threads);
        let seconds = idle * self.slowdown.logarithm(pressure, moving(&sum), threads).exp();
        let reach = |of: &Option<ConformalCalibration>| {
            of.as_ref().and_then(|calibration| calibration.interval_factor(coverage))
        };
        // Without enough graphs for calibration: the quantile of normal errors, times one and a
        // half.
        let alone = reach(&self.calibration).unwrap_or(2.5)
            * scale(&sum, ResourcePressure::default(), &self.slowdown);
        let width = match reach(&self.loaded) {
            _ if pressure.is_nearly_idle() => alone,
            Some(reach) => reach * scale(&sum, pressure, &self.slowdown),
            // No real graph was held out under load, so the load model's error on generated
            // networks is added.
            None => alone.hypot(NORMAL_90 * self.slowdown.spread),
        };
        let in_range = sum.in_range >= MIN_IN_RANGE_SHARE && self.correction.factor.contains_key(&threads);
        let widen = if in_range { 1.0 } else { OUT_OF_RANGE_FACTOR };
        let scaled = seconds / sum.seconds;
        GraphTimeEstimate {
            seconds,
            each: sum.each.iter().map(|value| value * scaled).collect(),
            factor: (width * widen).min(5.0).exp(),
            in_range,
            inside: sum.in_range,
            unseen: sum.unseen,
            shares: sum.shares,
        }
    }
}

fn scale(sum: &OperatorSum, pressure: ResourcePressure, slowdown: &LoadSlowdown) -> f64 {
    let load = if pressure.is_nearly_idle() { 0.0 } else { slowdown.spread };
    (MIN_SPREAD.powi(2) + (0.5 * sum.spread).powi(2) + load.powi(2)).sqrt()
}

fn groups<'a>(points: impl Iterator<Item = &'a TimedGraph>) -> Vec<u64> {
    let mut groups: Vec<u64> = points.map(|point| point.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Model trained on a subset of the graphs.
struct PredictorCore {
    operators: OperatorPredictor,
    correction: GraphCorrection,
    slowdown: LoadSlowdown,
}

impl PredictorCore {
    fn fit(lessons: &GraphTrainingSet, is_seen: &dyn Fn(u64) -> bool, real: &[u64]) -> Result<Self, Error> {
        let points: Vec<&TimedGraph> = lessons.points.iter().filter(|point| is_seen(point.group)).collect();
        let operators = laws(&points, lessons)?;
        // The correction must not be fitted on sums whose model saw the graph: those are too
        // accurate.
        let own: Vec<u64> = real.iter().copied().filter(|group| is_seen(*group)).collect();
        let mut sums: Vec<Option<OperatorSum>> = vec![None; points.len()];
        let parts = fold_of(&own, INNER_FOLDS);
        for fold in 0..INNER_FOLDS {
            if !parts.values().any(|of| *of == fold) {
                continue;
            }
            let rest: Vec<&TimedGraph> =
                points.iter().copied().filter(|point| parts.get(&point.group) != Some(&fold)).collect();
            let Ok(rest) = laws(&rest, lessons) else { continue };
            for (at, point) in
                points.iter().enumerate().filter(|(_, point)| parts.get(&point.group) == Some(&fold))
            {
                sums[at] = Some(sum(&rest, &point.parts, point.threads));
            }
        }
        let sums: Vec<OperatorSum> = sums
            .into_iter()
            .zip(&points)
            .map(|(known, point)| known.unwrap_or_else(|| sum(&operators, &point.parts, point.threads)))
            .collect();
        let idle: Vec<(&TimedGraph, &OperatorSum)> =
            points.iter().copied().zip(&sums).filter(|(point, _)| point.pressure.is_idle()).collect();
        let correction = GraphCorrection::fit(&idle);
        // Relative to the same point's unloaded time, if measured: then errors of the sum cancel
        // out.
        let alone: BTreeMap<(u64, u32, u64), f64> =
            idle.iter().map(|(point, _)| (point.content(), point.seconds)).collect();
        let loaded: Vec<LoadedPoint> = points
            .iter()
            .zip(&sums)
            .filter(|(point, _)| !point.pressure.is_idle())
            .map(|(point, sum)| {
                let known = alone.get(&point.content()).copied();
                let idle = known.unwrap_or_else(|| correction.apply(sum, point.threads));
                LoadedPoint {
                    pressure: point.pressure,
                    threads: point.threads,
                    moving: moving(sum),
                    slower: (point.seconds / idle).ln(),
                    group: point.group,
                    is_trial: point.is_trial,
                }
            })
            .collect();
        Ok(Self { operators, correction, slowdown: LoadSlowdown::fit(&loaded) })
    }

    fn held_out(&self, lessons: &GraphTrainingSet, real: &[u64]) -> Result<Vec<HeldOutGraph>, Error> {
        let mut all = Vec::new();
        let count = FOLDS.min(real.len());
        if count < 2 {
            return Ok(all);
        }
        let parts = fold_of(real, count);
        let of_fold = &|fold: usize| -> Result<Vec<HeldOutGraph>, Error> {
            let core = PredictorCore::fit(lessons, &|group| parts.get(&group) != Some(&fold), real)?;
            let points = lessons.points.iter().enumerate();
            let own = points.filter(|(_, point)| !point.is_trial && parts.get(&point.group) == Some(&fold));
            Ok(own
                .map(|(at, point)| {
                    let sum = sum(&core.operators, &point.parts, point.threads);
                    let idle = core.correction.apply(&sum, point.threads);
                    let slower = core.slowdown.logarithm(point.pressure, moving(&sum), point.threads);
                    let seconds = idle * slower.exp();
                    HeldOutGraph { point: at, seconds, scale: scale(&sum, point.pressure, &core.slowdown) }
                })
                .collect())
        };
        // Folds are independent, so they run in parallel.
        let held_out_graphs: Vec<Result<Vec<HeldOutGraph>, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|fold| scope.spawn(move || of_fold(fold))).collect();
            let lost = || Err(Error::Table { why: "a thread that learned was lost".to_string() });
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
        });
        for graphs in held_out_graphs {
            match graphs {
                Ok(rows) => all.extend(rows),
                // If training without these graphs lacks data, they have no held-out prediction,
                // and the error is computed from the others.
                Err(Error::TooFewItems { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_by_key(|graph| graph.point);
        Ok(all)
    }
}

/// Fold of each graph, by hash only.
fn fold_of(groups: &[u64], count: usize) -> BTreeMap<u64, usize> {
    let mut order: Vec<u64> = groups.to_vec();
    order.sort_by_key(|group| mix_bits(*group ^ mix_bits(41)));
    order.into_iter().enumerate().map(|(at, group)| (group, at % count.max(1))).collect()
}

/// Operator models from the points timed on an idle device.
fn laws(points: &[&TimedGraph], lessons: &GraphTrainingSet) -> Result<OperatorPredictor, Error> {
    OperatorPredictor::learn(points, lessons.features, lessons.basis)
}
