//! Linear models with non-negative coefficients, and ridge regression: small systems with a
//! deterministic solution.

#![allow(clippy::needless_range_loop, reason = "matrices are written by their indices")]

pub type WeightedRow<'a> = (&'a [f64], f64, f64);

/// Non-negative coefficients that minimise the *relative* error of `Σ coefficient · basis`: rows
/// are divided by their target, so a microsecond counts as much as a second. Coordinate descent;
/// every step lowers the sum of squares.
pub fn fit_proportional(rows: &[WeightedRow], width: usize) -> Vec<f64> {
    let mut gram = vec![vec![0.0; width]; width];
    let mut right = vec![0.0; width];
    for (basis, target, weight) in rows {
        for i in 0..width {
            let left = basis[i] / target * weight;
            right[i] += left;
            for j in 0..=i {
                gram[i][j] += left * basis[j] / target;
            }
        }
    }
    for i in 0..width {
        for j in 0..i {
            gram[j][i] = gram[i][j];
        }
    }
    // Scaled so that all columns have equal weight.
    let scale: Vec<f64> = (0..width).map(|i| gram[i][i].max(1e-300).sqrt()).collect();
    let mut solution = vec![0.0f64; width];
    for _ in 0..2000 {
        let mut moved = 0.0f64;
        for i in 0..width {
            if gram[i][i] <= 0.0 {
                continue;
            }
            let others: f64 = (0..width)
                .filter(|j| *j != i)
                .map(|j| gram[i][j] / (scale[i] * scale[j]) * solution[j])
                .sum();
            let next = (right[i] / scale[i] - others).max(0.0);
            moved = moved.max((next - solution[i]).abs());
            solution[i] = next;
        }
        if moved < 1e-12 {
            break;
        }
    }
    solution.iter().zip(&scale).map(|(value, scale)| value / scale).collect()
}

/// Ridge regression with a penalty for each coefficient.
pub fn ridge(rows: &[(Vec<f64>, f64, f64)], penalty: &[f64]) -> Vec<f64> {
    let width = penalty.len();
    let mut system = vec![vec![0.0; width + 1]; width];
    for (features, target, weight) in rows {
        for i in 0..width {
            for j in 0..width {
                system[i][j] += weight * features[i] * features[j];
            }
            system[i][width] += weight * features[i] * target;
        }
    }
    for (i, line) in system.iter_mut().enumerate() {
        line[i] += penalty[i].max(1e-12);
    }
    solve(system)
}

/// Gaussian elimination with partial pivoting.
fn solve(mut system: Vec<Vec<f64>>) -> Vec<f64> {
    let width = system.len();
    for column in 0..width {
        let pivot =
            (column..width).max_by(|a, b| system[*a][column].abs().total_cmp(&system[*b][column].abs()));
        let Some(pivot) = pivot.filter(|pivot| system[*pivot][column].abs() > 1e-300) else { continue };
        system.swap(column, pivot);
        for row in 0..width {
            if row == column {
                continue;
            }
            let factor = system[row][column] / system[column][column];
            if factor != 0.0 {
                for at in column..=width {
                    let value = system[column][at];
                    system[row][at] -= factor * value;
                }
            }
        }
    }
    (0..width)
        .map(|i| if system[i][i].abs() > 1e-300 { system[i][width] / system[i][i] } else { 0.0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_without_noise_is_found() {
        let truth = [2.0, 0.5, 0.0];
        let rows: Vec<(Vec<f64>, f64)> = (1..40)
            .map(|n| {
                let n = f64::from(n);
                let basis = vec![1.0, n * n, 100.0 / n];
                let target = truth.iter().zip(&basis).map(|(a, b)| a * b).sum();
                (basis, target)
            })
            .collect();
        let borrowed: Vec<(&[f64], f64, f64)> = rows.iter().map(|(b, t)| (b.as_slice(), *t, 1.0)).collect();
        let found = fit_proportional(&borrowed, 3);
        for (found, truth) in found.iter().zip(truth) {
            assert!((found - truth).abs() < 1e-4, "{found} {truth}");
        }
    }

    #[test]
    fn coefficients_are_never_negative() {
        let rows = [(vec![1.0, 1.0], 1.0), (vec![1.0, 2.0], 0.5), (vec![1.0, 3.0], 0.2)];
        let borrowed: Vec<(&[f64], f64, f64)> = rows.iter().map(|(b, t)| (b.as_slice(), *t, 1.0)).collect();
        assert!(fit_proportional(&borrowed, 2).iter().all(|value| *value >= 0.0));
    }

    #[test]
    fn a_ridge_draws_towards_nothing() {
        let rows: Vec<(Vec<f64>, f64, f64)> =
            (0..10).map(|n| (vec![1.0, f64::from(n)], 3.0 + 2.0 * f64::from(n), 1.0)).collect();
        let free = ridge(&rows, &[0.0, 0.0]);
        assert!((free[0] - 3.0).abs() < 1e-6 && (free[1] - 2.0).abs() < 1e-6, "{free:?}");
        let held = ridge(&rows, &[1e9, 1e9]);
        assert!(held.iter().all(|value| value.abs() < 1e-3), "{held:?}");
    }
}
