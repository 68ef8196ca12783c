//! Small dense linear algebra with plain loops, for a few hundred unknowns; bit-identical on every
//! machine.

use crate::Error;

/// A dense matrix in row-major order.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct DenseMatrix {
    width: usize,
    values: Vec<f64>,
}

impl DenseMatrix {
    /// An empty matrix with rows of this width.
    pub fn new(width: usize) -> Self {
        Self { width, values: Vec::new() }
    }

    pub fn zeros(rows: usize, width: usize) -> Self {
        Self { width, values: vec![0.0; rows * width] }
    }

    /// Creates a matrix from rows, which must all have the same width.
    pub fn from_rows(rows: &[Vec<f64>]) -> Result<Self, Error> {
        let mut out = Self::new(rows.first().map_or(0, Vec::len));
        rows.iter().try_for_each(|row| out.push_row(row))?;
        Ok(out)
    }

    pub fn push_row(&mut self, row: &[f64]) -> Result<(), Error> {
        if row.len() != self.width {
            let why = format!("a row of {} numbers; want {}", row.len(), self.width);
            return Err(Error::Table { why });
        }
        if let Some(at) = row.iter().position(|value| !value.is_finite()) {
            let why = format!("number {at} of row {} is {}; want a finite one", self.rows(), row[at]);
            return Err(Error::Table { why });
        }
        self.values.extend_from_slice(row);
        Ok(())
    }

    /// Length of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.width + column]
    }

    pub(crate) fn at_mut(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.values[row * self.width + column]
    }

    /// Selects these rows, in this order.
    pub fn select_rows(&self, rows: &[usize]) -> Self {
        let values = rows.iter().flat_map(|row| self.row(*row)).copied().collect();
        Self { width: self.width, values }
    }

    /// Adds `weight · row · rowᵀ` to the lower half of a square matrix.
    pub(crate) fn add_outer_product(&mut self, row: &[f64], weight: f64) {
        for (i, a) in row.iter().enumerate() {
            let line = &mut self.values[i * self.width..i * self.width + i + 1];
            for (value, b) in line.iter_mut().zip(row) {
                *value += weight * a * b;
            }
        }
    }
}

/// Dot product, summed in order.
pub(crate) fn dot_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Cholesky factor `L` of a symmetric positive definite matrix `L · Lᵀ`.
#[derive(Debug, Clone)]
pub(crate) struct CholeskyFactor(DenseMatrix);

impl CholeskyFactor {
    /// Factorises a matrix from its lower half; `None` if it is not positive definite.
    pub fn new(matrix: &DenseMatrix) -> Option<Self> {
        let size = matrix.width;
        let mut lower = DenseMatrix::zeros(size, size);
        for row in 0..size {
            for column in 0..=row {
                let known = dot_product(&lower.row(row)[..column], &lower.row(column)[..column]);
                let left = matrix.at(row, column) - known;
                if row == column {
                    if left.is_nan() || left <= 1e-14 * matrix.at(row, row).abs().max(1e-300) {
                        return None;
                    }
                    *lower.at_mut(row, row) = left.sqrt();
                } else {
                    *lower.at_mut(row, column) = left / lower.at(column, column);
                }
            }
        }
        Some(Self(lower))
    }

    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut out = self.forward_substitute(right);
        let size = out.len();
        for row in (0..size).rev() {
            let later: f64 = (row + 1..size).map(|below| self.0.at(below, row) * out[below]).sum();
            out[row] = (out[row] - later) / self.0.at(row, row);
        }
        out
    }

    /// Computes `L⁻¹ · right`.
    fn forward_substitute(&self, right: &[f64]) -> Vec<f64> {
        let mut out = Vec::with_capacity(right.len());
        for (row, value) in right.iter().enumerate() {
            let known = dot_product(&self.0.row(row)[..row], &out);
            out.push((value - known) / self.0.at(row, row));
        }
        out
    }

    pub fn inverse(&self) -> DenseMatrix {
        let size = self.0.width;
        let mut out = DenseMatrix::zeros(size, size);
        let mut unit = vec![0.0; size];
        for column in 0..size {
            unit[column] = 1.0;
            for (row, value) in self.solve(&unit).into_iter().enumerate() {
                *out.at_mut(row, column) = value;
            }
            unit[column] = 0.0;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn solutions_solve_and_inverses_invert(rows in prop::collection::vec(prop::collection::vec(-3.0..3.0f64, 4), 4..12), right in prop::collection::vec(-5.0..5.0f64, 4)) {
            let mut matrix = DenseMatrix::zeros(4, 4);
            (0..4).for_each(|at| *matrix.at_mut(at, at) = 0.5);
            rows.iter().for_each(|row| matrix.add_outer_product(row, 1.0));
            let cholesky = CholeskyFactor::new(&matrix).unwrap();
            let x = cholesky.solve(&right);
            let inverse = cholesky.inverse();
            for (row, want) in right.iter().enumerate() {
                let back: f64 = (0..4).map(|column| matrix.at(row.max(column), row.min(column)) * x[column]).sum();
                prop_assert!((back - want).abs() < 1e-8);
                prop_assert!((dot_product(inverse.row(row), &right) - x[row]).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_has_no_root() {
        let matrix = DenseMatrix::from_rows(&[vec![1.0, 2.0], vec![2.0, 1.0]]).unwrap();
        assert!(CholeskyFactor::new(&matrix).is_none());
        assert!(DenseMatrix::from_rows(&[vec![1.0], vec![f64::NAN]]).is_err());
        assert!(DenseMatrix::from_rows(&[vec![1.0], vec![1.0, 2.0]]).is_err());
    }
}
