//! Boosted trees of limited depth with exact splits, for squared errors. They are grown as in
//! scikit-learn, or as in XGBoost, whose format they can be written in.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::check_training_rows;
use crate::Error;
use crate::linear_algebra::DenseMatrix;
use crate::tree_walk::{LEAF_FEATURE, SplitRule, TreeNode, find_leaf};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub trees: usize,
    /// Largest depth of a tree.
    pub depth: usize,
    /// Learning rate.
    pub rate: f64,
    /// L2 regularisation of leaf values.
    pub ridge: f64,
    /// Smallest gain of a split.
    pub gain: f64,
    /// Whether features, thresholds and leaves have single precision, as in XGBoost.
    pub single: bool,
}

impl Settings {
    /// Default settings of scikit-learn's gradient boosting.
    pub const SCIKIT: Self = Self { trees: 100, depth: 3, rate: 0.1, ridge: 0.0, gain: 0.0, single: false };
    /// Default settings of XGBoost, at rate 0.1.
    pub const XGBOOST: Self = Self { trees: 100, depth: 6, rate: 0.1, ridge: 1.0, gain: 1e-6, single: true };
}

/// One node as grown and stored: a split if it has children, else a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct ExactNode {
    feature: u32,
    /// Values below this (XGBoost) or up to this (scikit-learn) go left; a leaf's value.
    value: f64,
    /// Index of the first of two consecutive children; 0 for a leaf.
    children: u32,
    parent: u32,
    gain: f64,
    weight: f64,
    rows: u32,
}

impl From<ExactNode> for TreeNode {
    fn from(node: ExactNode) -> Self {
        let ExactNode { feature, value, children, .. } = node;
        let feature = if children == 0 { LEAF_FEATURE } else { feature };
        Self { value, feature, left: children, right: children.saturating_add(1), unknown_left: false }
    }
}

/// An initial prediction and the trees that are added to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExactBoostedTrees {
    width: usize,
    start: f64,
    single: bool,
    trees: Vec<Vec<ExactNode>>,
}

fn round_to_single(value: f64, is_single: bool) -> f64 {
    if is_single { f64::from(value as f32) } else { value }
}

impl ExactBoostedTrees {
    /// Trains trees, optionally continuing from a predictor of the same width.
    pub fn fit(x: &DenseMatrix, y: &[f64], settings: Settings, from: Option<&Self>) -> Result<Self, Error> {
        check_training_rows(x, y, 2)?;
        if settings.depth == 0 || settings.depth > 24 {
            let got = settings.depth.to_string();
            return Err(Error::Setting { field: "depth", got, want: "1 to 24" });
        }
        if let Some(from) = from.filter(|from| from.width != x.width() || from.single != settings.single) {
            let why = format!(
                "an earlier predictor of {} features; want {} of the same kind",
                from.width,
                x.width()
            );
            return Err(Error::Table { why });
        }
        let start = round_to_single(y.iter().sum::<f64>() / y.len() as f64, settings.single);
        let mut out = from.cloned().unwrap_or(Self {
            width: x.width(),
            start,
            single: settings.single,
            trees: Vec::new(),
        });
        let columns: Vec<Vec<f64>> = (0..x.width())
            .map(|column| {
                (0..y.len()).map(|row| round_to_single(x.at(row, column), settings.single)).collect()
            })
            .collect();
        let mut values: Vec<f64> = (0..y.len()).map(|row| out.predict(x.row(row))).collect();
        for _ in 0..settings.trees {
            let left: Vec<f64> = y.iter().zip(&values).map(|(y, value)| y - value).collect();
            let tree = ExactTreeGrower { columns: &columns, left: &left, settings }.grow_tree();
            for (row, value) in values.iter_mut().enumerate() {
                *value =
                    round_to_single(*value + leaf_value(&tree, x.row(row), settings.single), settings.single);
            }
            out.trees.push(tree);
        }
        Ok(out)
    }

    /// Predicts the target of a row.
    pub fn predict(&self, row: &[f64]) -> f64 {
        let add = |sum: f64, tree: &Vec<ExactNode>| {
            round_to_single(sum + leaf_value(tree, row, self.single), self.single)
        };
        self.trees.iter().fold(self.start, add)
    }

    /// Number of trees.
    pub fn trees(&self) -> usize {
        self.trees.len()
    }

    /// The file format of XGBoost 2 and later.
    pub fn to_xgboost(&self) -> Value {
        let trees: Vec<Value> =
            self.trees.iter().enumerate().map(|(id, tree)| tree_json(id, tree, self.width)).collect();
        let count = trees.len();
        json!({
            "learner": {
                "attributes": {}, "feature_names": [], "feature_types": [],
                "gradient_booster": {
                    "model": {
                        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": count.to_string()},
                        "iteration_indptr": (0..=count).collect::<Vec<_>>(),
                        "tree_info": vec![0; count], "trees": trees,
                    },
                    "name": "gbtree",
                },
                "learner_model_param": {
                    "base_score": format!("{:E}", self.start as f32), "boost_from_average": "1",
                    "num_class": "0", "num_feature": self.width.to_string(), "num_target": "1",
                },
                "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
            },
            "version": [2, 1, 0],
        })
    }
}

