//! Boosted regression trees: histogram-based, grown leaf-wise, for several losses.
//!
//! [`bins`] discretises features once, [`grow`] grows one tree from gradients, and [`loss`] defines
//! gradients and leaf values. This module adds up the trees. Monotone constraints hold for the sum,
//! because every tree satisfies them. Unknown features (NaN) have a default direction at every
//! split, learned from the rows that lack them.

mod batch;
mod bins;
mod grow;
mod loss;
mod packed;

use serde::{Deserialize, Serialize};

pub use batch::BatchTrees;
pub use grow::Tree;
pub use loss::Loss;
pub use packed::Packed;

use crate::random::SplitMix64;
use crate::{Error, Table};
use bins::Bins;

/// Allowed direction of the target when a feature increases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Monotone {
    #[default]
    Free,
    Up,
    Down,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Loss to minimise.
    pub loss: Loss,
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
    pub monotone: Vec<Monotone>,
    /// Number of trees without an improvement on the held-out set before training stops.
    pub patience: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            loss: Loss::Squared,
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
    fn check(&self, table: &Table) -> Result<(), Error> {
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
        if let Loss::Quantile(share) = self.loss
            && !(share > 0.0 && share < 1.0)
        {
            return wrong("loss", format!("quantile {share}"), "a share between 0 and 1");
        }
        if table.len() < 2 {
            return Err(Error::TooLittle { what: "rows", got: table.len(), want: 2, purpose: "learn from" });
        }
        Ok(())
    }
}

/// A predictor: an initial prediction and the trees that are added to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boosted {
    /// Names of the features, in the order of a row.
    pub names: Vec<String>,
    /// Prediction before the first tree.
    pub start: f64,
    pub trees: Vec<Tree>,
}

impl Boosted {
    /// Trains on a table; a held-out set limits the number of trees by early stopping.
    pub fn fit(table: &Table, held_out: Option<&Table>, settings: &Settings) -> Result<Self, Error> {
        settings.check(table)?;
        if let Some(held_out) = held_out.filter(|held_out| held_out.names() != table.names()) {
            let why = format!(
                "the held-out rows have the features {:?}; want {:?}",
                held_out.names(),
                table.names()
            );
            return Err(Error::Table { why });
        }
        let bins = Bins::new(table, settings.bins);
        let target = table.target();
        let start = settings.loss.start(target);
        let mut fitted = Self { names: table.names().to_vec(), start, trees: Vec::new() };
        let mut said = vec![start; table.len()];
        let mut judge = held_out.map(|held_out| Judge::new(held_out, start, settings));
        let mut random = SplitMix64::new(settings.seed);
        let mut grower = grow::Grower::new(&bins, settings, table.len());
        for _ in 0..settings.trees {
            let rows = sample(table.len(), settings.rows, &mut random);
            let columns = sample(table.width(), settings.features, &mut random);
            let mut gradients: Vec<(f64, f64)> =
                target.iter().zip(&said).map(|(is, said)| settings.loss.gradient(*is, *said)).collect();
            for ((gradient, curvature), weight) in gradients.iter_mut().zip(table.weights()) {
                *gradient *= weight;
                *curvature *= weight;
            }
            let leaf = |rows: &[u32]| {
                let left = rows.iter().map(|row| target[*row as usize] - said[*row as usize]);
                match table.weights() {
                    [] => settings.loss.leaf(left),
                    weights => settings.loss.leaf_of(left.zip(rows.iter().map(|row| weights[*row as usize]))),
                }
            };
            let Some(tree) = grower.tree(&gradients, rows, &columns, &leaf) else { break };
            for (row, said) in said.iter_mut().enumerate() {
                *said += tree.predict(table.row(row));
            }
            let goes_on = judge.as_mut().is_none_or(|judge| judge.goes_on(&tree));
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
struct Judge<'a> {
    table: &'a Table,
    settings: &'a Settings,
    said: Vec<f64>,
    best: f64,
    best_trees: usize,
    trees: usize,
}

impl<'a> Judge<'a> {
    fn new(table: &'a Table, start: f64, settings: &'a Settings) -> Self {
        let said = vec![start; table.len()];
        let best = settings.loss.mean(table.target(), &said);
        Self { table, settings, said, best, best_trees: 0, trees: 0 }
    }

    fn goes_on(&mut self, tree: &Tree) -> bool {
        self.trees += 1;
        for (row, said) in self.said.iter_mut().enumerate() {
            *said += tree.predict(self.table.row(row));
        }
        let loss = self.settings.loss.mean(self.table.target(), &self.said);
        if loss < self.best {
            self.best = loss;
            self.best_trees = self.trees;
        }
        self.trees - self.best_trees < self.settings.patience
    }
}

/// Indices below `count`, all or a random share of them, ascending.
fn sample(count: usize, share: f64, random: &mut SplitMix64) -> Vec<u32> {
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
