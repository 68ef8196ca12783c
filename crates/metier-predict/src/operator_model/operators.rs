//! Predicts the time of one operator: a linear model of its family, and trees for the residual.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::graph::{TimedGraph, starts};
use super::linear::{WeightedRow, fit_proportional};
use metier_learn::boost::{BoostedTrees, LossFunction, Settings};
use metier_learn::cross_validation::group_folds;
use metier_learn::random::mix_bits;
use metier_learn::{Error, TrainingTable};

/// An operator with a measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorSample {
    pub family: String,
    pub kind: String,
    /// Number of available threads.
    pub threads: u32,
    /// Counts that its time is roughly proportional to.
    pub basis: Vec<f64>,
    /// Further inputs of the model.
    pub features: Vec<f64>,
    pub seconds: f64,
    /// Id of its graph.
    pub group: u64,
    /// Share of the graph's time; operators with a tiny share are mostly left out.
    pub weight: f64,
}

/// Input of a prediction.
#[derive(Debug, Clone, Copy)]
pub struct OperatorQuery<'a> {
    pub family: &'a str,
    pub kind: &'a str,
    /// Number of available threads.
    pub threads: u32,
    /// See [`OperatorSample`].
    pub basis: &'a [f64],
    /// See [`OperatorSample`].
    pub features: &'a [f64],
}

impl OperatorSample {
    /// The sample's inputs.
    pub fn query(&self) -> OperatorQuery<'_> {
        OperatorQuery {
            family: &self.family,
            kind: &self.kind,
            threads: self.threads,
            basis: &self.basis,
            features: &self.features,
        }
    }
}

/// Model of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FamilyPredictor {
    /// Seconds per basis count, by number of threads.
    pub coefficients: BTreeMap<u32, Vec<f64>>,
    /// The same for frequent kinds, since kinds with equal counts may differ in cost, such as an
    /// exponential and a comparison.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of_kinds: BTreeMap<String, BTreeMap<u32, Vec<f64>>>,
    /// Trees for the residual of the logarithm.
    pub trees: Option<BoostedTrees>,
    /// Smallest and largest training value of each feature.
    pub range: Vec<(f64, f64)>,
    /// Kinds in the training data, with their number of samples.
    pub kinds: BTreeMap<String, u64>,
    /// Held-out error over graphs, as a logarithm: root mean square.
    pub spread: f64,
    pub rows: u64,
}

/// Models of all families.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorPredictor {
    pub laws: BTreeMap<String, FamilyPredictor>,
    /// Model for families absent from the training data.
    pub any: FamilyPredictor,
    /// Overhead of an inference outside its operators, by number of threads.
    #[serde(default)]
    pub start: BTreeMap<u32, f64>,
}

/// Predicted time of an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatorEstimate {
    pub seconds: f64,
    /// Expected error, as a logarithm.
    pub spread: f64,
    /// Whether family, kind and size are within the training data.
    pub in_range: bool,
}

/// Fewest samples for a family's own model, and for a kind's own linear model at a number of
/// threads.
const MIN_FAMILY_SAMPLES: usize = 12;
const MIN_KIND_SAMPLES: usize = 40;
/// Largest ratio of squared errors at which one linear model serves all numbers of threads.
const MAX_SHARED_LINE_ERROR: f64 = 1.15;
/// Lower bound of an operator's time.
const MIN_OPERATOR_SECONDS: f64 = 2e-8;
/// Timer resolution in seconds.
const CLOCK_RESOLUTION: f64 = 1e-6;
/// Largest correction by trees, as a logarithm.
const MAX_TREE_LOG: f64 = 2.5;
/// Largest distance of a size from the training range, as a logarithm to base 2.
const RANGE_MARGIN_LOG2: f64 = 1.0;

/// Operators above this share of a graph's time are all used; smaller ones are sampled in
/// proportion to their share, but at least this share of them.
const RELEVANT_SHARE: f64 = 0.003;
const MIN_KEPT_SHARE: f64 = 0.1;
/// Largest number of samples of a family, and of one graph among them: graphs with many points must
/// not dominate.
const MAX_FAMILY_SAMPLES: usize = 12_000;
const MAX_GRAPH_SAMPLES: usize = 500;
/// Largest number of samples for the held-out error.
const MAX_SPREAD_SAMPLES: usize = 2500;

