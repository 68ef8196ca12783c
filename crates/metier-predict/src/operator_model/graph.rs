//! Predicts the time of a graph: the sum over its operators, corrected by whole-graph measurements,
//! times the slowdown by co-runners.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::linear::ridge;
use super::operators::{OperatorPredictor, OperatorQuery, OperatorSample};
use metier_learn::TrainingTable;
use metier_learn::boost::{BoostedTrees, LossFunction, MonotoneConstraint, Settings};
use metier_learn::cross_validation::group_folds;
use metier_learn::random::mix_bits;

/// One operator of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphOperator {
    pub family: String,
    pub kind: String,
    /// Number of iterations.
    pub turns: f64,
    /// Counts that its time is roughly proportional to.
    pub basis: Vec<f64>,
    /// Further inputs of the model.
    pub features: Vec<f64>,
    /// Measured seconds in one inference, if known.
    pub seconds: Option<f64>,
}

/// Load of co-runners during a graph's run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ResourcePressure {
    /// Logarithm of the slowdown under fair processor sharing.
    pub sharing: f64,
    /// Share of processor time used by co-runners.
    pub cpu: f64,
    /// Share of memory bandwidth used by co-runners.
    pub memory: f64,
}

impl ResourcePressure {
    fn values(self) -> [f64; 3] {
        [self.sharing, self.cpu, self.memory]
    }

    /// Whether the load is so small that only its share of the processors matters; no host is fully
    /// idle.
    pub fn is_nearly_idle(self) -> bool {
        self.cpu <= MAX_NEARLY_IDLE && self.memory <= MAX_NEARLY_IDLE
    }

    /// Whether there is no load.
    pub fn is_idle(self) -> bool {
        self.values().iter().all(|value| *value <= 0.0)
    }
}

/// Load up to which a device counts as nearly idle.
const MAX_NEARLY_IDLE: f64 = 0.1;

/// A graph with a measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedGraph {
    /// Id of the graph; its points stay in one fold.
    pub group: u64,
    /// Whether it is a generated network.
    pub is_trial: bool,
    pub threads: u32,
    pub pressure: ResourcePressure,
    pub parts: Vec<GraphOperator>,
    /// Measured seconds of one inference.
    pub seconds: f64,
}

impl TimedGraph {
    /// Identity of the work: graph, threads, and a digest of the operators' features.
    pub(super) fn content(&self) -> (u64, u32, u64) {
        let work = self.parts.iter().flat_map(|part| part.basis.iter().chain([&part.turns]));
        let work = work.fold(0, |sum, count| mix_bits(sum ^ count.to_bits()));
        (self.group, self.threads, work)
    }

    /// Operators with known times, for one iteration each.
    ///
    /// Per-operator profiling adds overhead and misses time between operators. The times are
    /// rescaled so that their sum plus `start` equals the measured total: first a bounded constant
    /// per operator, then proportionally.
    pub fn samples(&self, start: f64) -> Vec<OperatorSample> {
        let known = || self.parts.iter().filter_map(|part| Some((part, part.seconds?)));
        let whole = (self.seconds - start).max(MIN_OPERATORS_SHARE * self.seconds);
        let count = known().map(|(part, _)| part.turns.max(1.0)).sum::<f64>().max(1.0);
        let looked: f64 = known().map(|(_, seconds)| seconds).sum();
        let each = ((whole - looked) / count).clamp(-MAX_SECONDS_LESS, MAX_SECONDS_MORE);
        let moved = |part: &GraphOperator, seconds: f64| {
            let turns = part.turns.max(1.0);
            (seconds / turns + each).max(MIN_OPERATOR_SECONDS)
        };
        let sum: f64 = known().map(|(part, seconds)| moved(part, seconds) * part.turns.max(1.0)).sum();
        let factor = (whole / sum.max(1e-12)).clamp(1.0 / MAX_STRETCH, MAX_STRETCH);
        known()
            .map(|(part, seconds)| OperatorSample {
                family: part.family.clone(),
                kind: part.kind.clone(),
                threads: self.threads,
                basis: part.basis.clone(),
                features: part.features.clone(),
                seconds: moved(part, seconds) * factor,
                group: self.group,
                weight: moved(part, seconds) * part.turns.max(1.0) / sum.max(1e-12),
            })
            .collect()
    }
}

