//! Extremely randomised trees (Geurts, Ernst and Wehenkel 2006) that remember which rows fell into each leaf, so that any quantile of
//! the target can be told (Meinshausen 2006), not only its mean.
//!
//! Every tree sees all rows and draws one threshold a feature at random; the best of them parts the rows. A row that is asked about is alike to the rows that
//! share its leaves: these are weighed, and the weighted quantile is the answer.

use serde::{Deserialize, Serialize};

use super::{check, too_many};
use crate::Error;
use crate::algebra::Matrix;
use crate::random::Random;

/// How to grow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How many trees.
    pub trees: usize,
    /// Fewest rows of a leaf.
    pub leaf_rows: usize,
    /// Seed of all chance.
    pub seed: u64,
}

/// Trees as lists: a question has a feature, a threshold and its first child (the second follows); a leaf has its rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Tree {
    /// Negative for a leaf.
    features: Vec<i32>,
    thresholds: Vec<f32>,
    /// First child of a question; where a leaf's rows begin in `rows`.
    next: Vec<u32>,
    /// Rows of all leaves; each leaf's end where the next leaf's begin.
    rows: Vec<u32>,
    /// How many rows a leaf has; 0 for a question.
    counts: Vec<u32>,
}

/// A forest and the targets of the rows that it was grown from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forest {
    trees: Vec<Tree>,
    /// Targets, ascending; leaves name rows by their place here.
    targets: Vec<f64>,
}

impl Forest {
    /// Grows trees whose splits make `split` targets alike; the answers are about `y`.
    pub fn fit(x: &Matrix, y: &[f64], split: &[f64], settings: Settings) -> Result<Self, Error> {
        check(x, y, 2)?;
        check(x, split, 2)?;
        too_many(y.len())?;
        let mut order: Vec<usize> = (0..y.len()).collect();
        order.sort_by(|a, b| y[*a].total_cmp(&y[*b]).then(a.cmp(b)));
        let x = x.select(&order);
        let split: Vec<f64> = order.iter().map(|row| split[*row]).collect();
        let mut random = Random::new(settings.seed);
        let trees =
            (0..settings.trees).map(|_| grow(&x, &split, settings.leaf_rows.max(1), &mut random)).collect();
        Ok(Self { trees, targets: order.iter().map(|row| y[*row]).collect() })
    }

    /// How alike each remembered row is to this one, in the order of their targets; adds up to 1.
    pub fn alike(&self, row: &[f64]) -> Vec<f64> {
        let mut weights = vec![0.0; self.targets.len()];
        let share = 1.0 / self.trees.len().max(1) as f64;
        for tree in &self.trees {
            let leaf = tree.leaf(row);
            for one in leaf {
                if let Some(weight) = weights.get_mut(*one as usize) {
                    *weight += share / leaf.len() as f64;
                }
            }
        }
        weights
    }

    /// Targets, ascending.
    pub fn targets(&self) -> &[f64] {
        &self.targets
    }

    /// The target up to which a share of the weights lies; between two targets where the share falls between them.
    pub fn quantile(&self, weights: &[f64], share: f64) -> f64 {
        let total: f64 = weights.iter().sum();
        let wanted = total * share;
        let mut sum = 0.0;
        for (weight, target) in weights.iter().zip(&self.targets) {
            sum += weight;
            if sum >= wanted && *weight > 0.0 {
                return *target;
            }
        }
        self.targets.last().copied().unwrap_or(0.0)
    }
}

impl Tree {
    fn leaf(&self, row: &[f64]) -> &[u32] {
        let mut at = 0usize;
        for _ in 0..=self.features.len() {
            let (Some(feature), Some(next)) = (self.features.get(at), self.next.get(at)) else { break };
            let Ok(feature) = usize::try_from(*feature) else {
                let count = self.counts.get(at).copied().unwrap_or(0) as usize;
                let begin = *next as usize;
                return self.rows.get(begin..begin.saturating_add(count)).unwrap_or_default();
            };
            let value = row.get(feature).copied().unwrap_or(0.0) as f32;
            let is_left = self.thresholds.get(at).is_some_and(|threshold| value <= *threshold);
            at = *next as usize + usize::from(!is_left);
        }
        &[]
    }
}

fn grow(x: &Matrix, split: &[f64], leaf_rows: usize, random: &mut Random) -> Tree {
    let mut tree = Tree::default();
    let add = |tree: &mut Tree| {
        tree.features.push(-1);
        tree.thresholds.push(0.0);
        tree.next.push(0);
        tree.counts.push(0);
    };
    add(&mut tree);
    let mut open = vec![(0usize, (0..split.len() as u32).collect::<Vec<u32>>())];
    while let Some((at, rows)) = open.pop() {
        match part(x, split, &rows, leaf_rows, random) {
            Some((feature, threshold)) => {
                let is_left = |row: &u32| (x.at(*row as usize, feature) as f32) <= threshold;
                let (left, right): (Vec<u32>, Vec<u32>) = rows.iter().copied().partition(is_left);
                let children = tree.features.len();
                (tree.features[at], tree.thresholds[at], tree.next[at]) =
                    (feature as i32, threshold, children as u32);
                add(&mut tree);
                add(&mut tree);
                open.push((children + 1, right));
                open.push((children, left));
            }
            None => {
                tree.next[at] = tree.rows.len() as u32;
                tree.counts[at] = rows.len() as u32;
                tree.rows.extend(rows);
            }
        }
    }
    tree
}

/// The best of one random threshold a feature; `None` where rows are too few or all alike.
fn part(
    x: &Matrix,
    split: &[f64],
    rows: &[u32],
    leaf_rows: usize,
    random: &mut Random,
) -> Option<(usize, f32)> {
    if rows.len() < 2 * leaf_rows {
        return None;
    }
    let (mut sum, mut square) = (0.0, 0.0);
    for row in rows {
        sum += split[*row as usize];
        square += split[*row as usize] * split[*row as usize];
    }
    let count = rows.len() as f64;
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
        let drawn = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        if high <= low {
            continue;
        }
        let threshold = (f64::from(low) + (f64::from(high) - f64::from(low)) * drawn) as f32;
        let (mut left_sum, mut left) = (0.0, 0usize);
        for row in rows {
            if x.at(*row as usize, feature) as f32 <= threshold {
                left_sum += split[*row as usize];
                left += 1;
            }
        }
        let right = rows.len() - left;
        if left < leaf_rows || right < leaf_rows {
            continue;
        }
        let gain = left_sum * left_sum / left as f64 + (sum - left_sum) * (sum - left_sum) / right as f64;
        if best.is_none_or(|best| gain > best.0) {
            best = Some((gain, feature, threshold));
        }
    }
    best.map(|(_, feature, threshold)| (feature, threshold))
}
