//! ε-support vector regression with a Gaussian kernel, solved pairwise as in LIBSVM (Fan, Chen and
//! Lin 2005), to its tolerance.

use super::{check_row_count, check_training_rows};
use crate::Error;
use crate::linear_algebra::{DenseMatrix, dot_product};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Upper bound of a row's dual variables (C).
    pub cost: f64,
    /// Errors below this are ignored.
    pub epsilon: f64,
}

/// A sum of kernels over the support vectors.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SupportVectorRegression {
    vectors: DenseMatrix,
    weights: Vec<f64>,
    bias: f64,
    gamma: f64,
}

fn kernel(a: &[f64], b: &[f64], gamma: f64) -> f64 {
    (-gamma * a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()).exp()
}

/// One over the number of features times their joint variance: scikit-learn's "scale".
fn scale_gamma(x: &DenseMatrix) -> f64 {
    let count = (x.rows() * x.width()) as f64;
    let all = || (0..x.rows()).flat_map(|row| x.row(row).iter());
    let mean = all().sum::<f64>() / count;
    let variance = all().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    if variance > 0.0 { 1.0 / (x.width() as f64 * variance) } else { 1.0 }
}

impl SupportVectorRegression {
    pub fn fit(x: &DenseMatrix, y: &[f64], settings: Settings) -> Result<Self, Error> {
        check_training_rows(x, y, 2)?;
        check_row_count(y.len())?;
        if !(settings.cost > 0.0 && settings.epsilon >= 0.0) {
            let got = format!("{settings:?}");
            return Err(Error::Setting { field: "cost", got, want: "above 0, and epsilon not below 0" });
        }
        let gamma = scale_gamma(x);
        let (weights, bias) = SvrSolver::new(x, y, gamma, settings).solve();
        let keep: Vec<usize> = (0..y.len()).filter(|row| weights[*row] != 0.0).collect();
        Ok(Self {
            vectors: x.select_rows(&keep),
            weights: keep.iter().map(|row| weights[*row]).collect(),
            bias,
            gamma,
        })
    }

    /// Predicts the target of a row.
    pub fn predict(&self, row: &[f64]) -> f64 {
        // A file may have more weights than vectors.
        let count = self.weights.len().min(self.vectors.rows());
        let kernels: Vec<f64> = (0..count).map(|at| kernel(self.vectors.row(at), row, self.gamma)).collect();
        dot_product(&self.weights, &kernels) + self.bias
    }
}

/// State of the solver, with two dual variables per row.
struct SvrSolver {
    rows: usize,
    kernels: Vec<f32>,
    cost: f64,
    alpha: Vec<f64>,
    gradient: Vec<f64>,
}

const TOLERANCE: f64 = 1e-3;
const MIN_CURVATURE: f64 = 1e-12;

impl SvrSolver {
    fn new(x: &DenseMatrix, y: &[f64], gamma: f64, settings: Settings) -> Self {
        let rows = y.len();
        let mut kernels = vec![0f32; rows * rows];
        for a in 0..rows {
            for b in 0..=a {
                let value = kernel(x.row(a), x.row(b), gamma) as f32;
                kernels[a * rows + b] = value;
                kernels[b * rows + a] = value;
            }
        }
        let up = y.iter().map(|y| settings.epsilon - y);
        let down = y.iter().map(|y| settings.epsilon + y);
        Self {
            rows,
            kernels,
            cost: settings.cost,
            alpha: vec![0.0; 2 * rows],
            gradient: up.chain(down).collect(),
        }
    }

    fn sign(&self, at: usize) -> f64 {
        if at < self.rows { 1.0 } else { -1.0 }
    }

    fn kernel_row(&self, at: usize) -> &[f32] {
        let row = at % self.rows;
        &self.kernels[row * self.rows..(row + 1) * self.rows]
    }

    fn can_rise(&self, at: usize) -> bool {
        if at < self.rows { self.alpha[at] < self.cost } else { self.alpha[at] > 0.0 }
    }

