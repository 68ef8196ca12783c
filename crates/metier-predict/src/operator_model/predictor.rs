//! Everything that was learned of a runtime on a device, with intervals that hold for graphs it has not seen.

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

/// The schema of its file.
pub const SCHEMA: &str = "metier.latency.law/1";
/// Below this an error of an operator's law does not matter: whole graphs have one of their own.
const MIN_SPREAD: f64 = 0.03;
/// 90 of 100 draws of a normal variable lie within so many of its deviations.
const NORMAL_90: f64 = 1.645;
/// What a prediction outside of what was seen is widened by.
const OUT_OF_RANGE_FACTOR: f64 = 2.0;
/// Share of the time that must be like what was seen.
const MIN_IN_RANGE_SHARE: f64 = 0.9;
/// Parts that graphs are held out in.
const FOLDS: usize = 5;
/// Parts that sums are held out in, for what whole graphs take beyond them.
const INNER_FOLDS: usize = 3;

/// What is learned from.
#[derive(Debug, Clone, Copy)]
pub struct GraphTrainingSet<'a> {
    /// Graphs, with the times of their operators where known.
    pub points: &'a [TimedGraph],
    /// Names of the features of operators.
    pub features: &'a [String],
    /// How many counts an operator has.
    pub basis: usize,
    pub runtime: &'a str,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphTimePredictor {
    /// `metier.latency.law/1`.
    pub schema: String,
    /// The runtime that it knows.
    pub runtime: String,
    /// Names of the features of operators.
    pub features: Vec<String>,
    /// How many counts an operator has.
    pub basis: usize,
    pub operators: OperatorPredictor,
    /// What whole graphs take beyond their sum.
    pub correction: GraphCorrection,
    /// What others slow down.
    pub slowdown: LoadSlowdown,
    /// Intervals, on the logarithm.
    pub calibration: Option<ConformalCalibration>,
    pub loaded: Option<ConformalCalibration>,
    /// Points that it learned from.
    pub rows: u64,
}

/// What it says of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphTimeEstimate {
    /// Seconds of one inference.
    pub seconds: f64,
    /// Of each operator, all turns, adding up to it.
    pub each: Vec<f64>,
    /// Factor to either side that holds with the coverage asked for.
    pub factor: f64,
    /// Whether the graph is like those that were seen.
    pub in_range: bool,
    /// Share of the time in operators like those that were seen.
    pub inside: f64,
    /// Kinds that were never seen.
    pub unseen: Vec<String>,
    /// Share of the time by family.
    pub shares: BTreeMap<String, f64>,
}

/// What was said of a graph by a predictor that had not seen it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOutGraph {
    pub point: usize,
    pub seconds: f64,
    /// Scale of its error on the logarithm.
    pub scale: f64,
}

impl GraphTimePredictor {
    /// Learns from all points. Intervals come from graphs that were held out, in turns.
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

    /// Refuses what does not fit together; a file may hold anything.
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

    /// What a graph takes, with a factor to either side that holds with `coverage`.
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
        // Without enough graphs for a promise: what normal errors would be, and half as much again.
        let alone = reach(&self.calibration).unwrap_or(2.5)
            * scale(&sum, ResourcePressure::default(), &self.slowdown);
        let width = match reach(&self.loaded) {
            _ if pressure.is_nearly_idle() => alone,
            Some(reach) => reach * scale(&sum, pressure, &self.slowdown),
            // No real graph was held out beside others: what load was off by for made-up ones comes on top.
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

/// What is learned from some of the graphs.
struct PredictorCore {
    operators: OperatorPredictor,
    correction: GraphCorrection,
    slowdown: LoadSlowdown,
}

impl PredictorCore {
    fn fit(lessons: &GraphTrainingSet, is_seen: &dyn Fn(u64) -> bool, real: &[u64]) -> Result<Self, Error> {
        let points: Vec<&TimedGraph> = lessons.points.iter().filter(|point| is_seen(point.group)).collect();
        let operators = laws(&points, lessons)?;
        // The correction must not learn from sums that knew the graph: these are flattering.
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
        // Beside what the same took alone, where that was timed: then it does not matter what the sum is off by.
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
        // Parts do not depend on each other, so the processors share them.
        let held_out_graphs: Vec<Result<Vec<HeldOutGraph>, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|fold| scope.spawn(move || of_fold(fold))).collect();
            let lost = || Err(Error::Table { why: "a thread that learned was lost".to_string() });
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
        });
        for graphs in held_out_graphs {
            match graphs {
                Ok(rows) => all.extend(rows),
                // Without these graphs there is too little left to learn from: nobody can say how they would be predicted, and the others are scored without them.
                Err(Error::TooFewItems { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_by_key(|graph| graph.point);
        Ok(all)
    }
}

/// Which part each graph falls into, by hash alone.
fn fold_of(groups: &[u64], count: usize) -> BTreeMap<u64, usize> {
    let mut order: Vec<u64> = groups.to_vec();
    order.sort_by_key(|group| mix_bits(*group ^ mix_bits(41)));
    order.into_iter().enumerate().map(|(at, group)| (group, at % count.max(1))).collect()
}

/// Laws from the operators of these points that were timed on an idle device.
fn laws(points: &[&TimedGraph], lessons: &GraphTrainingSet) -> Result<OperatorPredictor, Error> {
    OperatorPredictor::learn(points, lessons.features, lessons.basis)
}
