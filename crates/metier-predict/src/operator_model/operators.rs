//! The time of one operator: a straight-line law of its family, and trees for what the law does not see.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::graph::{TimedGraph, starts};
use super::linear::{WeightedRow, fit_proportional};
use metier_learn::boost::{BoostedTrees, LossFunction, Settings};
use metier_learn::cross_validation::group_folds;
use metier_learn::random::mix_bits;
use metier_learn::{Error, TrainingTable};

/// One operator of known time.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorSample {
    pub family: String,
    pub kind: String,
    /// Threads that it could use.
    pub threads: u32,
    /// Counts that its time is about proportional to.
    pub basis: Vec<f64>,
    /// What the rest may depend on.
    pub features: Vec<f64>,
    pub seconds: f64,
    /// The graph that it was part of.
    pub group: u64,
    /// Its share of the graph's time: what is next to nothing there is mostly left out.
    pub weight: f64,
}

/// What is asked of an operator.
#[derive(Debug, Clone, Copy)]
pub struct OperatorQuery<'a> {
    pub family: &'a str,
    pub kind: &'a str,
    /// Threads that it can use.
    pub threads: u32,
    /// See [`OperatorSample`].
    pub basis: &'a [f64],
    /// See [`OperatorSample`].
    pub features: &'a [f64],
}

impl OperatorSample {
    /// The question that this is an answer to.
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

/// The law of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FamilyPredictor {
    /// Seconds for each of the basis' counts, by number of threads.
    pub coefficients: BTreeMap<u32, Vec<f64>>,
    /// The same of kinds that were seen often enough: an exponential and a comparison have the same counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of_kinds: BTreeMap<String, BTreeMap<u32, Vec<f64>>>,
    /// What the logarithm of the time is off by.
    pub trees: Option<BoostedTrees>,
    /// Smallest and largest value of each feature that was seen.
    pub range: Vec<(f64, f64)>,
    /// Kinds that were seen, with how often.
    pub kinds: BTreeMap<String, u64>,
    /// By how much times of graphs that were not seen are off, as a logarithm: root of the mean square.
    pub spread: f64,
    pub rows: u64,
}

/// Laws of all families.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorPredictor {
    pub laws: BTreeMap<String, FamilyPredictor>,
    /// For families that were never seen.
    pub any: FamilyPredictor,
    /// What an inference takes beside its operators, by number of threads.
    #[serde(default)]
    pub start: BTreeMap<u32, f64>,
}

/// The predicted time of an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatorEstimate {
    pub seconds: f64,
    /// How far off that may be, as a logarithm.
    pub spread: f64,
    /// Whether its family, kind and size are like those that were seen.
    pub in_range: bool,
}

/// Fewest samples of a family that are a law of its own, and of a kind with a number of threads that are a line of their own.
const MIN_FAMILY_SAMPLES: usize = 12;
const MIN_KIND_SAMPLES: usize = 40;
/// How much farther off a line for all numbers of threads may be than one for each, in squares.
const MAX_SHARED_LINE_ERROR: f64 = 1.15;
/// No operator takes less.
const MIN_OPERATOR_SECONDS: f64 = 2e-8;
/// How exactly an operator is timed, in seconds.
const CLOCK_RESOLUTION: f64 = 1e-6;
/// How far trees may move a law, as a logarithm.
const MAX_TREE_LOG: f64 = 2.5;
/// How far outside of what was seen a size may be, as a logarithm to base 2.
const RANGE_MARGIN_LOG2: f64 = 1.0;

/// Share of a graph's time from which on an operator matters; below, as many are kept as they matter, but never fewer than this share.
const RELEVANT_SHARE: f64 = 0.003;
const MIN_KEPT_SHARE: f64 = 0.1;
/// Most samples of a family, and of one graph among them: graphs of many points must not drown the others.
const MAX_FAMILY_SAMPLES: usize = 12_000;
const MAX_GRAPH_SAMPLES: usize = 500;
/// Most samples that the spread is told from.
const MAX_SPREAD_SAMPLES: usize = 2500;