/// Overhead of an inference outside its operators, by number of threads: start-up, and handing over
/// the outputs.
///
/// For graphs without loops, the total minus the profiled times is modelled as a constant plus an
/// amount per operator, relative to the total; the constant is the result. Outliers are
/// down-weighted, since they were disturbed by co-runners.
pub fn starts(points: &[&TimedGraph]) -> BTreeMap<u32, f64> {
    let mut by_threads: BTreeMap<u32, Vec<(Vec<f64>, f64, f64)>> = BTreeMap::new();
    for point in points.iter().filter(|point| point.pressure.is_idle()) {
        let known: Vec<f64> = point.parts.iter().filter_map(|part| part.seconds).collect();
        if known.len() < point.parts.len().div_ceil(2) || point.parts.iter().any(|part| part.turns > 1.0) {
            continue;
        }
        let left = point.seconds - known.iter().sum::<f64>();
        let row = (vec![1e-6, known.len() as f64 * 1e-6], left, point.seconds.powi(-2));
        by_threads.entry(point.threads).or_default().push(row);
    }
    let mut found = BTreeMap::new();
    for (threads, rows) in by_threads.into_iter().filter(|(_, rows)| rows.len() >= MIN_START_GRAPHS) {
        let mut line = vec![0.0, 0.0];
        for _ in 0..REWEIGHT_ROUNDS {
            let weighted: Vec<(Vec<f64>, f64, f64)> = rows
                .iter()
                .map(|(values, left, weight)| {
                    let off = (left - line[0] * values[0] - line[1] * values[1]).abs() * weight.sqrt();
                    (values.clone(), *left, weight * START_OUTLIER_SHARE / off.max(START_OUTLIER_SHARE))
                })
                .collect();
            line = ridge(&weighted, &[1e-9; 2]);
        }
        found.insert(threads, (line[0] * 1e-6).clamp(0.0, MAX_START_SECONDS));
    }
    found
}

/// Fewest graphs for this fit, upper bound of the result, and the share of the total above which a
/// residual is an outlier.
const MIN_START_GRAPHS: usize = 40;
const MAX_START_SECONDS: f64 = 1e-4;
const START_OUTLIER_SHARE: f64 = 0.01;
/// Smallest share of the total spent in operators.
const MIN_OPERATORS_SHARE: f64 = 0.3;
/// Largest decrease, and increase, of an operator's profiled time, in seconds.
const MAX_SECONDS_LESS: f64 = 1e-7;
const MAX_SECONDS_MORE: f64 = 2e-6;
/// Lower bound of an operator's time.
const MIN_OPERATOR_SECONDS: f64 = 5e-8;
/// Largest proportional rescaling.
const MAX_STRETCH: f64 = 1.5;

/// Sum over the operators.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorSum {
    /// Seconds of each operator over all iterations.
    pub each: Vec<f64>,
    pub seconds: f64,
    /// Time share of each family.
    pub shares: BTreeMap<String, f64>,
    /// Expected error, as a logarithm.
    pub spread: f64,
    /// Time share of operators within the training range.
    pub in_range: f64,
    /// Operator kinds absent from the training data.
    pub unseen: Vec<String>,
}

/// Errors within a family are assumed fully correlated, those of different families independent.
pub fn sum(operators: &OperatorPredictor, parts: &[GraphOperator], threads: u32) -> OperatorSum {
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    let mut spreads: BTreeMap<&str, f64> = BTreeMap::new();
    let mut unseen = Vec::new();
    let mut inside = 0.0;
    let mut each: Vec<f64> = parts
        .iter()
        .map(|part| {
            let GraphOperator { family, kind, basis, features, .. } = part;
            let estimate = operators.predict(&OperatorQuery { family, kind, threads, basis, features });
            let seconds = estimate.seconds * part.turns;
            *shares.entry(part.family.clone()).or_default() += seconds;
            *spreads.entry(&part.family).or_default() += seconds * estimate.spread;
            if estimate.in_range {
                inside += seconds;
            } else if !unseen.contains(kind)
                && operators.laws.get(family).is_none_or(|law| !law.kinds.contains_key(kind))
            {
                unseen.push(kind.clone());
            }
            seconds
        })
        .collect();
    let operators_take: f64 = each.iter().sum::<f64>().max(1e-9);
    let spread = spreads.values().map(|sum| (sum / operators_take).powi(2)).sum::<f64>().sqrt();
    shares.values_mut().for_each(|share| *share /= operators_take);
    // The start-up overhead is distributed over the operators in proportion.
    let seconds = operators_take + operators.start(threads);
    each.iter_mut().for_each(|value| *value *= seconds / operators_take);
    OperatorSum { each, seconds, shares, spread, in_range: inside / operators_take, unseen }
}

/// Correction of the operator sum, fitted on whole graphs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GraphCorrection {
    /// Factor by number of threads.
    pub factor: BTreeMap<u32, f64>,
    /// Coefficient of each family's time share, on the logarithm.
    pub families: BTreeMap<String, f64>,
}