fn tree_json(id: usize, tree: &[ExactNode], width: usize) -> Value {
    let count = tree.len();
    let child = |place: &ExactNode, other: i64| {
        if place.children == 0 { -1 } else { i64::from(place.children) + other }
    };
    let parent = |(at, place): (usize, &ExactNode)| {
        if at == 0 { i64::from(i32::MAX) } else { i64::from(place.parent) }
    };
    json!({
        "base_weights": tree.iter().map(|place| place.weight as f32).collect::<Vec<_>>(),
        "categories": [], "categories_nodes": [], "categories_segments": [], "categories_sizes": [],
        "default_left": vec![0; count], "id": id,
        "left_children": tree.iter().map(|place| child(place, 0)).collect::<Vec<_>>(),
        "loss_changes": tree.iter().map(|place| place.gain as f32).collect::<Vec<_>>(),
        "parents": tree.iter().enumerate().map(parent).collect::<Vec<_>>(),
        "right_children": tree.iter().map(|place| child(place, 1)).collect::<Vec<_>>(),
        "split_conditions": tree.iter().map(|place| place.value as f32).collect::<Vec<_>>(),
        "split_indices": tree.iter().map(|place| place.feature).collect::<Vec<_>>(),
        "split_type": vec![0; count],
        "sum_hessian": tree.iter().map(|place| place.rows as f32).collect::<Vec<_>>(),
        "tree_param": {"num_deleted": "0", "num_feature": width.to_string(), "num_nodes": count.to_string(), "size_leaf_vector": "1"},
    })
}

fn leaf_value(tree: &[ExactNode], row: &[f64], is_single: bool) -> f64 {
    let value_of = |feature: usize| round_to_single(row.get(feature).copied().unwrap_or(f64::NAN), is_single);
    find_leaf(tree, split_rule(is_single), value_of).map_or(0.0, |leaf| tree[leaf].value)
}

fn split_rule(is_single: bool) -> SplitRule {
    if is_single { SplitRule::Below } else { SplitRule::UpTo }
}

struct ExactTreeGrower<'a> {
    columns: &'a [Vec<f64>],
    left: &'a [f64],
    settings: Settings,
}

struct ExactSplit {
    gain: f64,
    feature: usize,
    value: f64,
}

impl ExactTreeGrower<'_> {
    fn grow_tree(&self) -> Vec<ExactNode> {
        let empty =
            ExactNode { feature: 0, value: 0.0, children: 0, parent: 0, gain: 0.0, weight: 0.0, rows: 0 };
        let mut places = vec![empty];
        let mut open: Vec<(usize, usize, Vec<u32>)> = vec![(0, 0, (0..self.left.len() as u32).collect())];
        let mut next = 0;
        while next < open.len() {
            let (place, depth, rows) = (open[next].0, open[next].1, std::mem::take(&mut open[next].2));
            next += 1;
            let sum: f64 = rows.iter().map(|row| self.left[*row as usize]).sum();
            let weight = sum / (rows.len() as f64 + self.settings.ridge);
            places[place].rows = rows.len() as u32;
            places[place].weight = weight;
            places[place].value = round_to_single(weight * self.settings.rate, self.settings.single);
            let split = if depth < self.settings.depth { self.find_best_split(&rows, sum) } else { None };
            let Some(split) = split else { continue };
            let column = &self.columns[split.feature];
            let is_left = |row: &u32| {
                let value = column[*row as usize];
                if self.settings.single { value < split.value } else { value <= split.value }
            };
            let (lefts, rights): (Vec<u32>, Vec<u32>) = rows.iter().copied().partition(is_left);
            let children = places.len();
            places.extend([ExactNode { parent: place as u32, ..empty }; 2]);
            let own = &mut places[place];
            (own.feature, own.value, own.children, own.gain) =
                (split.feature as u32, split.value, children as u32, split.gain);
            open.push((children, depth + 1, lefts));
            open.push((children + 1, depth + 1, rights));
        }
        places
    }

    fn find_best_split(&self, rows: &[u32], sum: f64) -> Option<ExactSplit> {
        let ridge = self.settings.ridge;
        let worth = |sum: f64, count: f64| sum * sum / (count + ridge);
        let whole = worth(sum, rows.len() as f64);
        let mut best: Option<ExactSplit> = None;
        let mut sorted: Vec<(f64, f64)> = Vec::with_capacity(rows.len());
        for (feature, column) in self.columns.iter().enumerate() {
            sorted.clear();
            sorted.extend(rows.iter().map(|row| (column[*row as usize], self.left[*row as usize])));
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut left = 0.0;
            for at in 1..sorted.len() {
                left += sorted[at - 1].1;
                let (low, high) = (sorted[at - 1].0, sorted[at].0);
                if low == high {
                    continue;
                }
                let gain = worth(left, at as f64) + worth(sum - left, (sorted.len() - at) as f64) - whole;
                if gain > self.settings.gain.max(1e-12 * whole)
                    && best.as_ref().is_none_or(|best| gain > best.gain)
                {
                    best = Some(ExactSplit { gain, feature, value: self.split_threshold(low, high) });
                }
            }
        }
        best
    }

    /// A threshold between two values; in single precision the upper value if no number lies
    /// between.
    fn split_threshold(&self, low: f64, high: f64) -> f64 {
        let middle = round_to_single(low + (high - low) / 2.0, self.settings.single);
        match self.settings.single {
            true if middle <= low => high,
            false if middle >= high => low,
            _ => middle,
        }
    }
}
