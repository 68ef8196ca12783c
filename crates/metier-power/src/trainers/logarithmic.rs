//! `a·ln(b·s + 1) + c` over the main feature, and the curve fit shared by all curves.

use metier_learn::regress::curve_fit::fit_curve;

use super::learned::CurveForm;
use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    curve(task, CurveForm::Logarithmic, |low, high, _| vec![high - low, 1.0, low])
}

/// Fits from the original's starting values, which depend on the smallest, largest and typical
/// watts. A component without power becomes a constant; the original fails there.
pub fn curve(
    task: &TrainerTask<'_>,
    form: CurveForm,
    start: impl Fn(f64, f64, f64) -> Vec<f64>,
) -> Result<LearnedFormula, Error> {
    let low = task.y.iter().copied().fold(f64::INFINITY, f64::min);
    let high = task.y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = task.y.iter().sum::<f64>() / task.y.len() as f64;
    let spread = (task.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / task.y.len() as f64).sqrt();
    let main = task.main;
    let flat = || match form {
        CurveForm::Logistic => vec![0.0, 0.5, 1.0, mean],
        _ => vec![0.0, 1.0, mean],
    };
    if high - low <= 1e-9 || spread <= 0.0 {
        return Ok(LearnedFormula::Curve { form, main, weights: flat() });
    }
    let s: Vec<f64> =
        (0..task.y.len()).map(|row| task.x.row(row).get(main).copied().unwrap_or(0.0)).collect();
    let (weights, _) = fit_curve(&s, task.y, &start(low, high, spread), |weights, s| form.at(weights, s))?;
    Ok(LearnedFormula::Curve { form, main, weights })
}
