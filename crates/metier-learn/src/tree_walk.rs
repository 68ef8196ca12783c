//! Walks decision trees: the only implementation of the search for a row's leaf.
//!
//! Every tree format stores [`TreeNode`]s or converts its own nodes into them on the fly, so all
//! formats share one walker. It never panics and always terminates, also on trees from damaged
//! files.

/// Feature number that marks a leaf.
pub const LEAF_FEATURE: u32 = u32::MAX;

/// One node: a split, or a leaf when `feature` is [`LEAF_FEATURE`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeNode {
    /// Threshold of a split, value of a leaf.
    pub value: f64,
    pub feature: u32,
    /// Indices of the children; in leaves a format may use both for other data.
    pub left: u32,
    pub right: u32,
    /// Whether rows without the feature (NaN) go left.
    pub unknown_left: bool,
}

impl TreeNode {
    pub fn leaf(value: f64) -> Self {
        Self { value, feature: LEAF_FEATURE, left: 0, right: 0, unknown_left: false }
    }
}

/// Which values go left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitRule {
    /// Values up to and including the threshold, as in scikit-learn.
    UpTo,
    /// Values below the threshold, as in XGBoost.
    Below,
}

/// Index of the leaf that a row reaches; `None` for an index out of range or a cycle.
///
/// `value_of` returns the row's value of a feature.
#[inline]
pub fn find_leaf<N: Copy + Into<TreeNode>>(
    nodes: &[N],
    rule: SplitRule,
    value_of: impl Fn(usize) -> f64,
) -> Option<usize> {
    let mut at = 0;
    for _ in 0..=nodes.len() {
        let node: TreeNode = (*nodes.get(at)?).into();
        if node.feature == LEAF_FEATURE {
            return Some(at);
        }
        let value = value_of(node.feature as usize);
        let is_left = match rule {
            _ if value.is_nan() => node.unknown_left,
            SplitRule::UpTo => value <= node.value,
            SplitRule::Below => value < node.value,
        };
        at = if is_left { node.left } else { node.right } as usize;
    }
    None
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Values for which comparisons differ: ties, both zeros, infinities, NaN.
    pub const SPECIAL: [f64; 9] =
        [0.0, -0.0, 1.0, -1.0, 0.5, f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

    /// A tree of random shape with nodes in pre-order.
    pub fn random_tree(random: &mut SplitMix64, width: usize, depth: usize) -> Vec<TreeNode> {
        fn add(nodes: &mut Vec<TreeNode>, random: &mut SplitMix64, width: usize, depth: usize) {
            let at = nodes.len();
            nodes.push(TreeNode::leaf(random.next_below(1000) as f64 / 7.0));
            if depth == 0 || random.next_below(4) == 0 {
                return;
            }
            add(nodes, random, width, depth - 1);
            let right = nodes.len() as u32;
            add(nodes, random, width, depth - 1);
            let (value, feature) = (SPECIAL[random.next_below(8)], random.next_below(width) as u32);
            let unknown_left = random.next_below(2) == 0;
            nodes[at] = TreeNode { value, feature, left: at as u32 + 1, right, unknown_left };
        }
        let mut nodes = Vec::new();
        add(&mut nodes, random, width, depth);
        nodes
    }

    pub fn random_row(random: &mut SplitMix64, width: usize) -> Vec<f64> {
        (0..width).map(|_| SPECIAL[random.next_below(SPECIAL.len())]).collect()
    }

    /// The definition, by recursion.
    pub fn walk_naively(nodes: &[TreeNode], at: usize, rule: SplitRule, row: &[f64]) -> f64 {
        let node = nodes[at];
        if node.feature == LEAF_FEATURE {
            return node.value;
        }
        let value = row[node.feature as usize];
        let goes_left = (value.is_nan() && node.unknown_left)
            || value < node.value
            || (rule == SplitRule::UpTo && value == node.value);
        walk_naively(nodes, if goes_left { node.left } else { node.right } as usize, rule, row)
    }

    #[test]
    fn the_walker_finds_the_leaf_of_the_definition_also_at_ties_infinities_and_nan() {
        let mut random = SplitMix64::new(1);
        for _ in 0..300 {
            let nodes = random_tree(&mut random, 4, 6);
            for _ in 0..50 {
                let row = random_row(&mut random, 4);
                for rule in [SplitRule::UpTo, SplitRule::Below] {
                    let leaf = find_leaf(&nodes, rule, |feature| row[feature]).unwrap();
                    let want = walk_naively(&nodes, 0, rule, &row);
                    assert_eq!(nodes[leaf].value.to_bits(), want.to_bits(), "{nodes:?} {row:?}");
                }
            }
        }
    }

    #[test]
    fn trees_that_lead_nowhere_have_no_leaf() {
        let split = |left, right| TreeNode { feature: 0, left, right, ..TreeNode::leaf(0.5) };
        for nodes in [vec![], vec![split(0, 0)], vec![split(1, 1)], vec![split(1, 1), split(0, 0)]] {
            assert_eq!(find_leaf(&nodes, SplitRule::UpTo, |_| 0.0), None);
        }
    }
}
