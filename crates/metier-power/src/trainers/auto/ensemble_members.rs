//! The member kinds of the ensemble. A forest is always trained, since it predicts the error size.
//! Some of the original's trainers are members too: with few rows, a linear model may be the best.

use std::collections::BTreeMap;

use metier_learn::TrainingTable;
use metier_learn::boost::{self, BoostedTrees, LossFunction, MonotoneConstraint, PackedTrees};
use metier_learn::linear_algebra::DenseMatrix;
use metier_learn::regress::quantile_forest::{self, QuantileForest};
use serde::{Deserialize, Serialize};

use super::super::{LearnedFormula, TrainerTask, gradient_boosting, k_neighbors, linear, polynomial, svr};
use super::mixed_rows::MixedRows;
use crate::Error;

/// Trees of a forest.
const FOREST_TREES: usize = 60;
/// Weight of watts against relative error in the balanced loss, at the mean of the watts.
const WATTS_ERROR_WEIGHT: f64 = 3.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnsembleMemberKind {
    /// Forest: median of the leaf's rows.
    Median,
    /// Forest: the value with the smallest mean relative error.
    Relative,
    /// Boosted trees of absolute errors on logarithms.
    Logarithms,
    /// Boosted trees of absolute errors in watts and relative errors together.
    Balanced,
    /// Boosted trees of absolute errors in watts, on the features alone, monotone in each.
    Monotone,
    Line,
    /// A linear model of squares and products.
    Polynomial,
    Vectors,
    /// Mean of the nearest rows.
    Neighbours,
    /// A hundred boosted trees of depth three.
    Shallow,
}

pub const MEMBER_KINDS: [EnsembleMemberKind; 10] = [
    EnsembleMemberKind::Median,
    EnsembleMemberKind::Relative,
    EnsembleMemberKind::Logarithms,
    EnsembleMemberKind::Balanced,
    EnsembleMemberKind::Monotone,
    EnsembleMemberKind::Line,
    EnsembleMemberKind::Polynomial,
    EnsembleMemberKind::Vectors,
    EnsembleMemberKind::Neighbours,
    EnsembleMemberKind::Shallow,
];

/// Training function of one of the original's trainers.
type OriginalTrainer = fn(&TrainerTask<'_>) -> Result<LearnedFormula, Error>;

/// The original's trainers that are ensemble members.
const ORIGINALS: [(EnsembleMemberKind, OriginalTrainer); 5] = [
    (EnsembleMemberKind::Line, linear::learn),
    (EnsembleMemberKind::Polynomial, polynomial::learn),
    (EnsembleMemberKind::Vectors, svr::learn),
    (EnsembleMemberKind::Neighbours, k_neighbors::learn),
    (EnsembleMemberKind::Shallow, gradient_boosting::learn),
];

impl EnsembleMemberKind {
    /// Whether the member is computed from the forest.
    pub const fn is_of_forest(self) -> bool {
        matches!(self, Self::Median | Self::Relative)
    }

    /// Whether the member is one of the original's trainers.
    pub fn is_original(self) -> bool {
        ORIGINALS.iter().any(|(kind, _)| *kind == self)
    }
}

/// Trained members; kinds that were not requested are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnsembleMembers {
    floor: f64,
    mean: f64,
    forest: QuantileForest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logarithms: Option<PackedTrees>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    balanced: Option<PackedTrees>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    monotone: Option<PackedTrees>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    originals: BTreeMap<EnsembleMemberKind, LearnedFormula>,
}

/// Predictions of the members for a row.
pub struct MemberPredictions {
    pub watts: Vec<(EnsembleMemberKind, f64)>,
    /// Half the distance between the forest's quantiles.
    pub spread: f64,
}

fn table(
    x: &DenseMatrix,
    target: impl Iterator<Item = f64>,
    weights: Vec<f64>,
) -> Result<TrainingTable, Error> {
    let mut table = TrainingTable::new((0..x.width()).map(|at| format!("f{at}")).collect());
    for (row, target) in target.enumerate() {
        table.push_row(x.row(row), target, row as u64)?;
    }
    Ok(table.with_weights(weights)?)
}

