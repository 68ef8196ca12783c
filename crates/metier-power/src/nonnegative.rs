//! Least squares with non-negative weights: more work never uses less power.
//!
//! Solved by coordinate descent on the normal equations of scaled columns. It stops at a relative
//! change below 1e-10, which is enough for labels, and always terminates.

/// A constant and non-negative weights.
#[derive(Debug, Clone, PartialEq)]
pub struct NonnegativeFit {
    /// The constant.
    pub bias: f64,
    pub weights: Vec<f64>,
}

const MAX_DESCENT_ROUNDS: usize = 20_000;

/// Fits `target ≈ bias + Σ weight·column`; the columns are as long as the target. Without
/// `with_bias` the bias is 0.
pub fn fit(columns: &[&[f64]], target: &[f64], with_bias: bool) -> NonnegativeFit {
    let scale: Vec<f64> = columns
        .iter()
        .map(|column| column.iter().fold(0.0, |most: f64, value| most.max(value.abs())))
        .map(|most| if most > 0.0 { most } else { 1.0 })
        .collect();
    let count = columns.len() + usize::from(with_bias);
    let at = |column: usize, row: usize| match columns.get(column) {
        Some(values) => values[row] / scale[column],
        None => 1.0,
    };
    let mut normal = vec![vec![0.0; count]; count];
    let mut right = vec![0.0; count];
    for (row, want) in target.iter().enumerate() {
        for (number, (line, right)) in normal.iter_mut().zip(&mut right).enumerate() {
            *right += at(number, row) * want;
            for (two, sum) in line.iter_mut().enumerate() {
                *sum += at(number, row) * at(two, row);
            }
        }
    }
    let mut weights = vec![0.0f64; count];
    for _ in 0..MAX_DESCENT_ROUNDS {
        let (mut change, mut size) = (0.0f64, 0.0f64);
        for number in 0..count {
            if normal[number][number] <= 0.0 {
                continue;
            }
            let rest: f64 = (0..count).map(|two| normal[number][two] * weights[two]).sum();
            let next = (weights[number] + (right[number] - rest) / normal[number][number]).max(0.0);
            change = change.max((next - weights[number]).abs());
            size = size.max(next.abs());
            weights[number] = next;
        }
        if change <= 1e-10 * size {
            break;
        }
    }
    let bias = if with_bias { weights.pop().unwrap_or(0.0) } else { 0.0 };
    let weights = weights.iter().zip(&scale).map(|(weight, scale)| weight / scale).collect();
    NonnegativeFit { bias, weights }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let values: Vec<f64> = (0..50).map(|row| f64::from(row % 7) * 1e6).collect();
        let two: Vec<f64> = (0..50).map(|row| f64::from(row % 5)).collect();
        let target: Vec<f64> =
            values.iter().zip(&two).map(|(value, two)| 40.0 + 3e-6 * value + 2.0 * two).collect();
        let fit = fit(&[&values, &two], &target, true);
        assert!((fit.bias - 40.0).abs() < 1e-4, "{fit:?}");
        assert!((fit.weights[0] - 3e-6).abs() < 1e-11 && (fit.weights[1] - 2.0).abs() < 1e-4, "{fit:?}");
    }

    #[test]
    fn nothing_is_negative_and_nothing_is_fine() {
        let falling: Vec<f64> = (0..20).map(f64::from).collect();
        let target: Vec<f64> = falling.iter().map(|value| 30.0 - value).collect();
        let fitted = fit(&[&falling], &target, true);
        assert!(fitted.weights[0] == 0.0 && fitted.bias > 0.0);
        assert_eq!(fit(&[&[0.0, 0.0]], &[0.0, 0.0], true), NonnegativeFit { bias: 0.0, weights: vec![0.0] });
        assert_eq!(fit(&[], &[], false), NonnegativeFit { bias: 0.0, weights: vec![] });
    }
}