/// Ridge weight of the family coefficients towards 0, in graphs.
const FAMILY_RIDGE: f64 = 4.0;
/// Weight of a generated network relative to a real graph.
const NETWORK_WEIGHT: f64 = 0.02;
/// Largest correction, as a logarithm.
const MAX_LOG_CORRECTION: f64 = 0.25;

impl GraphCorrection {
    /// Fits on graphs and their operator sums, each graph with equal weight.
    pub fn fit(points: &[(&TimedGraph, &OperatorSum)]) -> Self {
        let mut sizes: BTreeMap<u64, f64> = BTreeMap::new();
        points.iter().for_each(|(point, _)| *sizes.entry(point.group).or_default() += 1.0);
        let weight = |point: &TimedGraph| {
            let alike = if point.is_trial { NETWORK_WEIGHT } else { 1.0 };
            alike / sizes.get(&point.group).copied().unwrap_or(1.0)
        };
        let mut this = Self::default();
        let mut threads: Vec<u32> = points.iter().map(|(point, _)| point.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        for threads in threads {
            // The median over graphs, so that outliers do not move the others.
            let own = points.iter().filter(|(point, _)| point.threads == threads);
            let mut off: Vec<(f64, f64)> =
                own.map(|(point, sum)| ((point.seconds / sum.seconds).ln(), weight(point))).collect();
            off.sort_by(|a, b| a.0.total_cmp(&b.0));
            let half = off.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
            let mut below = 0.0;
            let middle = off.iter().find(|(_, weight)| {
                below += weight;
                below >= half
            });
            let factor =
                middle.map_or(0.0, |(off, _)| *off).clamp(-MAX_LOG_CORRECTION, MAX_LOG_CORRECTION).exp();
            this.factor.insert(threads, factor);
        }
        let mut families: Vec<String> =
            points.iter().flat_map(|(_, sum)| sum.shares.keys().cloned()).collect();
        families.sort();
        families.dedup();
        let rows: Vec<(Vec<f64>, f64, f64)> = points
            .iter()
            .map(|(point, sum)| {
                let share = |family: &String| sum.shares.get(family).copied().unwrap_or(0.0);
                let off = (point.seconds / this.line(sum, point.threads)).ln();
                (
                    families.iter().map(share).collect(),
                    off.clamp(-MAX_LOG_CORRECTION, MAX_LOG_CORRECTION),
                    weight(point),
                )
            })
            .collect();
        let found = ridge(&rows, &vec![FAMILY_RIDGE; families.len()]);
        this.families = families.into_iter().zip(found).collect();
        this
    }

    fn line(&self, sum: &OperatorSum, threads: u32) -> f64 {
        let near = self.factor.iter().min_by_key(|(known, _)| known.abs_diff(threads));
        sum.seconds * near.map_or(1.0, |(_, factor)| *factor)
    }

    /// Predicted seconds of a graph on an idle device.
    pub fn apply(&self, sum: &OperatorSum, threads: u32) -> f64 {
        let slope = |family: &String| self.families.get(family).copied().unwrap_or(0.0);
        let by_family: f64 = sum.shares.iter().map(|(family, share)| share * slope(family)).sum();
        self.line(sum, threads) * by_family.clamp(-MAX_LOG_CORRECTION, MAX_LOG_CORRECTION).exp()
    }
}

/// Slowdown by co-runners; monotone in the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSlowdown {
    /// Non-negative coefficients of [`ResourcePressure`]'s fields.
    pub coefficients: [f64; 3],
    /// Coefficient of memory pressure times the share of time spent on moving bytes.
    pub moving: f64,
    /// Error as a logarithm; 0 without training data under load.
    pub spread: f64,
    /// Trees for the remainder; the linear part is fair sharing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<BoostedTrees>,
}

impl Default for LoadSlowdown {
    /// Fair sharing only, without training data.
    fn default() -> Self {
        Self { coefficients: [1.0, 0.0, 0.2], moving: 0.5, spread: 0.25, trees: None }
    }
}

/// Families limited by memory rather than by compute.
const MOVING_FAMILIES: [&str; 8] =
    ["move", "unary", "binary", "matvec", "pool", "resize", "conv-depth", "norm"];

/// Share of a graph's time spent on moving bytes.
pub fn moving(sum: &OperatorSum) -> f64 {
    MOVING_FAMILIES.iter().filter_map(|family| sum.shares.get(*family)).sum()
}