impl EnsembleMembers {
    /// Trains the requested kinds and a forest.
    pub fn fit(
        task: &TrainerTask<'_>,
        leaf_rows: usize,
        is_wanted: impl Fn(EnsembleMemberKind) -> bool,
    ) -> Result<Self, Error> {
        let (floor, seed) = (task.floor, task.seed);
        let rows = &MixedRows::new(task.x, task.y, seed)?;
        let mut originals = BTreeMap::new();
        for (kind, learn) in ORIGINALS.into_iter().filter(|(kind, _)| is_wanted(*kind)) {
            // A trainer that fails on these rows is left out of the ensemble.
            if let Ok(learned) = learn(&TrainerTask { from: None, ..*task }) {
                originals.insert(kind, learned);
            }
        }
        let logs: Vec<f64> = rows.y.iter().map(|y| y.max(floor).ln()).collect();
        let settings = quantile_forest::Settings { trees: FOREST_TREES, leaf_rows, seed };
        let forest = QuantileForest::fit(&rows.rich, &rows.y, &logs, &rows.weights, settings)?;
        let free = boost::Settings {
            loss: LossFunction::Absolute,
            trees: 200,
            leaves: 16,
            leaf_rows: 8,
            rate: 0.06,
            rows: 0.8,
            seed,
            ..boost::Settings::default()
        };
        let boosted = |kind: EnsembleMemberKind| -> Result<Option<PackedTrees>, Error> {
            if !is_wanted(kind) {
                return Ok(None);
            }
            let plain = || rows.weights.clone();
            let watts = || rows.y.iter().copied();
            let fitted = match kind {
                EnsembleMemberKind::Logarithms => {
                    BoostedTrees::fit(&table(&rows.rich, logs.iter().copied(), plain())?, None, &free)?
                }
                EnsembleMemberKind::Balanced => {
                    let count = |y: &f64| {
                        let relative = if *y > floor { 1.0 / y } else { 0.0 };
                        (relative + WATTS_ERROR_WEIGHT / rows.mean.abs().max(floor))
                            * rows.mean.abs().max(floor)
                    };
                    let weights = rows.y.iter().zip(&rows.weights).map(|(y, weight)| weight * count(y));
                    BoostedTrees::fit(&table(&rows.rich, watts(), weights.collect())?, None, &free)?
                }
                _ => {
                    let monotone = vec![MonotoneConstraint::Up; rows.x.width()];
                    let settings = boost::Settings { monotone, ..free.clone() };
                    BoostedTrees::fit(&table(&rows.x, watts(), plain())?, None, &settings)?
                }
            };
            Ok(Some(PackedTrees(fitted.to_single_precision())))
        };
        Ok(Self {
            floor,
            mean: rows.mean,
            forest,
            logarithms: boosted(EnsembleMemberKind::Logarithms)?,
            balanced: boosted(EnsembleMemberKind::Balanced)?,
            monotone: boosted(EnsembleMemberKind::Monotone)?,
            originals,
        })
    }

    /// Predictions of the requested members for a row of scaled features with its logarithms and
    /// ratios.
    pub fn predict_members(
        &self,
        row: &[f64],
        rich: &[f64],
        is_wanted: impl Fn(EnsembleMemberKind) -> bool,
    ) -> MemberPredictions {
        let alike = self.forest.find_similar_rows(rich);
        // Relative errors count only above the floor; a row below it counts like one of the mean
        // watts.
        let relative = |y: f64| if y > self.floor { 1.0 / y } else { 1.0 / self.mean.max(self.floor) };
        let say = |kind: EnsembleMemberKind| match kind {
            EnsembleMemberKind::Median => Some(alike.quantile(0.5, |_| 1.0)),
            EnsembleMemberKind::Relative => Some(alike.quantile(0.5, relative)),
            EnsembleMemberKind::Logarithms => {
                self.logarithms.as_ref().map(|trees| trees.0.predict(rich).exp())
            }
            EnsembleMemberKind::Balanced => self.balanced.as_ref().map(|trees| trees.0.predict(rich)),
            EnsembleMemberKind::Monotone => self.monotone.as_ref().map(|trees| trees.0.predict(row)),
            original => self
                .originals
                .get(&original)
                .map(|learned| learned.watts(row))
                .filter(|watts| watts.is_finite()),
        };
        let filter = MEMBER_KINDS.into_iter().filter(|kind| is_wanted(*kind));
        let spread = (alike.quantile(0.95, |_| 1.0) - alike.quantile(0.05, |_| 1.0)) / 2.0;
        MemberPredictions {
            watts: filter.filter_map(|kind| Some((kind, say(kind)?.max(0.0)))).collect(),
            spread,
        }
    }
}
