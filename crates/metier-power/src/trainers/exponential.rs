//! `a·exp(b·s) + c` over the main feature.

use super::learned::CurveForm;
use super::logarithmic::curve;
use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    curve(task, CurveForm::Exponential, |low, high, _| {
        let a = ((high - low) / std::f64::consts::E).floor();
        vec![a, 1.0, low - a]
    })
}
