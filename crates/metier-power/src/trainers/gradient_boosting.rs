//! A hundred trees of depth three at rate 0.1, the defaults of scikit-learn's gradient boosting.

use metier_learn::regress::exact_boosting::{ExactBoostedTrees, Settings};

use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    Ok(LearnedFormula::Trees(ExactBoostedTrees::fit(task.x, task.y, Settings::SCIKIT, None)?))
}
