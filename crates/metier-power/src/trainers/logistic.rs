//! `A/(1 + exp(-k·(s - s0))) + c` over the main feature.

use super::learned::CurveForm;
use super::logarithmic::curve;
use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    curve(task, CurveForm::Logistic, |low, high, spread| {
        vec![high - low, 0.5, ((high - low) / spread).floor(), low]
    })
}
