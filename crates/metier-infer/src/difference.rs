//! How far the outputs of two engines are apart.
//!
//! Engines add in other orders, so that no output is equal to the last bit. Two outputs agree where each pair of elements is within
//! [`ABSOLUTE`] or [`RELATIVE`] of the larger one; the relative difference is taken against the output's largest value, since what is near 0 beside
//! it is noise of the large ones.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Tensor;

/// What is small enough by itself.
pub const ABSOLUTE: f64 = 1e-5;
/// What is small enough beside the output's largest value.
pub const RELATIVE: f64 = 1e-3;

/// How far one output is apart.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// The output.
    pub name: String,
    /// Its shape in the first.
    pub shape: Vec<usize>,
    /// The largest difference; `None` where the shapes differ or one has an element that is no number and the other has one.
    pub max_absolute: Option<f64>,
    /// The same, against the output's largest value.
    pub max_relative: Option<f64>,
    /// Whether they agree.
    pub agrees: bool,
}

/// Compares outputs by name; one that the second does not have does not agree.
pub fn differences(first: &[Tensor], second: &[Tensor]) -> Vec<Difference> {
    first.iter().map(|one| of(one, second.iter().find(|other| other.name == one.name))).collect()
}

fn of(one: &Tensor, other: Option<&Tensor>) -> Difference {
    let apart = other.filter(|other| other.shape == one.shape).and_then(|other| {
        let (a, b) = (one.values.numbers(), other.values.numbers());
        let largest =
            b.iter().filter(|value| value.is_finite()).fold(0.0, |most: f64, value| most.max(value.abs()));
        let mut most: f64 = 0.0;
        for (a, b) in a.iter().zip(&b) {
            // The same infinity, or neither a number.
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
    Difference {
        name: one.name.clone(),
        shape: one.shape.clone(),
        max_absolute: apart.map(|(absolute, _)| absolute),
        max_relative: apart.map(|(_, relative)| relative),
        agrees: apart.is_some_and(|(absolute, relative)| absolute <= ABSOLUTE || relative <= RELATIVE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Values;

    fn tensor(shape: Vec<usize>, values: &[f32]) -> Tensor {
        Tensor { name: "y".into(), shape, values: Values::Float(values.to_vec()) }
    }

    #[test]
    fn noise_agrees_and_anything_else_does_not() {
        let whole = tensor(vec![3], &[1.0, 100.0, f32::INFINITY]);
        let verdict =
            |other: &Tensor| differences(std::slice::from_ref(&whole), std::slice::from_ref(other))[0].agrees;
        assert!(verdict(&whole));
        assert!(verdict(&tensor(vec![3], &[1.05, 100.0, f32::INFINITY])), "small beside the largest");
        assert!(!verdict(&tensor(vec![3], &[1.0, 101.0, f32::INFINITY])));
        assert!(!verdict(&tensor(vec![3], &[1.0, 100.0, 5.0])), "infinite in one only");
        assert!(!verdict(&tensor(vec![3], &[f32::NAN, 100.0, f32::INFINITY])));
        assert!(!verdict(&tensor(vec![1, 3], &[1.0, 100.0, f32::INFINITY])), "another shape");
        assert!(!differences(&[whole], &[])[0].agrees);
    }
}
