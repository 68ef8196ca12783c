//! Boosted regression trees: histogram-based, grown leaf-wise, for several losses.
//!
//! [`feature_bins`] discretises features once, [`grow_tree`] grows one tree from gradients, and
//! [`loss`] defines gradients and leaf values. This module adds up the trees. Monotone constraints
//! hold for the sum, because every tree satisfies them. Unknown features (NaN) have a default
//! direction at every split, learned from the rows that lack them.

mod batch_trees;
mod feature_bins;
mod loss;
mod packed_trees;
mod tree_grower;

use serde::{Deserialize, Serialize};

pub use batch_trees::BatchTrees;
pub use loss::LossFunction;
pub use packed_trees::PackedTrees;
pub use tree_grower::BoostedTree;

use crate::random::SplitMix64;
use crate::{Error, TrainingTable};
use feature_bins::FeatureBins;

/// Allowed direction of the target when a feature increases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MonotoneConstraint {
    #[default]
    Free,
    Up,
    Down,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Loss to minimise.
    pub loss: LossFunction,
    pub trees: usize,
    /// Largest number of leaves of a tree.
    pub leaves: usize,
    /// Largest depth of a tree.
    pub depth: usize,
    /// Smallest number of rows of a leaf.
    pub leaf_rows: usize,
    /// Learning rate.
    pub rate: f64,
    /// L2 regularisation of leaf values.
    pub ridge: f64,
    /// Share of the rows sampled for each tree.
    pub rows: f64,
    /// Share of the features sampled for each tree.
    pub features: f64,
    /// Largest number of bins of a feature.
    pub bins: usize,
    /// Constraints by feature; missing ones are free.
    pub monotone: Vec<MonotoneConstraint>,
    /// Number of trees without an improvement on the held-out set before training stops.
    pub patience: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            loss: LossFunction::Squared,
            trees: 300,
            leaves: 31,
            depth: usize::MAX,
            leaf_rows: 10,
            rate: 0.1,
            ridge: 1.0,
            rows: 1.0,
            features: 1.0,
            bins: 255,
            monotone: Vec::new(),
            patience: 50,
            seed: 1,
        }
    }
}

impl Settings {
    fn validate(&self, table: &TrainingTable) -> Result<(), Error> {
        let wrong = |field, got: String, want| Err(Error::Setting { field, got, want });
        if !(2..=255).contains(&self.bins) {
            return wrong("bins", self.bins.to_string(), "2 to 255");
        }
        if self.leaves < 2 {
            return wrong("leaves", self.leaves.to_string(), "at least 2");
        }
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return wrong("rate", self.rate.to_string(), "above 0, at most 1");
        }
        if !(self.rows > 0.0 && self.rows <= 1.0) {
            return wrong("rows", self.rows.to_string(), "above 0, at most 1");
        }
        if !(self.features > 0.0 && self.features <= 1.0) {
            return wrong("features", self.features.to_string(), "above 0, at most 1");
        }
        if !(self.ridge >= 0.0 && self.ridge.is_finite()) {
            return wrong("ridge", self.ridge.to_string(), "0 or more");
        }
        if let LossFunction::Quantile(share) = self.loss
            && !(share > 0.0 && share < 1.0)
        {
            return wrong("loss", format!("quantile {share}"), "a share between 0 and 1");
        }
        if table.len() < 2 {
            return Err(Error::TooFewItems {
                what: "rows",
                got: table.len(),
                want: 2,
                purpose: "learn from",
            });
        }
        Ok(())
    }
}

/// A predictor: an initial prediction and the trees that are added to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoostedTrees {
    /// Names of the features, in the order of a row.
    pub names: Vec<String>,
    /// Prediction before the first tree.
    pub start: f64,
    pub trees: Vec<BoostedTree>,
}

