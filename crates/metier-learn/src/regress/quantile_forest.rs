//! Extremely randomised trees (Geurts, Ernst and Wehenkel 2006) that store the rows of each leaf.
//! Any quantile of the target can thus be predicted (Meinshausen 2006), not only its mean.
//!
//! Every tree uses all rows and draws one random threshold per feature; the best of these splits
//! the rows. The prediction for a row is a weighted quantile over the training rows that share its
//! leaves.

use serde::{Deserialize, Serialize};

use super::{check_row_count, check_training_rows};
use crate::Error;
use crate::linear_algebra::DenseMatrix;
use crate::packed_numbers::{PackedReader, PackedWriter};
use crate::random::SplitMix64;
use crate::tree_walk::{LEAF_FEATURE, SplitRule, TreeNode, find_leaf};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub trees: usize,
    /// Smallest number of rows of a leaf.
    pub leaf_rows: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A tree whose leaves hold rows: `left..right` of a leaf is its range in `rows`.
#[derive(Debug, Clone, PartialEq)]
struct RowTree {
    nodes: Vec<TreeNode>,
    /// Rows of all leaves.
    rows: Vec<u32>,
}

/// A forest and the targets of its training rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PackedForest", into = "PackedForest")]
pub struct QuantileForest {
    trees: Vec<RowTree>,
    /// Targets in ascending order; leaves store indices into this list.
    targets: Vec<f64>,
    /// Weight of each row.
    weights: Vec<f64>,
}

/// Targets of the similar training rows in ascending order, with weights.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarRows(Vec<(f64, f64)>);

impl SimilarRows {
    /// Weighted quantile of the targets; each weight is first multiplied by `of` its target.
    pub fn quantile(&self, share: f64, of: impl Fn(f64) -> f64) -> f64 {
        let total: f64 = self.0.iter().map(|(target, weight)| weight * of(*target)).sum();
        let value = total * share;
        let mut sum = 0.0;
        for (target, weight) in &self.0 {
            sum += weight * of(*target);
            if sum >= value {
                return *target;
            }
        }
        self.0.last().map_or(0.0, |(target, _)| *target)
    }

    /// Sum of all weights: 1 except for rounding.
    pub fn total(&self) -> f64 {
        self.0.iter().map(|(_, weight)| weight).sum()
    }
}

impl QuantileForest {
    /// Grows trees whose splits reduce the variance of `split`; predictions are of `y`. `weights`
    /// are row weights.
    pub fn fit(
        x: &DenseMatrix,
        y: &[f64],
        split: &[f64],
        weights: &[f64],
        settings: Settings,
    ) -> Result<Self, Error> {
        check_training_rows(x, y, 2)?;
        check_training_rows(x, split, 2)?;
        check_training_rows(x, weights, 2)?;
        check_row_count(y.len())?;
        if let Some(weight) = weights.iter().find(|weight| **weight <= 0.0) {
            return Err(Error::Table { why: format!("a row that counts {weight}; want above 0") });
        }
        let mut order: Vec<usize> = (0..y.len()).collect();
        order.sort_by(|a, b| y[*a].total_cmp(&y[*b]).then(a.cmp(b)));
        let sorted = |of: &[f64]| -> Vec<f64> { order.iter().map(|row| of[*row]).collect() };
        let x = x.select_rows(&order);
        let (split, weights) = (sorted(split), sorted(weights));
        let mut random = SplitMix64::new(settings.seed);
        let leaf_rows = settings.leaf_rows.max(1);
        let trees =
            (0..settings.trees).map(|_| grow_tree(&x, &split, &weights, leaf_rows, &mut random)).collect();
        Ok(Self { trees, targets: sorted(y), weights })
    }

