//! A linear model by stochastic gradient descent.

use metier_learn::regress::sgd;

use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    Ok(LearnedFormula::Linear(sgd::fit_sgd(task.x, task.y, task.seed)?))
}