impl BoostedTrees {
    /// Trains on a table; a held-out set limits the number of trees by early stopping.
    pub fn fit(
        table: &TrainingTable,
        held_out: Option<&TrainingTable>,
        settings: &Settings,
    ) -> Result<Self, Error> {
        settings.validate(table)?;
        if let Some(held_out) = held_out.filter(|held_out| held_out.names() != table.names()) {
            let why = format!(
                "the held-out rows have the features {:?}; want {:?}",
                held_out.names(),
                table.names()
            );
            return Err(Error::Table { why });
        }
        let bins = FeatureBins::new(table, settings.bins);
        let target = table.target();
        let start = settings.loss.initial_prediction(target);
        let mut fitted = Self { names: table.names().to_vec(), start, trees: Vec::new() };
        let mut values = vec![start; table.len()];
        let mut judge = held_out.map(|held_out| EarlyStopping::new(held_out, start, settings));
        let mut random = SplitMix64::new(settings.seed);
        let mut grower = tree_grower::BoostedTreeGrower::new(&bins, settings, table.len());
        for _ in 0..settings.trees {
            let rows = sample_indices(table.len(), settings.rows, &mut random);
            let columns = sample_indices(table.width(), settings.features, &mut random);
            let mut gradients: Vec<(f64, f64)> =
                target.iter().zip(&values).map(|(is, value)| settings.loss.gradient(*is, *value)).collect();
            for ((gradient, curvature), weight) in gradients.iter_mut().zip(table.weights()) {
                *gradient *= weight;
                *curvature *= weight;
            }
            let leaf = |rows: &[u32]| {
                let left = rows.iter().map(|row| target[*row as usize] - values[*row as usize]);
                match table.weights() {
                    [] => settings.loss.best_constant(left),
                    weights => settings
                        .loss
                        .weighted_best_constant(left.zip(rows.iter().map(|row| weights[*row as usize]))),
                }
            };
            let Some(tree) = grower.grow_tree(&gradients, rows, &columns, &leaf) else { break };
            for (row, value) in values.iter_mut().enumerate() {
                *value += tree.predict(table.row(row));
            }
            let goes_on = judge.as_mut().is_none_or(|judge| judge.should_continue(&tree));
            fitted.trees.push(tree);
            if !goes_on {
                break;
            }
        }
        if let Some(judge) = judge {
            fitted.trees.truncate(judge.best_trees);
        }
        Ok(fitted)
    }

    /// Predicts the target of a row.
    pub fn predict(&self, row: &[f64]) -> f64 {
        self.start + self.trees.iter().map(|tree| tree.predict(row)).sum::<f64>()
    }

    /// Share of each feature in the total gain of all splits; the shares add up to 1 unless there
    /// is no gain.
    pub fn importance(&self) -> Vec<f64> {
        let mut gains = vec![0.0; self.names.len()];
        self.trees.iter().for_each(|tree| tree.add_gains(&mut gains));
        let sum: f64 = gains.iter().sum();
        if sum > 0.0 {
            gains.iter_mut().for_each(|gain| *gain /= sum);
        }
        gains
    }
}

/// Early stopping on a held-out set.
struct EarlyStopping<'a> {
    table: &'a TrainingTable,
    settings: &'a Settings,
    values: Vec<f64>,
    best: f64,
    best_trees: usize,
    trees: usize,
}

impl<'a> EarlyStopping<'a> {
    fn new(table: &'a TrainingTable, start: f64, settings: &'a Settings) -> Self {
        let values = vec![start; table.len()];
        let best = settings.loss.mean_loss(table.target(), &values);
        Self { table, settings, values, best, best_trees: 0, trees: 0 }
    }

    fn should_continue(&mut self, tree: &BoostedTree) -> bool {
        self.trees += 1;
        for (row, value) in self.values.iter_mut().enumerate() {
            *value += tree.predict(self.table.row(row));
        }
        let loss = self.settings.loss.mean_loss(self.table.target(), &self.values);
        if loss < self.best {
            self.best = loss;
            self.best_trees = self.trees;
        }
        self.trees - self.best_trees < self.settings.patience
    }
}

/// Indices below `count`, all or a random share of them, ascending.
fn sample_indices(count: usize, share: f64, random: &mut SplitMix64) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count as u32).collect();
    if share < 1.0 {
        let keep = ((count as f64 * share).round() as usize).clamp(1, count.max(1));
        random.shuffle(&mut all);
        all.truncate(keep);
        all.sort_unstable();
    }
    all
}

#[cfg(test)]
mod tests;