    /// The training rows that share leaves with this row.
    pub fn find_similar_rows(&self, row: &[f64]) -> SimilarRows {
        let share = 1.0 / self.trees.len().max(1) as f64;
        let weight_of = |number: u32| self.weights.get(number as usize).copied().unwrap_or(0.0);
        let mut rows: Vec<(u32, f64)> = Vec::with_capacity(self.trees.len() * 4);
        for tree in &self.trees {
            let leaf = tree.find_rows(row);
            let whole: f64 = leaf.iter().map(|count| weight_of(*count)).sum();
            if whole > 0.0 {
                rows.extend(leaf.iter().map(|count| (*count, share * weight_of(*count) / whole)));
            }
        }
        rows.sort_unstable_by_key(|(count, _)| *count);
        rows.dedup_by(|next, previous| {
            let is_same = next.0 == previous.0;
            if is_same {
                previous.1 += next.1;
            }
            is_same
        });
        let target = |(count, weight): (u32, f64)| Some((self.targets.get(count as usize).copied()?, weight));
        SimilarRows(rows.into_iter().filter_map(target).collect())
    }
}

/// Compact form of a forest: nodes in pre-order (split, left side, right side); a leaf's rows
/// ascending, as differences.
#[derive(Serialize, Deserialize)]
struct PackedForest {
    targets: Vec<f64>,
    weights: Vec<f64>,
    count: usize,
    trees: String,
}

impl From<QuantileForest> for PackedForest {
    fn from(forest: QuantileForest) -> Self {
        let mut writer = PackedWriter::default();
        for tree in &forest.trees {
            let mut open = vec![0usize];
            while let Some(at) = open.pop() {
                let node = tree.nodes[at];
                if node.feature == LEAF_FEATURE {
                    let rows = tree.rows_in_leaf(node);
                    writer.write_count(0);
                    writer.write_count(rows.len() as u64);
                    let mut before = 0;
                    for row in rows {
                        writer.write_count(u64::from(row - before));
                        before = *row;
                    }
                } else {
                    writer.write_count(u64::from(node.feature) + 1);
                    writer.write_number(node.value as f32);
                    open.extend([node.right as usize, node.left as usize]);
                }
            }
        }
        // Equal weights are stored as one number.
        let mut weights = forest.weights;
        if weights.windows(2).all(|pair| pair[0] == pair[1]) {
            weights.truncate(1);
        }
        Self { targets: forest.targets, weights, count: forest.trees.len(), trees: writer.to_base64() }
    }
}

impl TryFrom<PackedForest> for QuantileForest {
    type Error = Error;
    fn try_from(packed: PackedForest) -> Result<Self, Error> {
        let rows = packed.targets.len();
        let wrong = |field: &str, why: &str| Error::File { field: field.to_string(), why: why.to_string() };
        let weights = match &packed.weights[..] {
            [value] => vec![*value; rows],
            all if all.len() == rows => all.to_vec(),
            _ => return Err(wrong("weights", "are not one for each target")),
        };
        let broken = || wrong("trees", "are not base64 of `count` trees");
        let mut reader = PackedReader::new(&packed.trees).ok_or_else(broken)?;
        let mut trees = Vec::new();
        for _ in 0..packed.count {
            trees.push(RowTree::read_packed(&mut reader, rows).ok_or_else(broken)?);
        }
        Ok(Self { trees, targets: packed.targets, weights })
    }
}

impl RowTree {
    fn new() -> Self {
        Self { nodes: vec![TreeNode::leaf(0.0)], rows: Vec::new() }
    }

    /// Turns a leaf into a split; returns the index of its left child, which the right one follows.
    fn split_leaf(&mut self, at: usize, feature: u32, threshold: f32) -> usize {
        let (children, value) = (self.nodes.len(), f64::from(threshold));
        let (left, right) = (children as u32, children as u32 + 1);
        self.nodes.extend([TreeNode::leaf(0.0); 2]);
        self.nodes[at] = TreeNode { value, feature, left, right, unknown_left: false };
        children
    }

    /// Assigns all rows from `begin` on to a leaf.
    fn assign_rows(&mut self, at: usize, begin: usize) {
        let node = &mut self.nodes[at];
        (node.left, node.right) = (begin as u32, self.rows.len() as u32);
    }

