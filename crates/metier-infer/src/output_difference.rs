//! Comparison of the outputs of two engines.
//!
//! Engines add in different orders, so outputs are rarely bit-identical. Two outputs agree if their
//! largest difference is at most [`ABSOLUTE_TOLERANCE`], or at most [`RELATIVE_TOLERANCE`] of the
//! output's largest value. The relative difference uses that value because elements near 0 carry
//! the rounding noise of the large ones.

use schemars::JsonSchema;
use serde::Serialize;

use crate::NamedTensor;

/// Absolute tolerance.
pub const ABSOLUTE_TOLERANCE: f64 = 1e-5;
/// Tolerance relative to the output's largest value.
pub const RELATIVE_TOLERANCE: f64 = 1e-3;

/// Difference of one output between two engines.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OutputDifference {
    /// Name of the output.
    pub name: String,
    /// Its shape in the first engine.
    pub shape: Vec<usize>,
    /// The largest difference; `None` if the shapes or the non-finite elements differ.
    pub max_absolute: Option<f64>,
    /// The largest difference relative to the output's largest value.
    pub max_relative: Option<f64>,
    /// Whether the difference is within tolerance.
    pub agrees: bool,
}

/// Compares outputs by name; an output that the second engine lacks does not agree.
pub fn compare_outputs(first: &[NamedTensor], second: &[NamedTensor]) -> Vec<OutputDifference> {
    first
        .iter()
        .map(|tensor| compare_output(tensor, second.iter().find(|other| other.name == tensor.name)))
        .collect()
}

fn compare_output(tensor: &NamedTensor, other: Option<&NamedTensor>) -> OutputDifference {
    let apart = other.filter(|other| other.shape == tensor.shape).and_then(|other| {
        let (a, b) = (tensor.values.to_numbers(), other.values.to_numbers());
        let largest =
            b.iter().filter(|value| value.is_finite()).fold(0.0, |most: f64, value| most.max(value.abs()));
        let mut most: f64 = 0.0;
        for (a, b) in a.iter().zip(&b) {
            // The same infinity, or both NaN.
            if a == b || (a.is_nan() && b.is_nan()) {
                continue;
            }
            let apart = (a - b).abs();
            if !apart.is_finite() {
                return None;
            }
            most = most.max(apart);
        }
        Some((most, if largest > 0.0 { most / largest } else { most }))
    });
    OutputDifference {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        max_absolute: apart.map(|(absolute, _)| absolute),
        max_relative: apart.map(|(_, relative)| relative),
        agrees: apart.is_some_and(|(absolute, relative)| {
            absolute <= ABSOLUTE_TOLERANCE || relative <= RELATIVE_TOLERANCE
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorValues;

    fn tensor(shape: Vec<usize>, values: &[f32]) -> NamedTensor {
        NamedTensor { name: "y".into(), shape, values: TensorValues::Float(values.to_vec()) }
    }

    #[test]
    fn noise_agrees_and_anything_else_does_not() {
        let whole = tensor(vec![3], &[1.0, 100.0, f32::INFINITY]);
        let verdict = |other: &NamedTensor| {
            compare_outputs(std::slice::from_ref(&whole), std::slice::from_ref(other))[0].agrees
        };
        assert!(verdict(&whole));
        assert!(verdict(&tensor(vec![3], &[1.05, 100.0, f32::INFINITY])), "small beside the largest");
        assert!(!verdict(&tensor(vec![3], &[1.0, 101.0, f32::INFINITY])));
        assert!(!verdict(&tensor(vec![3], &[1.0, 100.0, 5.0])), "infinite in one only");
        assert!(!verdict(&tensor(vec![3], &[f32::NAN, 100.0, f32::INFINITY])));
        assert!(!verdict(&tensor(vec![1, 3], &[1.0, 100.0, f32::INFINITY])), "another shape");
        assert!(!compare_outputs(&[whole], &[])[0].agrees);
    }
}
