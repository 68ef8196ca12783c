//! Boosted trees laid out for fast predictions of many rows.
//!
//! The method is QuickScorer (Lucchese et al. 2015): no tree is walked. Each leaf of a tree is a
//! bit, and each split that sends a row to the right clears the leaves on its left. The lowest
//! remaining bit is the row's leaf. The splits of a feature are sorted by threshold, so those that
//! send a value to the right are a prefix. Masks of the leaves that a prefix clears in all trees
//! are stored after every few splits. A row thus costs a binary search and a few mask lines for
//! each feature, without dependent steps.
//!
//! Trees with more leaves than bits are walked by [`find_leaf`]. Single precision; features must be
//! known (no NaN).

use super::BoostedTrees;
use crate::tree_walk::{LEAF_FEATURE, SplitRule, TreeNode, find_leaf};

/// Rows predicted side by side.
const ROW_LANES: usize = 8;
/// Splits of a feature between two stored mask lines.
const LINE_STEP: usize = 8;
/// Largest size of the mask lines; larger trees are walked.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Largest number of nodes of one tree.
const MAX_TREE_NODES: usize = 1 << 16;

/// Trees that predict batches of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchTrees {
    width: usize,
    start: f64,
    layout: TreeLayout,
}

#[derive(Debug, Clone, PartialEq)]
enum TreeLayout {
    Walked(Vec<Vec<TreeNode>>),
    Masked(LeafMasks),
}

impl BatchTrees {
    /// Converts trees. `None` if one has too many nodes, uses an unknown feature, or is not a tree.
    pub fn new(trees: &BoostedTrees) -> Option<Self> {
        let width = trees.names.len();
        let walked = trees.trees.iter().map(|tree| to_single_precision(&tree.places, width));
        let walked = walked.collect::<Option<Vec<_>>>()?;
        let layout = match LeafMasks::new(&walked, width) {
            Some(masks) => TreeLayout::Masked(masks),
            None => TreeLayout::Walked(walked),
        };
        Some(Self { width, start: trees.start, layout })
    }

    /// Predictions for concatenated rows.
    pub fn predict(&self, rows: &[f32]) -> Vec<f64> {
        let count = rows.len().checked_div(self.width).unwrap_or(0);
        let mut out = vec![self.start; count];
        match &self.layout {
            TreeLayout::Walked(trees) => add_walked_trees(trees, rows, self.width, &mut out),
            TreeLayout::Masked(masks) => masks.add_leaf_values(rows, self.width, &mut out),
        }
        out
    }
}

/// The nodes in single precision; `None` unless every node except the root has exactly one parent,
/// which precedes it.
fn to_single_precision<N: Copy + Into<TreeNode>>(nodes: &[N], width: usize) -> Option<Vec<TreeNode>> {
    let nodes: Vec<TreeNode> = nodes.iter().map(|node| (*node).into()).collect();
    let mut has_parent = vec![false; nodes.len()];
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| node.feature != LEAF_FEATURE) {
        for child in [node.left as usize, node.right as usize] {
            if child <= at || std::mem::replace(has_parent.get_mut(child)?, true) {
                return None;
            }
        }
        if node.feature as usize >= width {
            return None;
        }
    }
    if !(1..=MAX_TREE_NODES).contains(&nodes.len()) {
        return None;
    }
    let single =
        |node: TreeNode| TreeNode { value: f64::from(node.value as f32), unknown_left: false, ..node };
    Some(nodes.into_iter().map(single).collect())
}

fn add_walked_trees(trees: &[Vec<TreeNode>], rows: &[f32], width: usize, out: &mut [f64]) {
    for (row, out) in rows.chunks_exact(width.max(1)).zip(out) {
        for tree in trees {
            let leaf = find_leaf(tree, SplitRule::UpTo, |feature| f64::from(row[feature]));
            *out += leaf.map_or(0.0, |leaf| tree[leaf].value);
        }
    }
}

/// One split: its tree, and the leaves that remain if a row goes right.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SplitMask {
    tree: u32,
    stays: u32,
}

/// All splits of a feature, by threshold.
#[derive(Debug, Clone, PartialEq, Default)]
struct FeatureSplits {
    thresholds: Vec<f32>,
    masks: Vec<SplitMask>,
    /// After every few splits, the leaves of each tree that remain if a row goes right at all
    /// splits before.
    lines: Vec<u32>,
}