/// Families of products, whose first count after the constant is their multiply-adds.
const PRODUCT_FAMILIES: [&str; 4] = ["conv", "conv-point", "conv-transpose", "matmul"];
/// Index of the multiply-adds among the counts.
const WORK: usize = 1;
/// Seconds per multiply-add below this share of the least that was ever measured are degenerate.
const MIN_WORK_SHARE: f64 = 0.01;
/// Share of the least measured seconds per multiply-add that a degenerate line gets.
const REPAIRED_WORK_SHARE: f64 = 0.5;

/// The linear model of some rows. If other counts explain small products as well, a product may
/// come out with nothing per multiply-add, and large ones then cost far too little. Such a line
/// gets a part of the least measured seconds per multiply-add, and its other coefficients are
/// fitted to the rest.
fn fit_line(rows: &[WeightedRow], width: usize, is_product: bool) -> Vec<f64> {
    let line = fit_proportional(rows, width);
    let fastest = rows
        .iter()
        .filter(|(basis, ..)| basis.get(WORK).is_some_and(|work| *work > 0.0))
        .map(|(basis, seconds, _)| seconds / basis[WORK])
        .fold(f64::INFINITY, f64::min);
    let is_degenerate =
        fastest.is_finite() && line.get(WORK).is_some_and(|work| *work < MIN_WORK_SHARE * fastest);
    if !is_product || !is_degenerate {
        return line;
    }
    let cost = REPAIRED_WORK_SHARE * fastest;
    let without = |basis: &[f64]| {
        let mut basis = basis.to_vec();
        basis[WORK] = 0.0;
        basis
    };
    let others: Vec<Vec<f64>> = rows.iter().map(|(basis, ..)| without(basis)).collect();
    let rest: Vec<WeightedRow> = rows
        .iter()
        .zip(&others)
        .map(|((basis, seconds, weight), others)| {
            let left = seconds - cost * basis[WORK];
            // The error stays relative to the whole time.
            (others.as_slice(), left, weight * (left / seconds).powi(2))
        })
        .collect();
    let mut line = fit_proportional(&rest, width);
    line[WORK] = cost;
    line
}

/// Deterministically and evenly draws at most this many samples, independent of their order.
fn thinned<'a>(samples: &[&'a OperatorSample], most: usize, of_one: usize) -> Vec<&'a OperatorSample> {
    let mut order: Vec<(u64, usize)> = samples
        .iter()
        .enumerate()
        .map(|(at, sample)| (mix_bits(sample.group ^ mix_bits(sample.seconds.to_bits())), at))
        .collect();
    order.sort_unstable();
    let mut taken: BTreeMap<u64, usize> = BTreeMap::new();
    let mut numbers: Vec<usize> = Vec::new();
    for (_, at) in order {
        let count = taken.entry(samples[at].group).or_default();
        if *count < of_one && numbers.len() < most {
            *count += 1;
            numbers.push(at);
        }
    }
    numbers.sort_unstable();
    numbers.into_iter().map(|at| samples[at]).collect()
}

fn settings(rows: usize) -> Settings {
    Settings {
        loss: LossFunction::Squared,
        trees: 260,
        leaves: if rows < 400 { 6 } else { 14 },
        leaf_rows: if rows < 200 { 4 } else { 6 },
        rate: 0.06,
        ridge: 1.0,
        rows: 0.8,
        features: 0.7,
        ..Settings::default()
    }
}

/// Linear models by number of threads. A single one is used if its error is about as small: then
/// threads do not matter for these operators, and separate fits would have less data.
fn lines<'a>(
    samples: impl Iterator<Item = &'a OperatorSample>,
    width: usize,
    fewest: usize,
    is_product: bool,
) -> BTreeMap<u32, Vec<f64>> {
    let mut by_threads: BTreeMap<u32, Vec<WeightedRow>> = BTreeMap::new();
    for sample in samples {
        // The relative error of tiny times is limited by the timer resolution.
        let sure = sample.seconds / (sample.seconds + CLOCK_RESOLUTION);
        let row = (sample.basis.as_slice(), sample.seconds, sure * sure);
        by_threads.entry(sample.threads).or_default().push(row);
    }
    by_threads.retain(|_, rows| rows.len() >= fewest);
    let own: BTreeMap<u32, Vec<f64>> =
        by_threads.iter().map(|(threads, rows)| (*threads, fit_line(rows, width, is_product))).collect();
    if own.len() < 2 {
        return own;
    }
    let off = |line: &[f64], rows: &[WeightedRow]| -> f64 {
        let squared_error = |(basis, target, weight): &WeightedRow| {
            let value: f64 = line.iter().zip(*basis).map(|(a, b)| a * b).sum();
            weight * (value / target - 1.0).powi(2)
        };
        rows.iter().map(squared_error).sum()
    };
    let all: Vec<WeightedRow> = by_threads.values().flatten().copied().collect();
    let common = fit_line(&all, width, is_product);
    let apart: f64 = own.iter().map(|(threads, line)| off(line, &by_threads[threads])).sum();
    match off(&common, &all) <= MAX_SHARED_LINE_ERROR * apart {
        true => own.into_keys().map(|threads| (threads, common.clone())).collect(),
        false => own,
    }
}

