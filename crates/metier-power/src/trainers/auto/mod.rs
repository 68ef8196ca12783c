//! metier's own trainer: an ensemble of several predictor kinds, blended by held-out error.
//!
//! [`mixed_rows`] builds the training rows: features, their logarithms and ratios of two, and
//! mixtures of idle and loaded rows. [`ensemble_members`] are the kinds: a forest that predicts the
//! median or minimises relative errors; boosted trees on logarithms and on watts; monotone boosted
//! trees; and some of the original's trainers. [`greedy_blend`] weights them: watts and relative
//! errors count alike, each relative to the best of the original's trainers. So neither the many
//! rows with few watts nor the few rows with many dominate. The forest's quantiles predict the
//! error size of each row.

mod ensemble_members;
mod greedy_blend;
mod mixed_rows;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::held_out::HOLD_OUT_PARTS;
use super::{JudgedFormula, LearnedFormula, TrainerTask, xgboost};
use crate::Error;
pub use ensemble_members::EnsembleMemberKind;
use ensemble_members::{EnsembleMembers, MEMBER_KINDS};
use greedy_blend::{BlendCandidates, MemberShares, blend};
use mixed_rows::derived_features;

/// Smallest leaf sizes of the forests that are compared; one forest is selected.
const LEAF_SIZES: [usize; 2] = [3, 6];
/// Lower bound of the error size, as a share of the watts.
const MIN_ERROR_SHARE: f64 = 0.01;

/// Ensemble members with their weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnsembleBlend {
    floor: f64,
    shares: BTreeMap<EnsembleMemberKind, f64>,
    voices: EnsembleMembers,
}

impl EnsembleBlend {
    /// Watts, and the predicted error size.
    pub fn predict_with_error(&self, row: &[f64]) -> (f64, f64) {
        let predictions =
            self.voices.predict_members(row, &derived_features(row), |kind| self.share(kind) > 0.0);
        let total: f64 = predictions.watts.iter().map(|(kind, _)| self.share(*kind)).sum();
        let sum: f64 = predictions.watts.iter().map(|(kind, watts)| self.share(*kind) * watts).sum();
        let watts = if total > 0.0 { sum / total } else { 0.0 };
        (watts, error_size(predictions.spread, watts, self.floor))
    }

    fn share(&self, kind: EnsembleMemberKind) -> f64 {
        self.shares.get(&kind).copied().unwrap_or(0.0)
    }

    /// Weight of each member kind; they add up to 1.
    pub fn shares(&self) -> &BTreeMap<EnsembleMemberKind, f64> {
        &self.shares
    }
}

fn error_size(spread: f64, watts: f64, floor: f64) -> f64 {
    spread.max(MIN_ERROR_SHARE * watts.max(floor))
}

/// Held-out predictions of each member, and the forest's error sizes.
struct MemberHeldOut {
    watts: BTreeMap<EnsembleMemberKind, Vec<f64>>,
    spread: Vec<f64>,
}

pub fn learn(task: &TrainerTask<'_>) -> Result<JudgedFormula, Error> {
    let low = task.y.iter().copied().fold(f64::INFINITY, f64::min);
    let high = task.y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if high - low <= 1e-9 * high.abs().max(1.0) {
        return Ok((LearnedFormula::constant(low, task.x.width()), vec![(low, 1.0); task.y.len()]));
    }
    let parts = task.validation.parts(task.y.len());
    let (unseen, trees) = predict_held_out(task, &parts)?;
    let mut others = vec![trees];
    let originals = unseen[0].watts.iter().filter(|(kind, _)| kind.is_original());
    others.extend(originals.map(|(_, watts)| watts.clone()));
    let earlier = match task.from {
        Some(LearnedFormula::Blend(earlier)) => Some(earlier.shares()),
        _ => None,
    };
    let chosen = |rows: &[usize]| -> (usize, MemberShares) {
        let tried = unseen.iter().map(|out| {
            let candidates =
                BlendCandidates { voices: &out.watts, others: &others, y: task.y, floor: task.floor };
            blend(&candidates, rows, earlier)
        });
        let best = tried.enumerate().reduce(|a, b| if b.1.loss < a.1.loss { b } else { a });
        best.unwrap_or_default()
    };
    // Cross-validation of the blend: a row's own fold has no influence on the blend that predicts
    // it.
    let mut judged = vec![(0.0, 1.0); task.y.len()];
    for part in 0..HOLD_OUT_PARTS {
        let voters: Vec<usize> = (0..parts.len()).filter(|row| parts[*row] != part).collect();
        let (forest, shares) = chosen(&voters);
        let out = &unseen[forest];
        for row in (0..parts.len()).filter(|row| parts[*row] == part) {
            let watts: f64 = shares.of.iter().map(|(kind, share)| share * out.watts[kind][row]).sum();
            judged[row] = (watts, error_size(out.spread[row], watts, task.floor));
        }
    }
    let (forest, shares) = chosen(&(0..parts.len()).collect::<Vec<_>>());
    let is_wanted = |kind: EnsembleMemberKind| shares.of.get(&kind).is_some_and(|share| *share > 0.0);
    let voices = EnsembleMembers::fit(task, LEAF_SIZES[forest], is_wanted)?;
    Ok((
        LearnedFormula::Blend(Box::new(EnsembleBlend { floor: task.floor, shares: shares.of, voices })),
        judged,
    ))
}

/// Held-out predictions of the members for each forest, and of the original's XGBoost, which serves
/// as a baseline only, since its trees are too large for a member.
fn predict_held_out(
    task: &TrainerTask<'_>,
    parts: &[usize],
) -> Result<(Vec<MemberHeldOut>, Vec<f64>), Error> {
    let count = task.y.len();
    let empty = || MemberHeldOut {
        watts: MEMBER_KINDS.iter().map(|kind| (*kind, vec![0.0; count])).collect(),
        spread: vec![0.0; count],
    };
    let mut all: Vec<MemberHeldOut> = LEAF_SIZES.iter().map(|_| empty()).collect();
    let mut trees = vec![0.0; count];
    for part in 0..HOLD_OUT_PARTS {
        let keep: Vec<usize> = (0..count).filter(|row| parts[*row] != part).collect();
        let (x, y) = (task.x.select_rows(&keep), keep.iter().map(|row| task.y[*row]).collect::<Vec<f64>>());
        let own = TrainerTask { x: &x, y: &y, from: None, ..*task };
        let asked: Vec<usize> = (0..count).filter(|row| parts[*row] == part).collect();
        let xgboost = xgboost::learn(&own)?;
        asked.iter().for_each(|row| trees[*row] = xgboost.watts(task.x.row(*row)).max(0.0));
        for (forest, leaf_rows) in LEAF_SIZES.into_iter().enumerate() {
            // The other members are equal for each forest, so they are trained once.
            let is_new = |kind: EnsembleMemberKind| forest == 0 || kind.is_of_forest();
            let voices = EnsembleMembers::fit(&own, leaf_rows, is_new)?;
            for row in &asked {
                let own = task.x.row(*row);
                let predictions = voices.predict_members(own, &derived_features(own), is_new);
                for (kind, watts) in predictions.watts {
                    let same = if kind.is_of_forest() { forest..forest + 1 } else { 0..LEAF_SIZES.len() };
                    for out in &mut all[same] {
                        if let Some(of_kind) = out.watts.get_mut(&kind) {
                            of_kind[*row] = watts;
                        }
                    }
                }
                all[forest].spread[*row] = predictions.spread;
            }
        }
    }
    Ok((all, trees))
}