/// At most so many samples, drawn evenly: the same ones every time, whatever order they come in.
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

/// Lines by number of threads: one for all numbers, where that is about as near; then more threads do nothing for these operators, and each line alone would know less.
fn lines<'a>(
    samples: impl Iterator<Item = &'a OperatorSample>,
    width: usize,
    fewest: usize,
) -> BTreeMap<u32, Vec<f64>> {
    let mut by_threads: BTreeMap<u32, Vec<WeightedRow>> = BTreeMap::new();
    for sample in samples {
        // What is next to nothing is known in proportion only as well as the clock is.
        let sure = sample.seconds / (sample.seconds + CLOCK_RESOLUTION);
        let row = (sample.basis.as_slice(), sample.seconds, sure * sure);
        by_threads.entry(sample.threads).or_default().push(row);
    }
    by_threads.retain(|_, rows| rows.len() >= fewest);
    let own: BTreeMap<u32, Vec<f64>> =
        by_threads.iter().map(|(threads, rows)| (*threads, fit_proportional(rows, width))).collect();
    if own.len() < 2 {
        return own;
    }
    let off = |line: &[f64], rows: &[WeightedRow]| -> f64 {
        let one = |(basis, target, weight): &WeightedRow| {
            let value: f64 = line.iter().zip(*basis).map(|(a, b)| a * b).sum();
            weight * (value / target - 1.0).powi(2)
        };
        rows.iter().map(one).sum()
    };
    let all: Vec<WeightedRow> = by_threads.values().flatten().copied().collect();
    let common = fit_proportional(&all, width);
    let apart: f64 = own.iter().map(|(threads, line)| off(line, &by_threads[threads])).sum();
    match off(&common, &all) <= MAX_SHARED_LINE_ERROR * apart {
        true => own.into_keys().map(|threads| (threads, common.clone())).collect(),
        false => own,
    }
}

impl OperatorPredictor {
    /// Learns from graphs that were timed on an idle device.
    pub fn learn(points: &[&TimedGraph], names: &[String], width: usize) -> Result<Self, Error> {
        let start = starts(points);
        let of = |point: &&&TimedGraph| point.samples(start.get(&point.threads).copied().unwrap_or(0.0));
        let samples: Vec<OperatorSample> =
            points.iter().filter(|point| point.pressure.is_idle()).flat_map(|point| of(&point)).collect();
        Ok(Self { start, ..Self::fit(&samples, names, width)? })
    }

    /// What an inference takes beside its operators.
    pub fn start(&self, threads: u32) -> f64 {
        let near = self.start.iter().min_by_key(|(known, _)| known.abs_diff(threads));
        near.map_or(0.0, |(_, seconds)| *seconds)
    }

    /// Learns the laws; `names` are those of the features.
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

    /// What one operator takes.
    pub fn predict(&self, asked: &OperatorQuery) -> OperatorEstimate {
        match self.laws.get(asked.family) {
            Some(law) => law.predict(asked),
            None => OperatorEstimate { in_range: false, ..self.any.predict(asked) },
        }
    }
}

impl FamilyPredictor {
    fn fit(samples: &[&OperatorSample], names: &[String], width: usize) -> Result<Self, Error> {
        let coefficients = lines(samples.iter().copied(), width, 1);
        let mut of_kinds: BTreeMap<String, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        let kinds: BTreeSet<&str> = samples.iter().map(|sample| sample.kind.as_str()).collect();
        for kind in kinds.iter().filter(|_| kinds.len() > 1) {
            let own =
                lines(samples.iter().copied().filter(|sample| sample.kind == *kind), width, MIN_KIND_SAMPLES);
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

    /// Root of the mean square of what is left in graphs that were not seen, from some of the samples and with quicker trees.
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

    /// The law without its trees.
    fn line(&self, asked: &OperatorQuery) -> f64 {
        // That of its kind with so many threads, or else of the family with the nearest number of threads.
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
