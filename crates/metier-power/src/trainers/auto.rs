//! Ours: several kinds of predictor, each judged on rows that it has not seen, blended by what they are worth.
//!
//! The members: forests that tell a median of relative errors, boosted trees of absolute errors on logarithms (free, and never falling with load),
//! neighbours among logarithms, and the original's XGBoost, so that a blend is not worse than that. Beside the features themselves they see logarithms and
//! ratios of two (instructions a cycle, misses an instruction): the row's own features and nothing else. The blend is the greedy one of Caruana et al. (2004):
//! again and again the member that lowers the held-out error most. One forest also says how large an error is where, by its quantiles.

use std::collections::BTreeMap;

use metier_learn::Table;
use metier_learn::algebra::Matrix;
use metier_learn::boost::{self, Boosted, Loss, Monotone};
use metier_learn::regress::exact::{self, Exact};
use metier_learn::regress::forest::{self, Forest};
use metier_learn::regress::knn::Neighbours;
use serde::{Deserialize, Serialize};

use super::held_out::PARTS;
use super::{Judged, Learned, Task};
use crate::Error;

/// Added before a logarithm: a millionth of the largest value.
const SMALL: f64 = 1e-6;
/// Steps of the blend.
const STEPS: usize = 12;
/// Steps that a blend which is there already counts for.
const EARLIER_STEPS: f64 = 3.0;
/// The least size of an error, as a share of the watts.
const LEAST_ERROR: f64 = 0.01;

/// The kinds of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A forest with leaves of at least three rows.
    FineForest,
    /// A forest with leaves of at least six rows.
    Forest,
    /// Boosted trees of absolute errors on logarithms.
    Boosted,
    /// The same on the features alone, never falling when one rises.
    Monotone,
    /// Neighbours among logarithms.
    Neighbours,
    /// The original's booster.
    Xgboost,
}

const KINDS: [Kind; 6] =
    [Kind::FineForest, Kind::Forest, Kind::Boosted, Kind::Monotone, Kind::Neighbours, Kind::Xgboost];

/// One member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "of")]
enum Member {
    Forest(Forest),
    Boosted(Boosted),
    Monotone(Boosted),
    Neighbours(Neighbours),
    Xgboost(Exact),
}

/// Members with what each counts, and the forest that says how large errors are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blend {
    floor: f64,
    shares: BTreeMap<Kind, f64>,
    members: BTreeMap<Kind, Member>,
}

/// Logarithms of all features and of all ratios of two.
fn richer(row: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = row.iter().map(|value| (value.max(0.0) + SMALL).ln()).collect();
    let mut out = logs.clone();
    for (at, one) in logs.iter().enumerate() {
        out.extend(logs[at + 1..].iter().map(|other| one - other));
    }
    out
}

fn log_table(x: &Matrix, y: &[f64], floor: f64, is_rich: bool) -> Result<Table, Error> {
    let width = if is_rich { richer(&vec![0.0; x.width()]).len() } else { x.width() };
    let mut table = Table::new((0..width).map(|at| format!("f{at}")).collect());
    for (row, y) in y.iter().enumerate() {
        let features = if is_rich { richer(x.row(row)) } else { x.row(row).to_vec() };
        table.push(&features, y.max(floor).ln(), row as u64)?;
    }
    Ok(table)
}

fn fit(kind: Kind, x: &Matrix, y: &[f64], floor: f64, seed: u64) -> Result<Member, Error> {
    let rich = || {
        let rows: Vec<Vec<f64>> = (0..y.len()).map(|row| richer(x.row(row))).collect();
        Matrix::from_rows(&rows)
    };
    let logs = || -> Vec<f64> { y.iter().map(|y| y.max(floor).ln()).collect() };
    let forest = |leaf_rows: usize| -> Result<Member, Error> {
        let settings = forest::Settings { trees: 100, leaf_rows, seed };
        Ok(Member::Forest(Forest::fit(&rich()?, y, &logs(), settings)?))
    };
    let boosted = boost::Settings {
        loss: Loss::Absolute,
        trees: 300,
        leaves: 24,
        leaf_rows: 5,
        rate: 0.06,
        rows: 0.8,
        seed,
        ..boost::Settings::default()
    };
    Ok(match kind {
        Kind::FineForest => forest(3)?,
        Kind::Forest => forest(6)?,
        Kind::Boosted => Member::Boosted(Boosted::fit(&log_table(x, y, floor, true)?, None, &boosted)?),
        Kind::Monotone => {
            let settings = boost::Settings { monotone: vec![Monotone::Up; x.width()], ..boosted };
            Member::Monotone(Boosted::fit(&log_table(x, y, floor, false)?, None, &settings)?)
        }
        Kind::Neighbours => Member::Neighbours(Neighbours::fit(&rich()?, y, 6.min(y.len()))?),
        Kind::Xgboost => Member::Xgboost(Exact::fit(x, y, exact::Settings::XGBOOST, None)?),
    })
}

impl Member {
    fn watts(&self, row: &[f64], rich: &[f64], floor: f64) -> f64 {
        match self {
            Self::Forest(forest) => {
                // The median of weights over watts: what makes the mean relative error least.
                let mut weights = forest.alike(rich);
                weights.iter_mut().zip(forest.targets()).for_each(|(weight, y)| *weight /= y.max(floor));
                forest.quantile(&weights, 0.5)
            }
            Self::Boosted(trees) => trees.predict(rich).exp(),
            Self::Monotone(trees) => trees.predict(row).exp(),
            Self::Neighbours(near) => near.predict(rich),
            Self::Xgboost(trees) => trees.predict(row),
        }
    }

