//! Training data: rows of named features, a target, and the group of each row.

use crate::Error;

/// Rows of features with a target. An unknown feature is NaN; a target is always a finite number.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingTable {
    names: Vec<String>,
    features: Vec<f64>,
    target: Vec<f64>,
    /// Rows of one group (a workload, a device) stay on one side of every split.
    groups: Vec<u64>,
    /// Weight of each row; empty if all are equal.
    weights: Vec<f64>,
}

impl TrainingTable {
    /// An empty table with these features.
    pub fn new(names: Vec<String>) -> Self {
        Self { names, features: Vec::new(), target: Vec::new(), groups: Vec::new(), weights: Vec::new() }
    }

    pub fn push_row(&mut self, features: &[f64], target: f64, group: u64) -> Result<(), Error> {
        if features.len() != self.names.len() {
            let why = format!("a row of {} features; want {}", features.len(), self.names.len());
            return Err(Error::Table { why });
        }
        if !target.is_finite() || features.iter().any(|value| value.is_infinite()) {
            let why =
                format!("row {} holds an infinite feature, or its target is not finite", self.target.len());
            return Err(Error::Table { why });
        }
        self.features.extend_from_slice(features);
        self.target.push(target);
        self.groups.push(group);
        Ok(())
    }

    /// Sets row weights above 0, which boosted trees use.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<TrainingTable, Error> {
        if weights.len() != self.len() || weights.iter().any(|weight| !(weight.is_finite() && *weight > 0.0))
        {
            let why =
                format!("{} weights for {} rows; want a number above 0 for each", weights.len(), self.len());
            return Err(Error::Table { why });
        }
        self.weights = weights;
        Ok(self)
    }

    /// Weight of each row; empty if all are equal.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Names of the features.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of features.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.target.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.target.is_empty()
    }

    /// The features of a row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.features[row * self.names.len()..(row + 1) * self.names.len()]
    }

    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// The group of each row.
    pub fn groups(&self) -> &[u64] {
        &self.groups
    }

    /// Selects these rows, in this order.
    pub fn select_rows(&self, rows: &[usize]) -> TrainingTable {
        let mut out = TrainingTable::new(self.names.clone());
        for row in rows {
            out.features.extend_from_slice(self.row(*row));
            out.target.push(self.target[*row]);
            out.groups.push(self.groups[*row]);
            out.weights.extend(self.weights.get(*row));
        }
        out
    }

    /// The same rows with transformed targets, for example their logarithms.
    pub fn map_target(&self, of: impl Fn(f64) -> f64) -> Result<TrainingTable, Error> {
        let target: Vec<f64> = self.target.iter().map(|value| of(*value)).collect();
        if let Some(row) = target.iter().position(|value| !value.is_finite()) {
            return Err(Error::Table {
                why: format!("the target of row {row} ({}) has no such value", self.target[row]),
            });
        }
        Ok(TrainingTable { target, ..self.clone() })
    }
}