    fn can_fall(&self, at: usize) -> bool {
        if at < self.rows { self.alpha[at] > 0.0 } else { self.alpha[at] < self.cost }
    }

    /// The pair with the largest gain; `None` at the optimum.
    fn select_pair(&self) -> Option<(usize, usize)> {
        let slope = |at: usize| -self.sign(at) * self.gradient[at];
        let mut first = None;
        let mut highest = f64::NEG_INFINITY;
        for at in 0..2 * self.rows {
            if self.can_rise(at) && slope(at) > highest {
                (highest, first) = (slope(at), Some(at));
            }
        }
        let first = first?;
        let kernels = self.kernel_row(first);
        let (mut second, mut lowest, mut best) = (None, f64::INFINITY, f64::INFINITY);
        for at in 0..2 * self.rows {
            if !self.can_fall(at) {
                continue;
            }
            let own = slope(at);
            lowest = lowest.min(own);
            let gap = highest - own;
            if gap > 0.0 {
                // Every row has distance 0 from itself, so its kernel is 1.
                let bend = (2.0 - 2.0 * f64::from(kernels[at % self.rows])).max(MIN_CURVATURE);
                let gain = -gap * gap / bend;
                if gain < best {
                    (best, second) = (gain, Some(at));
                }
            }
        }
        if highest - lowest < TOLERANCE { None } else { second.map(|second| (first, second)) }
    }

    fn solve(mut self) -> (Vec<f64>, f64) {
        let most = (100 * self.rows).max(10_000_000);
        for _ in 0..most {
            let Some((i, j)) = self.select_pair() else { break };
            self.update_pair(i, j);
        }
        let weights = (0..self.rows).map(|row| self.alpha[row] - self.alpha[row + self.rows]).collect();
        (weights, self.bias())
    }

    fn update_pair(&mut self, i: usize, j: usize) {
        let (sign_i, sign_j) = (self.sign(i), self.sign(j));
        let bend = (2.0 - 2.0 * f64::from(self.kernel_row(i)[j % self.rows])).max(MIN_CURVATURE);
        // Step along the line that keeps the constraint: i moves by sign_i · t, j by −sign_j · t.
        let mut t = (-sign_i * self.gradient[i] + sign_j * self.gradient[j]) / bend;
        let room = |alpha: f64, direction: f64| if direction > 0.0 { self.cost - alpha } else { alpha };
        t = t.min(room(self.alpha[i], sign_i)).min(room(self.alpha[j], -sign_j));
        let (change_i, change_j) = (sign_i * t, -sign_j * t);
        let snap = |value: f64| {
            if value < 1e-14 * self.cost {
                0.0
            } else if value > self.cost * (1.0 - 1e-14) {
                self.cost
            } else {
                value
            }
        };
        (self.alpha[i], self.alpha[j]) = (snap(self.alpha[i] + change_i), snap(self.alpha[j] + change_j));
        let rows = self.rows;
        let (row_i, row_j) = (i % rows, j % rows);
        for at in 0..rows {
            let of_i = f64::from(self.kernels[row_i * rows + at]) * sign_i * change_i;
            let of_j = f64::from(self.kernels[row_j * rows + at]) * sign_j * change_j;
            self.gradient[at] += of_i + of_j;
            self.gradient[at + rows] -= of_i + of_j;
        }
    }

    fn bias(&self) -> f64 {
        let (mut low, mut high, mut sum, mut free) = (f64::NEG_INFINITY, f64::INFINITY, 0.0, 0usize);
        for at in 0..2 * self.rows {
            let slope = self.sign(at) * self.gradient[at];
            match (self.can_rise(at), self.can_fall(at)) {
                (true, true) => {
                    sum += slope;
                    free += 1;
                }
                (true, false) => high = high.min(slope),
                (false, true) => low = low.max(slope),
                (false, false) => {}
            }
        }
        if free > 0 { -sum / free as f64 } else { -(low + high) / 2.0 }
    }
}
