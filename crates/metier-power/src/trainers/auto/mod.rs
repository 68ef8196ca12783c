//! Ours: several kinds of predictor, each judged on rows that it has not seen, blended by what they are worth.
//!
//! [`rows`] makes what is learned from: beside the features their logarithms and ratios of two, and rows in which a load began or ended half-way. [`voices`] are the kinds: a forest
//! that tells the median, or the median of relative errors; boosted trees on logarithms and on watts; boosted trees that never fall when a feature rises; and some of the original's trainers.
//! [`choose`] judges them: watts and per cent count alike, each measured by the best of the original's trainers, so that neither the many rows of a few watts nor the few of many rule.
//! The forest's quantiles say how large an error is where.

mod choose;
mod rows;
mod voices;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::held_out::PARTS;
use super::{Judged, Learned, Task, xgboost};
use crate::Error;
use choose::{Heard, Shares, blend};
use rows::richer;
pub use voices::Kind;
use voices::{KINDS, Voices};

/// Fewest rows of a leaf: the forests that are tried. One of them is kept.
const LEAVES: [usize; 2] = [3, 6];
/// The least size of an error, as a share of the watts.
const LEAST_ERROR: f64 = 0.01;

/// Voices with what each counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blend {
    floor: f64,
    shares: BTreeMap<Kind, f64>,
    voices: Voices,
}

impl Blend {
    /// Watts, and the size of an error there.
    pub fn say(&self, row: &[f64]) -> (f64, f64) {
        let said = self.voices.say(row, &richer(row), |kind| self.share(kind) > 0.0);
        let total: f64 = said.watts.iter().map(|(kind, _)| self.share(*kind)).sum();
        let sum: f64 = said.watts.iter().map(|(kind, watts)| self.share(*kind) * watts).sum();
        let watts = if total > 0.0 { sum / total } else { 0.0 };
        (watts, error_size(said.spread, watts, self.floor))
    }

    fn share(&self, kind: Kind) -> f64 {
        self.shares.get(&kind).copied().unwrap_or(0.0)
    }

    /// What each kind of voice counts, adding up to 1.
    pub fn shares(&self) -> &BTreeMap<Kind, f64> {
        &self.shares
    }
}

fn error_size(spread: f64, watts: f64, floor: f64) -> f64 {
    spread.max(LEAST_ERROR * watts.max(floor))
}

/// What each voice said of rows that it had not seen, and the size of an error that its forest said.
struct Unseen {
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
    let (unseen, trees) = unseen(task, &parts)?;
    let mut others = vec![trees];
    let originals = unseen[0].watts.iter().filter(|(kind, _)| kind.is_original());
    others.extend(originals.map(|(_, watts)| watts.clone()));
    let earlier = match task.from {
        Some(Learned::Blend(earlier)) => Some(earlier.shares()),
        _ => None,
    };
    let chosen = |rows: &[usize]| -> (usize, Shares) {
        let tried = unseen.iter().map(|one| {
            let heard = Heard { voices: &one.watts, others: &others, y: task.y, floor: task.floor };
            blend(&heard, rows, earlier)
        });
        let best = tried.enumerate().reduce(|a, b| if b.1.loss < a.1.loss { b } else { a });
        best.unwrap_or_default()
    };
    // A row's own part has no vote on the blend that it is judged by.
    let mut judged = vec![(0.0, 1.0); task.y.len()];
    for part in 0..PARTS {
        let voters: Vec<usize> = (0..parts.len()).filter(|row| parts[*row] != part).collect();
        let (forest, shares) = chosen(&voters);
        let said = &unseen[forest];
        for row in (0..parts.len()).filter(|row| parts[*row] == part) {
            let watts: f64 = shares.of.iter().map(|(kind, share)| share * said.watts[kind][row]).sum();
            judged[row] = (watts, error_size(said.spread[row], watts, task.floor));
        }
    }
    let (forest, shares) = chosen(&(0..parts.len()).collect::<Vec<_>>());
    let is_wanted = |kind: Kind| shares.of.get(&kind).is_some_and(|share| *share > 0.0);
    let voices = Voices::fit(task, LEAVES[forest], is_wanted)?;
    Ok((Learned::Blend(Box::new(Blend { floor: task.floor, shares: shares.of, voices })), judged))
}

/// For each kind of forest what it and the others said, and what the original's XGBoost said, whose trees are too large a voice.
fn unseen(task: &Task<'_>, parts: &[usize]) -> Result<(Vec<Unseen>, Vec<f64>), Error> {
    let count = task.y.len();
    let empty = || Unseen {
        watts: KINDS.iter().map(|kind| (*kind, vec![0.0; count])).collect(),
        spread: vec![0.0; count],
    };
    let mut all: Vec<Unseen> = LEAVES.iter().map(|_| empty()).collect();
    let mut trees = vec![0.0; count];
    for part in 0..PARTS {
        let keep: Vec<usize> = (0..count).filter(|row| parts[*row] != part).collect();
        let (x, y) = (task.x.select(&keep), keep.iter().map(|row| task.y[*row]).collect::<Vec<f64>>());
        let own = Task { x: &x, y: &y, from: None, ..*task };
        let asked: Vec<usize> = (0..count).filter(|row| parts[*row] == part).collect();
        let xgboost = xgboost::learn(&own)?;
        asked.iter().for_each(|row| trees[*row] = xgboost.watts(task.x.row(*row)).max(0.0));
        for (forest, leaf_rows) in LEAVES.into_iter().enumerate() {
            // The others are the same beside each forest: they are learned once.
            let is_new = |kind: Kind| forest == 0 || kind.is_of_forest();
            let voices = Voices::fit(&own, leaf_rows, is_new)?;
            for row in &asked {
                let own = task.x.row(*row);
                let said = voices.say(own, &richer(own), is_new);
                for (kind, watts) in said.watts {
                    let same = if kind.is_of_forest() { forest..forest + 1 } else { 0..LEAVES.len() };
                    for one in &mut all[same] {
                        if let Some(of_kind) = one.watts.get_mut(&kind) {
                            of_kind[*row] = watts;
                        }
                    }
                }
                all[forest].spread[*row] = said.spread;
            }
        }
    }
    Ok((all, trees))
}