/// Slowdown of a graph by co-runners.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadedPoint {
    pub pressure: ResourcePressure,
    pub threads: u32,
    /// Share of its time spent on moving bytes.
    pub moving: f64,
    /// Logarithm of the slowdown factor.
    pub slower: f64,
    pub group: u64,
    /// Whether it is a generated network.
    pub is_trial: bool,
}

/// Ridge target of the coefficients: fair sharing of the processors.
const FAIR_COEFFICIENTS: [f64; 4] = [1.0, 0.0, 0.0, 0.0];
/// Ridge weight, in graphs.
const FAIR_GRAPHS: f64 = 2.0;
/// Inputs of the trees; the first three are load.
const LOAD_FEATURES: [&str; 5] = ["sharing", "cpu", "memory", "moving", "threads"];
/// Weight of an unloaded point relative to a loaded one.
const UNLOADED_WEIGHT: f64 = 0.3;
/// Trees are used only if their error is at most this multiple of the linear model's.
const MAX_TREE_ERROR_RATIO: f64 = 0.97;
/// Rounds of robust reweighting, and the residual from which points are down-weighted, as a
/// logarithm.
const REWEIGHT_ROUNDS: usize = 6;
const OUTLIER_LOG_ERROR: f64 = 0.1;

fn load_row(pressure: ResourcePressure, moving: f64, threads: u32) -> [f64; 5] {
    let [sharing, cpu, memory] = pressure.values().map(|value| value.max(0.0));
    [sharing, cpu, memory, moving.clamp(0.0, 1.0), f64::from(threads)]
}

/// Training table of the remainder beyond fair sharing.
fn load_table(rows: &[(&LoadedPoint, f64)]) -> Option<TrainingTable> {
    let mut table = TrainingTable::new(LOAD_FEATURES.map(String::from).to_vec());
    for (row, _) in rows {
        let beyond = row.slower - row.pressure.sharing.max(0.0);
        table.push_row(&load_row(row.pressure, row.moving, row.threads), beyond, row.group).ok()?;
    }
    Some(table)
}

/// Increase of the trees' prediction over their prediction without load.
fn load_increase(trees: &BoostedTrees, pressure: ResourcePressure, moving: f64, threads: u32) -> f64 {
    let predict_at = |pressure: ResourcePressure| trees.predict(&load_row(pressure, moving, threads));
    predict_at(pressure) - predict_at(ResourcePressure::default())
}

impl LoadedPoint {
    fn values(&self) -> [f64; 4] {
        let ResourcePressure { sharing, cpu, memory } = self.pressure;
        [sharing, cpu, memory, memory * self.moving]
    }
}

impl LoadSlowdown {
    /// Fits on loaded points. Graphs have equal weight; outliers are down-weighted, since unknown
    /// co-runners may disturb a measurement. The result is a linear model, or trees above fair
    /// sharing if those have the smaller held-out error.
    pub fn fit(rows: &[LoadedPoint]) -> Self {
        let loaded: Vec<&LoadedPoint> = rows.iter().filter(|row| !row.pressure.is_idle()).collect();
        if loaded.len() < 8 {
            return Self::default();
        }
        let mut sizes: BTreeMap<u64, f64> = BTreeMap::new();
        loaded.iter().for_each(|row| *sizes.entry(row.group).or_default() += 1.0);
        let alike = |row: &&LoadedPoint| {
            let real = if row.is_trial { NETWORK_WEIGHT } else { 1.0 };
            real / sizes.get(&row.group).copied().unwrap_or(1.0)
        };
        let weighted: Vec<(&LoadedPoint, f64)> = loaded.iter().map(|row| (*row, alike(row))).collect();
        let mut this = match Self::trees_help(&weighted) {
            Some(true) => Self::fit_trees(&weighted).unwrap_or_else(|| Self::fit_line(&weighted)),
            _ => Self::fit_line(&weighted),
        };
        let left = |row: &LoadedPoint| row.slower - this.logarithm(row.pressure, row.moving, row.threads);
        let sum: f64 = weighted.iter().map(|(row, weight)| left(row).powi(2) * weight).sum();
        let all: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        this.spread = (sum / all).sqrt().max(0.02);
        this
    }

    fn fit_line(rows: &[(&LoadedPoint, f64)]) -> Self {
        let mut this = Self::fair();
        for _ in 0..REWEIGHT_ROUNDS {
            let weights: Vec<f64> = rows
                .iter()
                .map(|(row, alike)| {
                    let off = (row.slower - this.line(row.pressure, row.moving)).abs();
                    alike * OUTLIER_LOG_ERROR / off.max(OUTLIER_LOG_ERROR)
                })
                .collect();
            this = Self::fit_coefficients(rows, &weights);
        }
        this
    }

