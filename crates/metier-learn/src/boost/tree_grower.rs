//! Grows one tree leaf-wise: always the split with the largest gain.

use serde::{Deserialize, Serialize};

use super::feature_bins::FeatureBins;
use super::{MonotoneConstraint, Settings};
use crate::tree_walk::{LEAF_FEATURE, SplitRule, TreeNode, find_leaf};

/// One node as grown and as stored in predictor files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct BoostedNode {
    /// The compared feature; `None` for a leaf.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) feature: Option<u32>,
    /// Threshold of a split, value of a leaf.
    pub(super) value: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) left: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) right: u32,
    /// Whether rows without the feature go left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unknown_left: bool,
    /// Loss reduction of the split.
    #[serde(default)]
    pub(super) gain: f64,
}

impl BoostedNode {
    pub(super) fn leaf(value: f64) -> Self {
        Self { feature: None, value, left: 0, right: 0, unknown_left: false, gain: 0.0 }
    }
}

impl From<BoostedNode> for TreeNode {
    fn from(node: BoostedNode) -> Self {
        let BoostedNode { feature, value, left, right, unknown_left, .. } = node;
        Self { value, feature: feature.unwrap_or(LEAF_FEATURE), left, right, unknown_left }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A regression tree; the first node is its root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoostedTree {
    pub(super) places: Vec<BoostedNode>,
}

impl BoostedTree {
    /// Value of the leaf that a row reaches.
    pub fn predict(&self, row: &[f64]) -> f64 {
        let value_of = |feature| row.get(feature).copied().unwrap_or(f64::NAN);
        find_leaf(&self.places, SplitRule::UpTo, value_of).map_or(0.0, |leaf| self.places[leaf].value)
    }

    pub(super) fn add_gains(&self, gains: &mut [f64]) {
        for place in &self.places {
            if let Some(gain) = place.feature.and_then(|feature| gains.get_mut(feature as usize)) {
                *gain += place.gain;
            }
        }
    }
}

/// Sums of gradients, curvatures and rows.
#[derive(Debug, Clone, Copy, Default)]
struct GradientSum {
    gradient: f64,
    curvature: f64,
    rows: u32,
}

impl GradientSum {
    fn add(&mut self, other: GradientSum) {
        self.gradient += other.gradient;
        self.curvature += other.curvature;
        self.rows += other.rows;
    }

    fn minus(self, other: GradientSum) -> GradientSum {
        GradientSum {
            gradient: self.gradient - other.gradient,
            curvature: self.curvature - other.curvature,
            rows: self.rows - other.rows,
        }
    }
}

/// The best split of a leaf.
#[derive(Debug, Clone, Copy)]
struct BinSplit {
    gain: f64,
    feature: usize,
    bin: usize,
    unknown_left: bool,
}

/// A leaf that may still be split.
struct GrowingLeaf {
    place: usize,
    depth: usize,
    rows: std::ops::Range<usize>,
    sums: Vec<GradientSum>,
    total: GradientSum,
    low: f64,
    high: f64,
    best: Option<BinSplit>,
}

/// Grows trees over the same bins.
pub struct BoostedTreeGrower<'a> {
    bins: &'a FeatureBins,
    settings: &'a Settings,
    /// Offset of each feature's histogram.
    starts: Vec<usize>,
    width: usize,
    scratch: Vec<u32>,
}

impl<'a> BoostedTreeGrower<'a> {
    pub fn new(bins: &'a FeatureBins, settings: &'a Settings, rows: usize) -> Self {
        let mut starts = Vec::with_capacity(bins.width());
        let mut width = 0;
        for feature in 0..bins.width() {
            starts.push(width);
            width += bins.bin_count(feature);
        }
        Self { bins, settings, starts, width, scratch: vec![0; rows] }
    }

