//! Extremely randomised trees (Geurts, Ernst and Wehenkel 2006) that remember which rows fell into each leaf, so that any quantile of
//! the target can be told (Meinshausen 2006), not only its mean.
//!
//! Every tree sees all rows and draws one threshold a feature at random; the best of them parts the rows. A row that is asked about is alike to the rows that
//! share its leaves: these are weighed, and the weighted quantile is the answer.

use serde::{Deserialize, Serialize};

use super::{check, too_many};
use crate::Error;
use crate::algebra::Matrix;
use crate::pack::{Reader, Writer};
use crate::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub trees: usize,
    /// Fewest rows of a leaf.
    pub leaf_rows: usize,
    /// Seed of all chance.
    pub seed: u64,
}

/// Trees as lists: a question has a feature, a threshold and its first child (the second follows); a leaf has its rows.
#[derive(Debug, Clone, PartialEq, Default)]
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
#[serde(try_from = "Packed", into = "Packed")]
pub struct Forest {
    trees: Vec<Tree>,
    /// Targets, ascending; leaves name rows by their place here.
    targets: Vec<f64>,
    /// What each row counts.
    weights: Vec<f64>,
}

/// Targets of rows that are alike to one that is asked about, ascending, with how alike each is.
#[derive(Debug, Clone, PartialEq)]
pub struct Alike(Vec<(f64, f64)>);

impl Alike {
    /// The target up to which a share of the weights lies, where each weight is first multiplied by what `of` says of its target.
    pub fn quantile(&self, share: f64, of: impl Fn(f64) -> f64) -> f64 {
        let total: f64 = self.0.iter().map(|(target, weight)| weight * of(*target)).sum();
        let wanted = total * share;
        let mut sum = 0.0;
        for (target, weight) in &self.0 {
            sum += weight * of(*target);
            if sum >= wanted {
                return *target;
            }
        }
        self.0.last().map_or(0.0, |(target, _)| *target)
    }

    /// All weights together: 1 but for rounding.
    pub fn total(&self) -> f64 {
        self.0.iter().map(|(_, weight)| weight).sum()
    }
}

impl Forest {
    /// Grows trees whose splits make `split` targets alike; the answers are about `y`, and each row counts what `weights` says.
    pub fn fit(
        x: &Matrix,
        y: &[f64],
        split: &[f64],
        weights: &[f64],
        settings: Settings,
    ) -> Result<Self, Error> {
        check(x, y, 2)?;
        check(x, split, 2)?;
        check(x, weights, 2)?;
        too_many(y.len())?;
        if let Some(weight) = weights.iter().find(|weight| **weight <= 0.0) {
            return Err(Error::Table { why: format!("a row that counts {weight}; want above 0") });
        }
        let mut order: Vec<usize> = (0..y.len()).collect();
        order.sort_by(|a, b| y[*a].total_cmp(&y[*b]).then(a.cmp(b)));
        let sorted = |of: &[f64]| -> Vec<f64> { order.iter().map(|row| of[*row]).collect() };
        let x = x.select(&order);
        let (split, weights) = (sorted(split), sorted(weights));
        let mut random = Random::new(settings.seed);
        let leaf_rows = settings.leaf_rows.max(1);
        let trees = (0..settings.trees).map(|_| grow(&x, &split, &weights, leaf_rows, &mut random)).collect();
        Ok(Self { trees, targets: sorted(y), weights })
    }

    /// The rows that share leaves with this one.
    pub fn alike(&self, row: &[f64]) -> Alike {
        let share = 1.0 / self.trees.len().max(1) as f64;
        let weight_of = |one: u32| self.weights.get(one as usize).copied().unwrap_or(0.0);
        let mut rows: Vec<(u32, f64)> = Vec::with_capacity(self.trees.len() * 4);
        for tree in &self.trees {
            let leaf = tree.leaf(row);
            let whole: f64 = leaf.iter().map(|one| weight_of(*one)).sum();
            if whole > 0.0 {
                rows.extend(leaf.iter().map(|one| (*one, share * weight_of(*one) / whole)));
            }
        }
        rows.sort_unstable_by_key(|(one, _)| *one);
        rows.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 += next.1;
            }
            is_same
        });
        let target = |(one, weight): (u32, f64)| Some((self.targets.get(one as usize).copied()?, weight));
        Alike(rows.into_iter().filter_map(target).collect())
    }
}