/// Largest number of leaves of a tree, which are bits of a mask.
const MAX_MASK_LEAVES: usize = u32::BITS as usize;

/// Trees as leaf masks.
#[derive(Debug, Clone, PartialEq)]
struct LeafMasks {
    trees: usize,
    features: Vec<FeatureSplits>,
    /// Leaf values of each tree, from left to right.
    leaves: Vec<[f32; MAX_MASK_LEAVES]>,
}

impl LeafMasks {
    /// Builds the masks. `None` if a tree has more leaves than bits or a NaN threshold, or if the
    /// lines are too large.
    fn new(trees: &[Vec<TreeNode>], width: usize) -> Option<Self> {
        let mut leaves = Vec::with_capacity(trees.len());
        let mut splits: Vec<Vec<(f32, SplitMask)>> = vec![Vec::new(); width];
        for (number, nodes) in trees.iter().enumerate() {
            if nodes.len().div_ceil(2) > MAX_MASK_LEAVES || nodes.iter().any(|node| node.value.is_nan()) {
                return None;
            }
            let mut own = Vec::with_capacity(MAX_MASK_LEAVES);
            collect_masks(nodes, 0, u32::try_from(number).ok()?, &mut own, &mut splits);
            own.resize(MAX_MASK_LEAVES, 0.0);
            leaves.push(own.try_into().ok()?);
        }
        let lines: usize = splits.iter().map(|of| of.len() / LINE_STEP + 1).sum();
        if lines * trees.len() * size_of::<u32>() > MAX_LINE_BYTES {
            return None;
        }
        let features = splits.into_iter().map(|of| FeatureSplits::new(of, trees.len())).collect();
        Some(Self { trees: trees.len(), features, leaves })
    }

    fn add_leaf_values(&self, rows: &[f32], width: usize, out: &mut [f64]) {
        let mut stays = vec![0u32; ROW_LANES * self.trees];
        for (rows, out) in rows.chunks(ROW_LANES * width.max(1)).zip(out.chunks_mut(ROW_LANES)) {
            for (row, stays) in rows.chunks_exact(width).zip(stays.chunks_exact_mut(self.trees.max(1))) {
                stays.fill(u32::MAX);
                for (value, splits) in row.iter().zip(&self.features) {
                    splits.clear_leaves(*value, stays);
                }
            }
            for (tree, leaves) in self.leaves.iter().enumerate() {
                for (lane, out) in out.iter_mut().enumerate() {
                    // The last leaf of a tree is never cleared, so a lowest bit always remains.
                    let leaf = stays[lane * self.trees + tree].trailing_zeros() as usize % MAX_MASK_LEAVES;
                    *out += f64::from(leaves[leaf]);
                }
            }
        }
    }
}

/// Numbers the leaves below a node from left to right and collects its splits; returns the leaves'
/// bits.
fn collect_masks(
    nodes: &[TreeNode],
    at: usize,
    tree: u32,
    leaves: &mut Vec<f32>,
    splits: &mut [Vec<(f32, SplitMask)>],
) -> u32 {
    let node = nodes[at];
    if node.feature == LEAF_FEATURE {
        leaves.push(node.value as f32);
        return 1 << ((leaves.len() - 1) % MAX_MASK_LEAVES);
    }
    let left = collect_masks(nodes, node.left as usize, tree, leaves, splits);
    let right = collect_masks(nodes, node.right as usize, tree, leaves, splits);
    splits[node.feature as usize].push((node.value as f32, SplitMask { tree, stays: !left }));
    left | right
}

impl FeatureSplits {
    fn new(mut all: Vec<(f32, SplitMask)>, trees: usize) -> Self {
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut this = Self::default();
        let mut line = vec![u32::MAX; trees];
        for (number, (threshold, mask)) in all.into_iter().enumerate() {
            if number % LINE_STEP == 0 {
                this.lines.extend_from_slice(&line);
            }
            line[mask.tree as usize] &= mask.stays;
            this.thresholds.push(threshold);
            this.masks.push(mask);
        }
        if this.masks.len() % LINE_STEP == 0 {
            this.lines.extend_from_slice(&line);
        }
        this
    }

