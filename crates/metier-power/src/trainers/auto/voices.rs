//! The kinds of predictor that a blend is made of. A forest is always there: it says how large errors are. Some of the original's trainers are voices too: where rows are few, a line may be the best.

use std::collections::BTreeMap;

use metier_learn::Table;
use metier_learn::algebra::Matrix;
use metier_learn::boost::{self, Boosted, Loss, Monotone, Packed};
use metier_learn::regress::forest::{self, Forest};
use serde::{Deserialize, Serialize};

use super::super::{Learned, Task, gradient_boosting, k_neighbors, linear, polynomial, svr};
use super::rows::Rows;
use crate::Error;

/// Trees of a forest.
const TREES: usize = 60;
/// How much more watts count than per cent where trees are to do well in both, at the mean of the watts.
const WATTS: f64 = 3.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The median of rows that are alike.
    Median,
    /// What makes their mean relative error least.
    Relative,
    /// Boosted trees of absolute errors on logarithms.
    Logarithms,
    /// Boosted trees of absolute errors in watts and per cent at once.
    Balanced,
    /// Boosted trees of absolute errors in watts on the features alone, never falling when one rises.
    Monotone,
    Line,
    /// A line over squares and products.
    Polynomial,
    Vectors,
    /// The mean of the nearest rows.
    Neighbours,
    /// A hundred boosted trees of depth three.
    Shallow,
}

pub const KINDS: [Kind; 10] = [
    Kind::Median,
    Kind::Relative,
    Kind::Logarithms,
    Kind::Balanced,
    Kind::Monotone,
    Kind::Line,
    Kind::Polynomial,
    Kind::Vectors,
    Kind::Neighbours,
    Kind::Shallow,
];

/// How one of the original's trainers learns.
type Original = fn(&Task<'_>) -> Result<Learned, Error>;

/// The original's trainers that are voices.
const ORIGINALS: [(Kind, Original); 5] = [
    (Kind::Line, linear::learn),
    (Kind::Polynomial, polynomial::learn),
    (Kind::Vectors, svr::learn),
    (Kind::Neighbours, k_neighbors::learn),
    (Kind::Shallow, gradient_boosting::learn),
];

impl Kind {
    /// Whether it is a way to ask the forest.
    pub const fn is_of_forest(self) -> bool {
        matches!(self, Self::Median | Self::Relative)
    }

    /// Whether it is one of the original's trainers.
    pub fn is_original(self) -> bool {
        ORIGINALS.iter().any(|(kind, _)| *kind == self)
    }
}

/// What was learned; kinds that nobody wanted are not there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Voices {
    floor: f64,
    mean: f64,
    forest: Forest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logarithms: Option<Packed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    balanced: Option<Packed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    monotone: Option<Packed>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    originals: BTreeMap<Kind, Learned>,
}

/// What voices say of a row.
pub struct Said {
    pub watts: Vec<(Kind, f64)>,
    /// Half of what lies between the forest's quantiles.
    pub spread: f64,
}

fn table(x: &Matrix, target: impl Iterator<Item = f64>, weights: Vec<f64>) -> Result<Table, Error> {
    let mut table = Table::new((0..x.width()).map(|at| format!("f{at}")).collect());
    for (row, target) in target.enumerate() {
        table.push(x.row(row), target, row as u64)?;
    }
    Ok(table.with_weights(weights)?)
}

impl Voices {
    /// Learns the kinds that are wanted, and a forest.
    pub fn fit(task: &Task<'_>, leaf_rows: usize, is_wanted: impl Fn(Kind) -> bool) -> Result<Self, Error> {
        let (floor, seed) = (task.floor, task.seed);
        let rows = &Rows::new(task.x, task.y, seed)?;
        let mut originals = BTreeMap::new();
        for (kind, learn) in ORIGINALS.into_iter().filter(|(kind, _)| is_wanted(*kind)) {
            // One that cannot learn from these rows is no voice.
            if let Ok(learned) = learn(&Task { from: None, ..*task }) {
                originals.insert(kind, learned);
            }
        }
        let logs: Vec<f64> = rows.y.iter().map(|y| y.max(floor).ln()).collect();
        let settings = forest::Settings { trees: TREES, leaf_rows, seed };
        let forest = Forest::fit(&rows.rich, &rows.y, &logs, &rows.weights, settings)?;
        let free = boost::Settings {
            loss: Loss::Absolute,
            trees: 200,
            leaves: 16,
            leaf_rows: 8,
            rate: 0.06,
            rows: 0.8,
            seed,
            ..boost::Settings::default()
        };
        let boosted = |kind: Kind| -> Result<Option<Packed>, Error> {
            if !is_wanted(kind) {
                return Ok(None);
            }
            let plain = || rows.weights.clone();
            let watts = || rows.y.iter().copied();
            let fitted = match kind {
                Kind::Logarithms => {
                    Boosted::fit(&table(&rows.rich, logs.iter().copied(), plain())?, None, &free)?
                }
                Kind::Balanced => {
                    let count = |y: &f64| {
                        let relative = if *y > floor { 1.0 / y } else { 0.0 };
                        (relative + WATTS / rows.mean.abs().max(floor)) * rows.mean.abs().max(floor)
                    };
                    let weights = rows.y.iter().zip(&rows.weights).map(|(y, weight)| weight * count(y));
                    Boosted::fit(&table(&rows.rich, watts(), weights.collect())?, None, &free)?
                }
                _ => {
                    let monotone = vec![Monotone::Up; rows.x.width()];
                    let settings = boost::Settings { monotone, ..free.clone() };
                    Boosted::fit(&table(&rows.x, watts(), plain())?, None, &settings)?
                }
            };
            Ok(Some(Packed(fitted.in_single())))
        };
        Ok(Self {
            floor,
            mean: rows.mean,
            forest,
            logarithms: boosted(Kind::Logarithms)?,
            balanced: boosted(Kind::Balanced)?,
            monotone: boosted(Kind::Monotone)?,
            originals,
        })
    }

    /// What the wanted voices say of a row of scaled features and its logarithms and ratios.
    pub fn say(&self, row: &[f64], rich: &[f64], is_wanted: impl Fn(Kind) -> bool) -> Said {
        let alike = self.forest.alike(rich);
        // Relative errors count only above the floor; below it, a row counts as one of the mean watts would.
        let relative = |y: f64| if y > self.floor { 1.0 / y } else { 1.0 / self.mean.max(self.floor) };
        let say = |kind: Kind| match kind {
            Kind::Median => Some(alike.quantile(0.5, |_| 1.0)),
            Kind::Relative => Some(alike.quantile(0.5, relative)),
            Kind::Logarithms => self.logarithms.as_ref().map(|trees| trees.0.predict(rich).exp()),
            Kind::Balanced => self.balanced.as_ref().map(|trees| trees.0.predict(rich)),
            Kind::Monotone => self.monotone.as_ref().map(|trees| trees.0.predict(row)),
            original => self
                .originals
                .get(&original)
                .map(|learned| learned.watts(row))
                .filter(|watts| watts.is_finite()),
        };
        let wanted = KINDS.into_iter().filter(|kind| is_wanted(*kind));
        let spread = (alike.quantile(0.95, |_| 1.0) - alike.quantile(0.05, |_| 1.0)) / 2.0;
        Said { watts: wanted.filter_map(|kind| Some((kind, say(kind)?.max(0.0)))).collect(), spread }
    }
}
