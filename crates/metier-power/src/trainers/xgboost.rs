//! A hundred trees of depth six at rate 0.1, grown like XGBoost; continues from existing trees.

use metier_learn::regress::exact_boosting::{ExactBoostedTrees, Settings};

use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    let from = match task.from {
        Some(LearnedFormula::Trees(trees)) => Some(trees),
        _ => None,
    };
    Ok(LearnedFormula::Trees(ExactBoostedTrees::fit(task.x, task.y, Settings::XGBOOST, from)?))
}
