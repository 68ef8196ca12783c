//! Features discretised into bins between quantiles of their distinct values.
//!
//! Bin 0 holds unknown values. A value belongs to the first bin whose upper edge it does not
//! exceed. Edges lie half-way between neighbouring values, so that a predictor does not depend on
//! which of them it was trained on.

use crate::TrainingTable;

#[derive(Debug)]
pub struct FeatureBins {
    /// Upper edges of the bins 1, 2, … of each feature; the last bin has none.
    edges: Vec<Vec<f64>>,
    /// Bin of each row, column by column.
    codes: Vec<u8>,
    rows: usize,
}

impl FeatureBins {
    pub fn new(table: &TrainingTable, most: usize) -> Self {
        let rows = table.len();
        let mut edges = Vec::with_capacity(table.width());
        let mut codes = vec![0u8; rows * table.width()];
        for feature in 0..table.width() {
            let mut values: Vec<f64> =
                (0..rows).map(|row| table.row(row)[feature]).filter(|value| !value.is_nan()).collect();
            values.sort_by(f64::total_cmp);
            let own = quantile_edges(&values, most.saturating_sub(1).max(1));
            for row in 0..rows {
                codes[feature * rows + row] = bin_code(&own, table.row(row)[feature]);
            }
            edges.push(own);
        }
        Self { edges, codes, rows }
    }

    pub fn bin_column(&self, feature: usize) -> &[u8] {
        &self.codes[feature * self.rows..(feature + 1) * self.rows]
    }

    pub fn width(&self) -> usize {
        self.edges.len()
    }

    /// Number of bins of a feature, including the bin of unknown values.
    pub fn bin_count(&self, feature: usize) -> usize {
        self.edges[feature].len() + 2
    }

    /// The value between a bin and the next; the largest number for the last bin.
    pub fn upper_edge(&self, feature: usize, bin: usize) -> f64 {
        self.edges[feature].get(bin - 1).copied().unwrap_or(f64::MAX)
    }
}

fn bin_code(edges: &[f64], value: f64) -> u8 {
    if value.is_nan() { 0 } else { edges.partition_point(|edge| *edge < value) as u8 + 1 }
}

/// At most `most - 1` edges between distinct values, so that bins hold about equally many rows.
fn quantile_edges(sorted: &[f64], most: usize) -> Vec<f64> {
    let mut distinct: Vec<(f64, usize)> = Vec::new();
    for value in sorted {
        match distinct.last_mut() {
            Some((last, count)) if *last == *value => *count += 1,
            _ => distinct.push((*value, 1)),
        }
    }
    let middle = |at: usize| {
        let (low, high) = (distinct[at].0, distinct[at + 1].0);
        let middle = low + (high - low) / 2.0;
        if middle < high { middle } else { low }
    };
    if distinct.len() <= most {
        return (0..distinct.len().saturating_sub(1)).map(middle).collect();
    }
    let mut edges = Vec::with_capacity(most - 1);
    let (mut seen, mut left) = (0usize, sorted.len());
    for (at, (_, count)) in distinct.iter().enumerate().take(distinct.len() - 1) {
        seen += count;
        let bins_left = most - edges.len();
        // Recompute the share of each bin: a value with many rows must not starve the others.
        if bins_left > 1 && seen >= left.div_ceil(bins_left) {
            edges.push(middle(at));
            left -= seen;
            seen = 0;
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_keep_the_order_of_values(mut values in prop::collection::vec(-1e6..1e6f64, 2..400), most in 2usize..20) {
            values.sort_by(f64::total_cmp);
            let edges = quantile_edges(&values, most);
            prop_assert!(edges.len() < most);
            prop_assert!(edges.windows(2).all(|pair| pair[0] < pair[1]));
            let codes: Vec<u8> = values.iter().map(|value| bin_code(&edges, *value)).collect();
            prop_assert!(codes.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }

    #[test]
    fn few_distinct_values_have_a_bin_each() {
        let edges = quantile_edges(&[1.0, 1.0, 2.0, 5.0], 10);
        assert_eq!(edges, [1.5, 3.5]);
        assert_eq!([0.0, 1.0, 1.5, 1.6, 9.0].map(|value| bin_code(&edges, value)), [1, 1, 1, 2, 3]);
        assert_eq!(bin_code(&edges, f64::NAN), 0);
    }
}