    /// Grows a tree with leaf values scaled by the learning rate; `None` if no split has a gain.
    pub fn grow_tree(
        &mut self,
        gradients: &[(f64, f64)],
        mut rows: Vec<u32>,
        columns: &[u32],
        exact: &dyn Fn(&[u32]) -> Option<f64>,
    ) -> Option<BoostedTree> {
        let mut places = vec![BoostedNode::leaf(0.0)];
        let sums = self.gradient_histogram(gradients, &rows, columns);
        let mut total = GradientSum::default();
        for row in &rows {
            let (gradient, curvature) = gradients[*row as usize];
            total.add(GradientSum { gradient, curvature, rows: 1 });
        }
        let mut root = GrowingLeaf {
            place: 0,
            depth: 0,
            rows: 0..rows.len(),
            sums,
            total,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            best: None,
        };
        root.best = self.find_best_split(&root, columns);
        let mut leaves = vec![root];
        while leaves.len() < self.settings.leaves {
            let next = leaves
                .iter()
                .enumerate()
                .filter_map(|(at, leaf)| leaf.best.map(|split| (at, split)))
                // The first of equal gains, so that trees depend on the rows only.
                .reduce(|a, b| if b.1.gain > a.1.gain { b } else { a });
            let Some((at, split)) = next else { break };
            let leaf = leaves.swap_remove(at);
            let (left, right) = self.split_leaf(gradients, &mut rows, leaf, split, columns, &mut places);
            leaves.push(left);
            leaves.push(right);
        }
        if leaves.len() < 2 {
            return None;
        }
        for leaf in leaves {
            let value = exact(&rows[leaf.rows.clone()]).unwrap_or_else(|| self.leaf_value(leaf.total));
            places[leaf.place].value = value.clamp(leaf.low, leaf.high) * self.settings.rate;
        }
        Some(BoostedTree { places })
    }

    fn leaf_value(&self, sum: GradientSum) -> f64 {
        let weight = sum.curvature + self.settings.ridge;
        if weight > 0.0 { -sum.gradient / weight } else { 0.0 }
    }

    fn gradient_histogram(
        &self,
        gradients: &[(f64, f64)],
        rows: &[u32],
        columns: &[u32],
    ) -> Vec<GradientSum> {
        let mut sums = vec![GradientSum::default(); self.width];
        for feature in columns {
            let feature = *feature as usize;
            let codes = self.bins.bin_column(feature);
            let own = &mut sums[self.starts[feature]..self.starts[feature] + self.bins.bin_count(feature)];
            for row in rows {
                let row = *row as usize;
                let (gradient, curvature) = gradients[row];
                let sum = &mut own[codes[row] as usize];
                sum.gradient += gradient;
                sum.curvature += curvature;
                sum.rows += 1;
            }
        }
        sums
    }

    /// Loss reduction and value of a set of rows as one leaf.
    fn leaf_gain(&self, sum: GradientSum, low: f64, high: f64) -> (f64, f64) {
        let value = self.leaf_value(sum).clamp(low, high);
        let loss = sum.gradient * value + 0.5 * (sum.curvature + self.settings.ridge) * value * value;
        (-loss, value)
    }

    fn find_best_split(&self, leaf: &GrowingLeaf, columns: &[u32]) -> Option<BinSplit> {
        let fewest = self.settings.leaf_rows.max(1) as u32;
        if leaf.total.rows < fewest * 2 || leaf.depth >= self.settings.depth {
            return None;
        }
        let (whole, _) = self.leaf_gain(leaf.total, leaf.low, leaf.high);
        let mut best: Option<BinSplit> = None;
        for feature in columns {
            let feature = *feature as usize;
            let own = &leaf.sums[self.starts[feature]..self.starts[feature] + self.bins.bin_count(feature)];
            let unknown = own[0];
            let direction = self.settings.monotone.get(feature).copied().unwrap_or_default();
            for unknown_left in [true, false] {
                if !unknown_left && unknown.rows == 0 {
                    continue;
                }
                let mut left = if unknown_left { unknown } else { GradientSum::default() };
                // After the last bin only unknown values remain.
                let ends = if unknown_left { own.len() - 1 } else { own.len() };
                for (bin, sum) in own.iter().enumerate().take(ends).skip(1) {
                    left.add(*sum);
                    let right = leaf.total.minus(left);
                    if left.rows < fewest {
                        continue;
                    }
                    if right.rows < fewest {
                        break;
                    }
                    let (left_worth, left_value) = self.leaf_gain(left, leaf.low, leaf.high);
                    let (right_worth, right_value) = self.leaf_gain(right, leaf.low, leaf.high);
                    let is_allowed = match direction {
                        MonotoneConstraint::Free => true,
                        MonotoneConstraint::Up => left_value <= right_value,
                        MonotoneConstraint::Down => left_value >= right_value,
                    };
                    let gain = left_worth + right_worth - whole;
                    if is_allowed && gain > 1e-12 && best.is_none_or(|best| gain > best.gain) {
                        best = Some(BinSplit { gain, feature, bin, unknown_left });
                    }
                }
            }
        }
        best
    }

