//! k-nearest-neighbours regression: the mean target of the nearest rows.

use super::{check_row_count, check_training_rows};
use crate::Error;
use crate::linear_algebra::DenseMatrix;

/// The stored training rows.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NearestNeighbours {
    rows: DenseMatrix,
    targets: Vec<f64>,
    count: usize,
}

impl NearestNeighbours {
    /// Stores all rows; predictions use the `count` nearest.
    pub fn fit(x: &DenseMatrix, y: &[f64], count: usize) -> Result<Self, Error> {
        check_training_rows(x, y, count.max(1))?;
        check_row_count(y.len())?;
        Ok(Self { rows: x.clone(), targets: y.to_vec(), count: count.max(1) })
    }

    /// Mean target of the nearest rows by Euclidean distance; ties go to the first.
    pub fn predict(&self, row: &[f64]) -> f64 {
        // A count from a file may be arbitrarily large.
        let mut near: Vec<(f64, f64)> = Vec::with_capacity(self.count.min(self.targets.len()) + 1);
        for (at, target) in self.targets.iter().enumerate().take(self.rows.rows()) {
            let distance: f64 = self.rows.row(at).iter().zip(row).map(|(a, b)| (a - b) * (a - b)).sum();
            if near.len() == self.count && near.last().is_some_and(|last| distance >= last.0) {
                continue;
            }
            let place = near.partition_point(|other| other.0 <= distance);
            near.insert(place, (distance, *target));
            near.truncate(self.count);
        }
        near.iter().map(|(_, target)| target).sum::<f64>() / near.len().max(1) as f64
    }
}
