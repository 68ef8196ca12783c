//! Whether a straight line fits a history better than steps.
//!
//! Tested only after steps were found, so that it adds no false alarm. The line is the Theil–Sen
//! estimate (the median of all slopes), on the logarithm if all values are positive. Both fits are
//! judged by their mean distance from the values; the line has fewer parameters.

use metier_types::{ExtraFields, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ChangeOptions, ChangePoint};
use crate::median::median;

/// A steady drift.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinearDrift {
    /// Change from the first to the last value of the line, relative to the first.
    pub change_ratio: Ratio,
    /// Change from one run to the next, relative to the value.
    pub per_run_ratio: Ratio,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The drift that explains the steps better; `None` if the steps fit better.
pub fn fit_drift(values: &[f64], steps: &[ChangePoint], options: &ChangeOptions) -> Option<LinearDrift> {
    if steps.is_empty() || values.iter().any(|x| *x <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|x| x.ln()).collect();
    let (slope, start) = theil_sen_line(&logs)?;
    let of_line: f64 = logs.iter().enumerate().map(|(at, y)| (y - start - slope * at as f64).abs()).sum();
    let edges: Vec<usize> =
        std::iter::once(0).chain(steps.iter().map(|step| step.at)).chain([values.len()]).collect();
    let of_steps: f64 = edges
        .windows(2)
        .map(|part| {
            let stretch = &logs[part[0]..part[1]];
            let middle = unsorted_median(stretch);
            stretch.iter().map(|y| (y - middle).abs()).sum::<f64>()
        })
        .sum();
    let whole = (slope * (values.len() - 1) as f64).exp() - 1.0;
    let is_drift = of_line < of_steps && whole.abs() >= options.at_least.get();
    is_drift.then(|| LinearDrift {
        change_ratio: Ratio(whole),
        per_run_ratio: Ratio(slope.exp() - 1.0),
        extra: ExtraFields::new(),
    })
}

fn unsorted_median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median(&sorted).unwrap_or_default()
}

/// Slope and intercept of the line through the medians.
fn theil_sen_line(values: &[f64]) -> Option<(f64, f64)> {
    let mut slopes: Vec<f64> = (0..values.len())
        .flat_map(|i| (i + 1..values.len()).map(move |j| (i, j)))
        .map(|(i, j)| (values[j] - values[i]) / (j - i) as f64)
        .collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let slope = median(&slopes)?;
    let rest: Vec<f64> = values.iter().enumerate().map(|(at, y)| y - slope * at as f64).collect();
    Some((slope, unsorted_median(&rest)))
}