    /// Fits fair sharing plus monotone trees for the remainder: threads that wait for each other
    /// lose more than their share.
    fn fit_trees(rows: &[(&LoadedPoint, f64)]) -> Option<Self> {
        let fair = Self::fair();
        let mean = rows.iter().map(|(_, weight)| weight).sum::<f64>() / rows.len().max(1) as f64;
        // Adds an unloaded point with remainder 0 for each graph.
        let none: Vec<LoadedPoint> = rows
            .iter()
            .map(|(row, _)| LoadedPoint { pressure: ResourcePressure::default(), slower: 0.0, ..**row })
            .collect();
        let none = none.iter().zip(rows).map(|(none, (_, weight))| (none, UNLOADED_WEIGHT * weight));
        let rows: Vec<(&LoadedPoint, f64)> = rows.iter().copied().chain(none).collect();
        let weights = rows.iter().map(|(_, weight)| (weight / mean).max(1e-6)).collect();
        let table = load_table(&rows)?.with_weights(weights);
        let settings = Settings {
            loss: LossFunction::Absolute,
            trees: 80,
            leaves: 6,
            leaf_rows: 8,
            rate: 0.1,
            monotone: vec![MonotoneConstraint::Up; 3],
            ..Settings::default()
        };
        Some(Self { trees: Some(BoostedTrees::fit(&table.ok()?, None, &settings).ok()?), ..fair })
    }

    /// Whether trees have a smaller held-out error than a linear model.
    fn trees_help(rows: &[(&LoadedPoint, f64)]) -> Option<bool> {
        let (mut straight, mut above) = (0.0, 0.0);
        for fold in group_folds(&load_table(rows)?, 5, 23).ok()? {
            let known: Vec<(&LoadedPoint, f64)> = fold.train.iter().map(|at| rows[*at]).collect();
            let (line, trees) = (Self::fit_line(&known), Self::fit_trees(&known)?);
            for (row, weight) in fold.test.iter().map(|at| rows[*at]) {
                let off = |law: &Self| {
                    weight * (row.slower - law.logarithm(row.pressure, row.moving, row.threads)).abs()
                };
                straight += off(&line);
                above += off(&trees);
            }
        }
        Some(above < MAX_TREE_ERROR_RATIO * straight)
    }

    fn fair() -> Self {
        Self {
            coefficients: [FAIR_COEFFICIENTS[0], FAIR_COEFFICIENTS[1], FAIR_COEFFICIENTS[2]],
            moving: FAIR_COEFFICIENTS[3],
            spread: 0.0,
            trees: None,
        }
    }

    /// Weighted ridge fit towards fair sharing; negative coefficients are removed one after the
    /// other.
    fn fit_coefficients(rows: &[(&LoadedPoint, f64)], weights: &[f64]) -> Self {
        let mut is_in = [true; 4];
        let mut found = [0.0; 4];
        for _ in 0..4 {
            let system: Vec<(Vec<f64>, f64, f64)> = rows
                .iter()
                .zip(weights)
                .map(|((row, _), weight)| {
                    let values = row.values();
                    let base: f64 =
                        values.iter().zip(FAIR_COEFFICIENTS).map(|(value, fair)| value * fair).sum();
                    let map = values.iter().zip(is_in).map(|(value, is_in)| if is_in { *value } else { 0.0 });
                    (map.collect(), row.slower - base, *weight)
                })
                .collect();
            let moved = ridge(&system, &[0.1 * FAIR_GRAPHS; 4]);
            let mut is_done = true;
            for at in 0..4 {
                found[at] = if is_in[at] { FAIR_COEFFICIENTS[at] + moved[at] } else { 0.0 };
                if found[at] < 0.0 {
                    (is_in[at], is_done) = (false, false);
                    found[at] = 0.0;
                }
            }
            if is_done {
                break;
            }
        }
        Self { coefficients: [found[0], found[1], found[2]], moving: found[3], spread: 0.0, trees: None }
    }

    /// Logarithm of the slowdown factor.
    pub fn logarithm(&self, pressure: ResourcePressure, moving: f64, threads: u32) -> f64 {
        let risen = self.trees.as_ref().map_or(0.0, |trees| load_increase(trees, pressure, moving, threads));
        (self.line(pressure, moving) + risen).max(0.0)
    }

    fn line(&self, pressure: ResourcePressure, moving: f64) -> f64 {
        let values = pressure.values();
        let sum: f64 = values
            .iter()
            .zip(self.coefficients)
            .map(|(value, coefficient)| value.max(0.0) * coefficient)
            .sum();
        sum + pressure.memory.max(0.0) * moving.clamp(0.0, 1.0) * self.moving
    }
}