    fn split_leaf(
        &mut self,
        gradients: &[(f64, f64)],
        rows: &mut [u32],
        leaf: GrowingLeaf,
        split: BinSplit,
        columns: &[u32],
        places: &mut Vec<BoostedNode>,
    ) -> (GrowingLeaf, GrowingLeaf) {
        let BinSplit { feature, bin, unknown_left, gain } = split;
        let codes = self.bins.bin_column(feature);
        let own = &mut rows[leaf.rows.clone()];
        // Left rows move to the front, right rows are set aside; both keep their order.
        let (mut lefts, mut rights) = (0, 0);
        let mut left_total = GradientSum::default();
        for at in 0..own.len() {
            let row = own[at];
            let code = codes[row as usize] as usize;
            let is_left = if code == 0 { unknown_left } else { code <= bin };
            if is_left {
                let (gradient, curvature) = gradients[row as usize];
                left_total.add(GradientSum { gradient, curvature, rows: 1 });
                own[lefts] = row;
                lefts += 1;
            } else {
                self.scratch[rights] = row;
                rights += 1;
            }
        }
        own[lefts..].copy_from_slice(&self.scratch[..rights]);
        let middle = leaf.rows.start + lefts;
        let right_total = leaf.total.minus(left_total);
        let (left_range, right_range) = (leaf.rows.start..middle, middle..leaf.rows.end);
        // The larger side's histogram is the difference to the whole.
        let small = if lefts <= rights { left_range.clone() } else { right_range.clone() };
        let small_sums = self.gradient_histogram(gradients, &rows[small], columns);
        let large_sums: Vec<GradientSum> =
            leaf.sums.iter().zip(&small_sums).map(|(whole, part)| whole.minus(*part)).collect();
        let (left_sums, right_sums) =
            if lefts <= rights { (small_sums, large_sums) } else { (large_sums, small_sums) };
        // Below a monotone split no leaf of one side may cross the middle between the two.
        let (mut left_high, mut right_low, mut left_low, mut right_high) =
            (leaf.high, leaf.low, leaf.low, leaf.high);
        let between = (self.leaf_gain(left_total, leaf.low, leaf.high).1
            + self.leaf_gain(right_total, leaf.low, leaf.high).1)
            / 2.0;
        match self.settings.monotone.get(feature).copied().unwrap_or_default() {
            MonotoneConstraint::Free => {}
            MonotoneConstraint::Up => (left_high, right_low) = (between, between),
            MonotoneConstraint::Down => (left_low, right_high) = (between, between),
        }
        let (left_place, right_place) = (places.len(), places.len() + 1);
        places.extend([BoostedNode::leaf(0.0); 2]);
        places[leaf.place] = BoostedNode {
            feature: Some(feature as u32),
            value: self.bins.upper_edge(feature, bin),
            left: left_place as u32,
            right: right_place as u32,
            unknown_left,
            gain,
        };
        let mut left = GrowingLeaf {
            place: left_place,
            depth: leaf.depth + 1,
            rows: left_range,
            sums: left_sums,
            total: left_total,
            low: left_low,
            high: left_high,
            best: None,
        };
        let mut right = GrowingLeaf {
            place: right_place,
            depth: leaf.depth + 1,
            rows: right_range,
            sums: right_sums,
            total: right_total,
            low: right_low,
            high: right_high,
            best: None,
        };
        left.best = self.find_best_split(&left, columns);
        right.best = self.find_best_split(&right, columns);
        (left, right)
    }
}
