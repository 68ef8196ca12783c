//! Support vector regression with a Gaussian kernel: cost 1, errors below 0.2 W are ignored.

use metier_learn::regress::svr::{Settings, SupportVectorRegression};

use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    Ok(LearnedFormula::Svr(SupportVectorRegression::fit(
        task.x,
        task.y,
        Settings { cost: 1.0, epsilon: 0.2 },
    )?))
}