impl OperatorPredictor {
    /// Trains on graphs timed on an idle device.
    pub fn learn(points: &[&TimedGraph], names: &[String], width: usize) -> Result<Self, Error> {
        let start = starts(points);
        let of = |point: &&&TimedGraph| point.samples(start.get(&point.threads).copied().unwrap_or(0.0));
        let samples: Vec<OperatorSample> =
            points.iter().filter(|point| point.pressure.is_idle()).flat_map(|point| of(&point)).collect();
        Ok(Self { start, ..Self::fit(&samples, names, width)? })
    }

    /// Overhead of an inference outside its operators.
    pub fn start(&self, threads: u32) -> f64 {
        let near = self.start.iter().min_by_key(|(known, _)| known.abs_diff(threads));
        near.map_or(0.0, |(_, seconds)| *seconds)
    }

    /// Trains the models; `names` are those of the features.
    pub fn fit(samples: &[OperatorSample], names: &[String], width: usize) -> Result<Self, Error> {
        let usable = |sample: &&OperatorSample| {
            sample.seconds > 0.0 && sample.seconds.is_finite() && sample.weight > 0.0
        };
        let matters = |sample: &&OperatorSample| {
            let chance = mix_bits(sample.seconds.to_bits() ^ mix_bits(sample.group)) as f64 / 2f64.powi(64);
            chance < (sample.weight / RELEVANT_SHARE).max(MIN_KEPT_SHARE)
        };
        let samples: Vec<&OperatorSample> = samples.iter().filter(usable).filter(matters).collect();
        if samples.len() < MIN_FAMILY_SAMPLES {
            return Err(Error::TooFewItems {
                what: "operator times",
                got: samples.len(),
                want: MIN_FAMILY_SAMPLES,
                purpose: "learn from",
            });
        }
        if let Some(odd) =
            samples.iter().find(|sample| sample.basis.len() != width || sample.features.len() != names.len())
        {
            let why = format!(
                "a sample of {} counts and {} features; want {width} and {}",
                odd.basis.len(),
                odd.features.len(),
                names.len()
            );
            return Err(Error::Table { why });
        }
        let mut by_family: BTreeMap<&str, Vec<&OperatorSample>> = BTreeMap::new();
        for sample in &samples {
            by_family.entry(&sample.family).or_default().push(sample);
        }
        let mut laws = BTreeMap::new();
        for (family, own) in by_family {
            if own.len() >= MIN_FAMILY_SAMPLES {
                let own = thinned(&own, MAX_FAMILY_SAMPLES, MAX_GRAPH_SAMPLES);
                laws.insert(family.to_string(), FamilyPredictor::fit(&own, names, width)?);
            }
        }
        let few = thinned(&samples, MAX_SPREAD_SAMPLES, MAX_GRAPH_SAMPLES);
        Ok(Self { laws, any: FamilyPredictor::fit(&few, names, width)?, start: BTreeMap::new() })
    }

    /// Families of products with a line that has no cost per multiply-add, each with the kind and
    /// the number of threads.
    pub fn degenerate_lines(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (family, law) in self.laws.iter().filter(|(name, _)| PRODUCT_FAMILIES.contains(&name.as_str())) {
            let own = law.coefficients.iter().map(|line| (family.as_str(), line));
            let of_kinds = law
                .of_kinds
                .iter()
                .flat_map(|(kind, lines)| lines.iter().map(move |line| (kind.as_str(), line)));
            for (name, (threads, line)) in own.chain(of_kinds) {
                if line.get(WORK).is_none_or(|work| *work <= 0.0) {
                    all.push(format!("{name} with {threads} threads"));
                }
            }
        }
        all
    }

    /// Predicts one operator.
    pub fn predict(&self, asked: &OperatorQuery) -> OperatorEstimate {
        match self.laws.get(asked.family) {
            Some(law) => law.predict(asked),
            None => OperatorEstimate { in_range: false, ..self.any.predict(asked) },
        }
    }
}