/// A forest in few bytes: places in the order question, left side, right side; a leaf's rows ascending, each as its distance from the one before.
#[derive(Serialize, Deserialize)]
struct Packed {
    targets: Vec<f64>,
    weights: Vec<f64>,
    count: usize,
    trees: String,
}

impl From<Forest> for Packed {
    fn from(forest: Forest) -> Self {
        let mut writer = Writer::default();
        for tree in &forest.trees {
            let mut open = vec![0usize];
            while let Some(at) = open.pop() {
                let Ok(feature) = u64::try_from(tree.features[at]) else {
                    writer.count(0);
                    writer.count(u64::from(tree.counts[at]));
                    let begin = tree.next[at] as usize;
                    let mut before = 0;
                    for row in &tree.rows[begin..begin + tree.counts[at] as usize] {
                        writer.count(u64::from(row - before));
                        before = *row;
                    }
                    continue;
                };
                writer.count(feature + 1);
                writer.number(tree.thresholds[at]);
                open.extend([tree.next[at] as usize + 1, tree.next[at] as usize]);
            }
        }
        // Weights are few different numbers; all alike is said with one.
        let mut weights = forest.weights;
        if weights.windows(2).all(|pair| pair[0] == pair[1]) {
            weights.truncate(1);
        }
        Self { targets: forest.targets, weights, count: forest.trees.len(), trees: writer.text() }
    }
}

impl TryFrom<Packed> for Forest {
    type Error = Error;
    fn try_from(packed: Packed) -> Result<Self, Error> {
        let rows = packed.targets.len();
        let wrong = |field: &str, why: &str| Error::File { field: field.to_string(), why: why.to_string() };
        let weights = match &packed.weights[..] {
            [one] => vec![*one; rows],
            all if all.len() == rows => all.to_vec(),
            _ => return Err(wrong("weights", "are not one for each target")),
        };
        let broken = || wrong("trees", "are no base64 of as many trees as count says");
        let mut reader = Reader::new(&packed.trees).ok_or_else(broken)?;
        let mut trees = Vec::new();
        for _ in 0..packed.count {
            trees.push(Tree::read(&mut reader, rows).ok_or_else(broken)?);
        }
        Ok(Self { trees, targets: packed.targets, weights })
    }
}

impl Tree {
    fn add(&mut self) {
        self.features.push(-1);
        self.thresholds.push(0.0);
        self.next.push(0);
        self.counts.push(0);
    }

    /// One tree whose leaves name rows below `rows`.
    fn read(reader: &mut Reader, rows: usize) -> Option<Self> {
        let mut tree = Self::default();
        tree.add();
        let mut open = vec![0usize];
        while let Some(at) = open.pop() {
            match reader.count()?.checked_sub(1) {
                Some(feature) => {
                    tree.features[at] = i32::try_from(feature).ok()?;
                    tree.thresholds[at] = reader.number()?;
                    let children = tree.features.len();
                    tree.next[at] = u32::try_from(children).ok()?;
                    tree.add();
                    tree.add();
                    open.extend([children + 1, children]);
                }
                None => {
                    let count = reader.count()?;
                    if count > reader.left() as u64 {
                        return None;
                    }
                    tree.next[at] = u32::try_from(tree.rows.len()).ok()?;
                    tree.counts[at] = u32::try_from(count).ok()?;
                    let mut row = 0u64;
                    for _ in 0..count {
                        row = row.checked_add(reader.count()?).filter(|row| *row < rows as u64)?;
                        tree.rows.push(u32::try_from(row).ok()?);
                    }
                }
            }
        }
        Some(tree)
    }

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

fn grow(x: &Matrix, split: &[f64], weights: &[f64], leaf_rows: usize, random: &mut Random) -> Tree {
    let mut tree = Tree::default();
    tree.add();
    let mut open = vec![(0usize, (0..split.len() as u32).collect::<Vec<u32>>())];
    while let Some((at, rows)) = open.pop() {
        match part(x, split, weights, &rows, leaf_rows, random) {
            Some((feature, threshold)) => {
                let is_left = |row: &u32| (x.at(*row as usize, feature) as f32) <= threshold;
                let (left, right): (Vec<u32>, Vec<u32>) = rows.iter().copied().partition(is_left);
                let children = tree.features.len();
                (tree.features[at], tree.thresholds[at], tree.next[at]) =
                    (feature as i32, threshold, children as u32);
                tree.add();
                tree.add();
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
    weights: &[f64],
    rows: &[u32],
    leaf_rows: usize,
    random: &mut Random,
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
        let drawn = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
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