    /// Half of what lies between the quantiles of a forest.
    fn spread(&self, rich: &[f64]) -> f64 {
        let Self::Forest(forest) = self else { return 0.0 };
        let weights = forest.alike(rich);
        (forest.quantile(&weights, 0.95) - forest.quantile(&weights, 0.05)) / 2.0
    }
}

impl Blend {
    /// Watts, and the size of an error there.
    pub fn say(&self, row: &[f64]) -> (f64, f64) {
        let rich = richer(row);
        let (mut sum, mut total) = (0.0, 0.0);
        for (kind, share) in &self.shares {
            if let Some(member) = self.members.get(kind).filter(|_| *share > 0.0) {
                sum += share * member.watts(row, &rich, self.floor);
                total += share;
            }
        }
        let watts = if total > 0.0 { sum / total } else { 0.0 };
        let spread = self.members.get(&Kind::Forest).map_or(0.0, |forest| forest.spread(&rich));
        (watts, error_size(spread, watts, self.floor))
    }

    /// What each kind of member counts, adding up to 1.
    pub fn shares(&self) -> &BTreeMap<Kind, f64> {
        &self.shares
    }
}

/// What each member said of rows that it had not seen, and the size of an error that the forest said.
struct Said {
    watts: BTreeMap<Kind, Vec<f64>>,
    spread: Vec<f64>,
}

pub fn learn(task: &Task<'_>) -> Result<Judged, Error> {
    let low = task.y.iter().copied().fold(f64::INFINITY, f64::min);
    let high = task.y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if high - low <= 1e-9 * high.abs().max(1.0) {
        return Ok((Learned::constant(low, task.x.width()), vec![(low, 1.0); task.y.len()]));
    }
    let parts = task.validation.parts(task.y.len());
    let said = unseen(task, &parts)?;
    // A row's own part has no vote on the blend that it is judged by.
    let mut judged = vec![(0.0, 1.0); task.y.len()];
    for part in 0..PARTS {
        let voters: Vec<usize> = (0..parts.len()).filter(|row| parts[*row] != part).collect();
        let shares = blend(&said.watts, task, &voters);
        for row in (0..parts.len()).filter(|row| parts[*row] == part) {
            let watts: f64 = shares.iter().map(|(kind, share)| share * said.watts[kind][row]).sum();
            judged[row] = (watts, error_size(said.spread[row], watts, task.floor));
        }
    }
    let shares = blend(&said.watts, task, &(0..parts.len()).collect::<Vec<_>>());
    let mut members = BTreeMap::new();
    for kind in KINDS {
        // The forest is always there: it says how large errors are.
        if kind == Kind::Forest || shares.get(&kind).is_some_and(|share| *share > 0.0) {
            members.insert(kind, fit(kind, task.x, task.y, task.floor, task.seed)?);
        }
    }
    Ok((Learned::Blend(Box::new(Blend { floor: task.floor, shares, members })), judged))
}

fn error_size(spread: f64, watts: f64, floor: f64) -> f64 {
    spread.max(LEAST_ERROR * watts.max(floor))
}

fn unseen(task: &Task<'_>, parts: &[usize]) -> Result<Said, Error> {
    let rows = task.y.len();
    let mut said =
        Said { watts: KINDS.iter().map(|kind| (*kind, vec![0.0; rows])).collect(), spread: vec![0.0; rows] };
    for part in 0..PARTS {
        let keep: Vec<usize> = (0..rows).filter(|row| parts[*row] != part).collect();
        let (x, y) = (task.x.select(&keep), keep.iter().map(|row| task.y[*row]).collect::<Vec<f64>>());
        for (kind, watts) in &mut said.watts {
            let member = fit(*kind, &x, &y, task.floor, task.seed)?;
            for row in (0..rows).filter(|row| parts[*row] == part) {
                let own = task.x.row(row);
                let rich = richer(own);
                watts[row] = member.watts(own, &rich, task.floor).max(0.0);
                if *kind == Kind::Forest {
                    said.spread[row] = member.spread(&rich);
                }
            }
        }
    }
    Ok(said)
}

/// Shares of the members, from what each said of these rows that it had not seen.
fn blend(said: &BTreeMap<Kind, Vec<f64>>, task: &Task<'_>, rows: &[usize]) -> BTreeMap<Kind, f64> {
    let mut votes: BTreeMap<Kind, f64> = KINDS.iter().map(|kind| (*kind, 0.0)).collect();
    if let Some(Learned::Blend(earlier)) = task.from {
        for (kind, share) in &earlier.shares {
            votes.insert(*kind, share * EARLIER_STEPS);
        }
    }
    let mut sums = vec![0.0; task.y.len()];
    for (kind, votes) in &votes {
        sums.iter_mut().zip(&said[kind]).for_each(|(sum, said)| *sum += votes * said);
    }
    for _ in 0..STEPS {
        let count: f64 = votes.values().sum::<f64>() + 1.0;
        let loss = |kind: &Kind| -> f64 {
            let own = &said[kind];
            let missed = |row: &usize| {
                ((sums[*row] + own[*row]) / count - task.y[*row]).abs() / task.y[*row].max(task.floor)
            };
            rows.iter().map(missed).sum()
        };
        let best = KINDS.iter().map(|kind| (loss(kind), *kind)).reduce(|a, b| if b.0 < a.0 { b } else { a });
        let Some((_, kind)) = best else { break };
        *votes.entry(kind).or_default() += 1.0;
        sums.iter_mut().zip(&said[&kind]).for_each(|(sum, said)| *sum += said);
    }
    let total: f64 = votes.values().sum();
    votes.into_iter().map(|(kind, votes)| (kind, votes / total)).collect()
}