impl FamilyPredictor {
    fn fit(samples: &[&OperatorSample], names: &[String], width: usize) -> Result<Self, Error> {
        let is_product = samples.iter().all(|sample| PRODUCT_FAMILIES.contains(&sample.family.as_str()));
        let coefficients = lines(samples.iter().copied(), width, 1, is_product);
        let mut of_kinds: BTreeMap<String, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        let kinds: BTreeSet<&str> = samples.iter().map(|sample| sample.kind.as_str()).collect();
        for kind in kinds.iter().filter(|_| kinds.len() > 1) {
            let of_kind = samples.iter().copied().filter(|sample| sample.kind == *kind);
            let own = lines(of_kind, width, MIN_KIND_SAMPLES, is_product);
            if !own.is_empty() {
                of_kinds.insert((*kind).to_string(), own);
            }
        }
        let mut law = Self {
            coefficients,
            of_kinds,
            trees: None,
            range: vec![(f64::INFINITY, f64::NEG_INFINITY); names.len()],
            kinds: BTreeMap::new(),
            spread: 0.5,
            rows: samples.len() as u64,
        };
        for sample in samples {
            *law.kinds.entry(sample.kind.clone()).or_default() += 1;
            for (range, value) in law.range.iter_mut().zip(&sample.features) {
                *range = (range.0.min(*value), range.1.max(*value));
            }
        }
        let mut table = TrainingTable::new(names.to_vec());
        for sample in samples {
            let off = (sample.seconds / law.line(&sample.query())).ln().clamp(-MAX_TREE_LOG, MAX_TREE_LOG);
            table.push_row(&sample.features, off, sample.group)?;
        }
        law.spread = law.held_out(&table)?;
        law.trees = Some(BoostedTrees::fit(&table, None, &settings(table.len()))?);
        Ok(law)
    }

    /// Held-out error over graphs (root mean square), from a subset of the samples and with smaller
    /// trees.
    fn held_out(&self, table: &TrainingTable) -> Result<f64, Error> {
        let own: f64 = table.target().iter().map(|off| off * off).sum::<f64>() / table.len().max(1) as f64;
        let step = table.len().div_ceil(MAX_SPREAD_SAMPLES).max(1);
        let table = table.select_rows(&(0..table.len()).step_by(step).collect::<Vec<_>>());
        let Ok(folds) = group_folds(&table, 3, 17) else { return Ok(own.sqrt().clamp(0.05, 2.0)) };
        let (mut sum, mut rows) = (0.0, 0.0);
        for fold in folds {
            let quick = Settings { trees: 60, rate: 0.2, ..settings(fold.train.len()) };
            let trees = BoostedTrees::fit(&table.select_rows(&fold.train), None, &quick)?;
            for row in fold.test {
                let left = table.target()[row] - trees.predict(table.row(row));
                sum += left * left;
                rows += 1.0;
            }
        }
        Ok((sum / f64::max(rows, 1.0)).sqrt().clamp(0.02, 2.0))
    }

    /// The linear model without trees.
    fn line(&self, asked: &OperatorQuery) -> f64 {
        // Uses the kind's model for this number of threads, else the family's for the nearest
        // number.
        let own = self.of_kinds.get(asked.kind).filter(|of| of.contains_key(&asked.threads));
        let known = own
            .unwrap_or(&self.coefficients)
            .iter()
            .min_by_key(|(threads, _)| threads.abs_diff(asked.threads));
        let Some((_, coefficients)) = known else { return MIN_OPERATOR_SECONDS };
        coefficients.iter().zip(asked.basis).map(|(a, b)| a * b).sum::<f64>().max(MIN_OPERATOR_SECONDS)
    }

    fn predict(&self, asked: &OperatorQuery) -> OperatorEstimate {
        let off = self.trees.as_ref().map_or(0.0, |trees| trees.predict(asked.features));
        let is_inside = self.range.iter().zip(asked.features).skip(1).all(|((low, high), value)| {
            let margin = RANGE_MARGIN_LOG2.max(0.15 * (high - low).abs());
            *value >= low - margin && *value <= high + margin
        });
        let in_range = is_inside
            && self.kinds.contains_key(asked.kind)
            && self.coefficients.contains_key(&asked.threads);
        let seconds = self.line(asked) * off.clamp(-MAX_TREE_LOG, MAX_TREE_LOG).exp();
        let spread = if in_range { self.spread } else { self.spread.max(0.3) * 2.0 };
        OperatorEstimate { seconds, spread, in_range }
    }
}