    /// Reads a tree whose leaves hold rows below `rows`.
    fn read_packed(reader: &mut PackedReader, rows: usize) -> Option<Self> {
        let mut tree = Self::new();
        let mut open = vec![0usize];
        while let Some(at) = open.pop() {
            i32::try_from(tree.nodes.len().max(tree.rows.len())).ok()?;
            match reader.read_count()?.checked_sub(1) {
                Some(feature) => {
                    let feature = u32::try_from(i32::try_from(feature).ok()?).ok()?;
                    let left = tree.split_leaf(at, feature, reader.read_number()?);
                    open.extend([left + 1, left]);
                }
                None => {
                    let count = reader.read_count()?;
                    if count > reader.remaining_bytes() as u64 {
                        return None;
                    }
                    let begin = tree.rows.len();
                    let mut row = 0u64;
                    for _ in 0..count {
                        row = row.checked_add(reader.read_count()?).filter(|row| *row < rows as u64)?;
                        tree.rows.push(u32::try_from(row).ok()?);
                    }
                    tree.assign_rows(at, begin);
                }
            }
        }
        Some(tree)
    }

    fn rows_in_leaf(&self, leaf: TreeNode) -> &[u32] {
        self.rows.get(leaf.left as usize..leaf.right as usize).unwrap_or_default()
    }

    fn find_rows(&self, row: &[f64]) -> &[u32] {
        let value_of = |feature: usize| f64::from(row.get(feature).copied().unwrap_or(0.0) as f32);
        let leaf = find_leaf(&self.nodes, SplitRule::UpTo, value_of);
        leaf.map_or(&[], |leaf| self.rows_in_leaf(self.nodes[leaf]))
    }
}

fn grow_tree(
    x: &DenseMatrix,
    split: &[f64],
    weights: &[f64],
    leaf_rows: usize,
    random: &mut SplitMix64,
) -> RowTree {
    let mut tree = RowTree::new();
    let mut open = vec![(0usize, (0..split.len() as u32).collect::<Vec<u32>>())];
    while let Some((at, rows)) = open.pop() {
        match best_random_split(x, split, weights, &rows, leaf_rows, random) {
            Some((feature, threshold)) => {
                let is_left = |row: &u32| (x.at(*row as usize, feature) as f32) <= threshold;
                let (left_rows, right_rows): (Vec<u32>, Vec<u32>) = rows.iter().copied().partition(is_left);
                let left = tree.split_leaf(at, feature as u32, threshold);
                open.push((left + 1, right_rows));
                open.push((left, left_rows));
            }
            None => {
                let begin = tree.rows.len();
                tree.rows.extend(rows);
                tree.assign_rows(at, begin);
            }
        }
    }
    tree
}

/// The best of one random threshold per feature; `None` if the rows are too few or all equal.
fn best_random_split(
    x: &DenseMatrix,
    split: &[f64],
    weights: &[f64],
    rows: &[u32],
    leaf_rows: usize,
    random: &mut SplitMix64,
) -> Option<(usize, f32)> {
    if rows.len() < 2 * leaf_rows {
        return None;
    }
    let (mut sum, mut square, mut count) = (0.0, 0.0, 0.0);
    for row in rows {
        let (value, weight) = (split[*row as usize], weights[*row as usize]);
        sum += weight * value;
        square += weight * value * value;
        count += weight;
    }
    if square - sum * sum / count <= 1e-12 * square.abs() {
        return None;
    }
    let mut best: Option<(f64, usize, f32)> = None;
    for feature in 0..x.width() {
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for row in rows {
            let value = x.at(*row as usize, feature) as f32;
            (low, high) = (low.min(value), high.max(value));
        }
        let drawn = random.next_fraction();
        if high <= low {
            continue;
        }
        let threshold = (f64::from(low) + (f64::from(high) - f64::from(low)) * drawn) as f32;
        let (mut left_sum, mut left_count, mut left) = (0.0, 0.0, 0usize);
        for row in rows {
            if x.at(*row as usize, feature) as f32 <= threshold {
                left_sum += weights[*row as usize] * split[*row as usize];
                left_count += weights[*row as usize];
                left += 1;
            }
        }
        let right = rows.len() - left;
        if left < leaf_rows || right < leaf_rows {
            continue;
        }
        let right_sum = sum - left_sum;
        let gain = left_sum * left_sum / left_count + right_sum * right_sum / (count - left_count);
        if best.is_none_or(|best| gain > best.0) {
            best = Some((gain, feature, threshold));
        }
    }
    best.map(|(_, feature, threshold)| (feature, threshold))
}