    /// Clears the leaves that a value cannot reach.
    fn clear_leaves(&self, value: f32, stays: &mut [u32]) {
        let count = self.thresholds.partition_point(|threshold| *threshold < value);
        let line = count / LINE_STEP;
        let known = &self.lines[line * stays.len()..][..stays.len()];
        for (stays, known) in stays.iter_mut().zip(known) {
            *stays &= known;
        }
        for mask in &self.masks[line * LINE_STEP..count] {
            stays[mask.tree as usize] &= mask.stays;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, tests::friedman};
    use super::*;
    use crate::random::SplitMix64;
    use crate::tree_walk::tests::{random_row, random_tree, walk_naively};

    const WIDTH: usize = 4;

    /// Sums the trees by their definition, and compares all bits with `add`.
    fn compare(trees: &[Vec<TreeNode>], rows: &[f64], add: &dyn Fn(&[f32], &mut [f64])) {
        let single: Vec<f32> = rows.iter().map(|value| *value as f32).collect();
        let mut values = vec![0.5; rows.len() / WIDTH];
        add(&single, &mut values);
        for (row, current) in single.chunks_exact(WIDTH).zip(values) {
            let row: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
            let add = |sum: f64, tree: &Vec<TreeNode>| sum + walk_naively(tree, 0, SplitRule::UpTo, &row);
            assert_eq!(trees.iter().fold(0.5, add).to_bits(), current.to_bits(), "{row:?}");
        }
    }

    #[test]
    fn masks_and_walks_give_the_bits_of_the_definition_on_random_trees() {
        let mut random = SplitMix64::new(7);
        for _ in 0..40 {
            let tree =
                |random: &mut SplitMix64| to_single_precision(&random_tree(random, WIDTH, 5), WIDTH).unwrap();
            let trees: Vec<_> = (0..30).map(|_| tree(&mut random)).collect();
            let masks = LeafMasks::new(&trees, WIDTH).unwrap();
            // Ties, both zeros and infinities, in row counts with incomplete and complete lanes.
            let mut rows: Vec<f64> =
                (0..random.next_below(40)).flat_map(|_| random_row(&mut random, WIDTH)).collect();
            compare(&trees, &rows, &|rows, out| add_walked_trees(&trees, rows, WIDTH, out));
            rows.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = 0.25);
            compare(&trees, &rows, &|rows, out| masks.add_leaf_values(rows, WIDTH, out));
        }
    }

    #[test]
    fn masks_give_the_bits_of_walking_on_grown_trees() {
        let table = friedman(400, 11);
        let settings = Settings { trees: 40, leaves: 32, leaf_rows: 1, ..Settings::default() };
        let mut fitted = BoostedTrees::fit(&table, None, &settings).unwrap();
        // One tree without a split.
        fitted.trees[3].places.retain(|node| node.feature.is_none());
        fitted.trees[3].places.truncate(1);
        let width = table.width();
        let nodes = |tree: &super::super::BoostedTree| to_single_precision(&tree.places, width).unwrap();
        let walked: Vec<_> = fitted.trees.iter().map(nodes).collect();
        let mut rows: Vec<f32> =
            (0..table.len()).flat_map(|row| table.row(row)).map(|value| *value as f32).collect();
        // Values equal to the thresholds.
        for node in walked.iter().flatten().take(200) {
            rows.extend((0..width).map(|_| node.value as f32));
        }
        let mut want = vec![fitted.start; rows.len() / width];
        add_walked_trees(&walked, &rows, width, &mut want);
        let batch = BatchTrees::new(&fitted).unwrap();
        assert!(matches!(batch.layout, TreeLayout::Masked(_)));
        let values = batch.predict(&rows);
        assert!(want.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()), "{want:?} {values:?}");
    }

    #[test]
    fn trees_of_more_leaves_than_bits_are_walked() {
        let table = friedman(600, 12);
        let settings = Settings { trees: 3, leaves: 60, leaf_rows: 1, ..Settings::default() };
        let fitted = BoostedTrees::fit(&table, None, &settings).unwrap();
        let batch = BatchTrees::new(&fitted).unwrap();
        assert!(matches!(batch.layout, TreeLayout::Walked(_)));
        let row: Vec<f32> = table.row(5).iter().map(|value| *value as f32).collect();
        let own: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
        assert!((batch.predict(&row)[0] - fitted.predict(&own)).abs() < 1e-4);
    }
}
