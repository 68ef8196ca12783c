//! Reads predictors in XGBoost's JSON format, and reproduces XGBoost's predictions bit by bit.
//!
//! Supported are `gbtree` and `dart` boosters of one output with numeric splits. The output of the
//! objective must be the sum itself (`reg:squarederror`, `reg:absoluteerror`, …), its exponential
//! (`count:poisson`, `reg:gamma`, `reg:tweedie`) or its logistic (`reg:logistic`,
//! `binary:logistic`). Like XGBoost, this module compares and adds in single precision, in the
//! order of the trees. Files are read within limits, and children must follow their parent.

use serde_json::Value;

use crate::Error;
use crate::tree_walk::{LEAF_FEATURE, SplitRule, TreeNode, find_leaf};

/// Largest number of nodes of all trees together.
const MAX_TREE_NODES: usize = 20_000_000;

/// Link function applied to the sum of all leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkFunction {
    Identity,
    Exponential,
    Logistic,
}

/// A predictor trained by XGBoost.
#[derive(Debug, Clone, PartialEq)]
pub struct XgboostPredictor {
    /// Names of the features, if the file has them.
    pub names: Vec<String>,
    features: usize,
    base: f32,
    link: LinkFunction,
    trees: Vec<(f32, Vec<TreeNode>)>,
}

fn file_error<T>(field: impl Into<String>, why: impl Into<String>) -> Result<T, Error> {
    Err(Error::File { field: field.into(), why: why.into() })
}

fn find_path<'a>(value: &'a Value, path: &str) -> Result<&'a Value, Error> {
    let mut inner = value;
    for key in path.split('.') {
        match inner.get(key) {
            Some(next) => inner = next,
            None => return file_error(path, "is missing"),
        }
    }
    Ok(inner)
}

/// A number that XGBoost writes as a number, as a text, or (base scores since version 3) as a list
/// of one in a text.
fn parse_number(value: &Value, field: &str) -> Result<f64, Error> {
    let parsed = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().trim_start_matches('[').trim_end_matches(']').trim().parse().ok(),
        _ => None,
    };
    match parsed.filter(|number: &f64| number.is_finite()) {
        Some(number) => Ok(number),
        None => file_error(field, format!("is {value}; want a number")),
    }
}

fn tree_list<'a>(tree: &'a Value, field: &str, number: usize) -> Result<&'a Vec<Value>, Error> {
    match tree.get(field).and_then(Value::as_array) {
        Some(list) => Ok(list),
        None => file_error(format!("trees[{number}].{field}"), "is no list"),
    }
}

impl XgboostPredictor {
    /// Parses a file's text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: Value = match serde_json::from_str(text) {
            Ok(file) => file,
            Err(error) => return file_error("text", format!("is no JSON: {error}")),
        };
        let learner = find_path(&file, "learner")?;
        let objective = find_path(learner, "objective.name")?.as_str().unwrap_or_default();
        let link = match objective {
            "count:poisson" | "reg:gamma" | "reg:tweedie" => LinkFunction::Exponential,
            "reg:logistic" | "binary:logistic" => LinkFunction::Logistic,
            "binary:logitraw" => LinkFunction::Identity,
            other if other.starts_with("reg:") => LinkFunction::Identity,
            other => {
                return file_error(
                    "learner.objective.name",
                    format!("is {other:?}; want a regression of one output"),
                );
            }
        };
        let about = find_path(learner, "learner_model_param")?;
        for (field, want) in [("num_target", 1.0), ("num_class", 0.0)] {
            if let Some(value) = about.get(field)
                && !(parse_number(value, field)? == want
                    || (field == "num_class" && parse_number(value, field)? == 1.0))
            {
                return file_error(
                    format!("learner.learner_model_param.{field}"),
                    "asks for several outputs; want one",
                );
            }
        }
        let base =
            parse_number(find_path(about, "base_score")?, "learner.learner_model_param.base_score")? as f32;
        let features =
            parse_number(find_path(about, "num_feature")?, "learner.learner_model_param.num_feature")?
                as usize;
        // The file stores the base score as a prediction; trees are added before the link function.
        let base = match link {
            LinkFunction::Identity => base,
            LinkFunction::Exponential => base.ln(),
            LinkFunction::Logistic => -(1.0 / base - 1.0).ln(),
        };
        let booster = find_path(learner, "gradient_booster")?;
        let name = find_path(booster, "name")?;
        let (trees, weights) = match name.as_str() {
            Some("gbtree") => (find_path(booster, "model.trees")?, None),
            Some("dart") => {
                (find_path(booster, "gbtree.model.trees")?, Some(find_path(booster, "weight_drop")?))
            }
            _ => {
                return file_error(
                    "learner.gradient_booster.name",
                    format!("is {name}; want gbtree or dart"),
                );
            }
        };
        let Some(trees) = trees.as_array() else {
            return file_error("learner.gradient_booster.model.trees", "is no list");
        };
        let mut read = Vec::with_capacity(trees.len());
        let mut places = 0;
        for (number_of, tree) in trees.iter().enumerate() {
            let own = parse_tree(tree, number_of, features)?;
            places += own.len();
            if places > MAX_TREE_NODES {
                return file_error(
                    "learner.gradient_booster.model.trees",
                    format!("hold more than {MAX_TREE_NODES} places"),
                );
            }
            let weight = match weights {
                Some(weights) => {
                    parse_number(weights.get(number_of).unwrap_or(&Value::Null), "weight_drop")? as f32
                }
                None => 1.0,
            };
            read.push((weight, own));
        }
        let names = learner.get("feature_names").and_then(Value::as_array);
        let names = names.map(|names| names.iter().filter_map(Value::as_str).map(str::to_string).collect());
        Ok(Self { names: names.unwrap_or_default(), features, base, link, trees: read })
    }

    /// Number of features of a row.
    pub fn width(&self) -> usize {
        self.features
    }

    /// Number of trees.
    pub fn trees(&self) -> usize {
        self.trees.len()
    }

    /// Predicts the target of a row; an unknown feature is NaN.
    pub fn predict(&self, row: &[f32]) -> f32 {
        let mut sum = self.base;
        for (weight, tree) in &self.trees {
            sum += weight * leaf_value(tree, row);
        }
        match self.link {
            LinkFunction::Identity => sum,
            LinkFunction::Exponential => sum.exp(),
            LinkFunction::Logistic => 1.0 / (1.0 + (-sum).exp()),
        }
    }
}

fn leaf_value(tree: &[TreeNode], row: &[f32]) -> f32 {
    let value_of = |feature| row.get(feature).copied().map_or(f64::NAN, f64::from);
    find_leaf(tree, SplitRule::Below, value_of).map_or(0.0, |leaf| tree[leaf].value as f32)
}

fn parse_tree(tree: &Value, number_of: usize, features: usize) -> Result<Vec<TreeNode>, Error> {
    let lists = ["split_indices", "split_conditions", "left_children", "right_children", "default_left"];
    let [indices, conditions, lefts, rights, defaults] = lists.map(|field| tree_list(tree, field, number_of));
    let (indices, conditions, lefts, rights, defaults) = (indices?, conditions?, lefts?, rights?, defaults?);
    let count = conditions.len();
    if [indices.len(), lefts.len(), rights.len(), defaults.len()].iter().any(|length| *length != count)
        || count == 0
    {
        return file_error(format!("trees[{number_of}]"), "has lists of different lengths");
    }
    if let Some(types) = tree.get("split_type").and_then(Value::as_array)
        && types.iter().any(|kind| kind.as_i64() != Some(0))
    {
        return file_error(
            format!("trees[{number_of}].split_type"),
            "splits by category; want numeric splits only",
        );
    }
    let mut places = Vec::with_capacity(count);
    for place in 0..count {
        let field = |name: &str| format!("trees[{number_of}].{name}[{place}]");
        let whole =
            |value: &Value, name: &str| match value.as_i64().and_then(|number| i32::try_from(number).ok()) {
                Some(number) => Ok(number),
                None => file_error(field(name), format!("is {value}; want a whole number")),
            };
        let (left, right) =
            (whole(&lefts[place], "left_children")?, whole(&rights[place], "right_children")?);
        let is_leaf = left < 0;
        let leads = |child: i32| usize::try_from(child).is_ok_and(|child| child > place && child < count);
        let leads_on = leads(left) && leads(right);
        if !is_leaf && !leads_on {
            return file_error(
                field("left_children"),
                format!("leads to {left} and {right}; want places behind it below {count}"),
            );
        }
        let feature = whole(&indices[place], "split_indices")?;
        if !is_leaf && usize::try_from(feature).map_or(true, |feature| feature >= features.max(1)) {
            return file_error(
                field("split_indices"),
                format!("is {feature}; want one of {features} features"),
            );
        }
        let Some(value) = conditions[place].as_f64() else {
            return file_error(field("split_conditions"), "is no number");
        };
        let unknown_left = match &defaults[place] {
            Value::Bool(value) => *value,
            other => other.as_i64() == Some(1),
        };
        // XGBoost compares in single precision.
        let value = f64::from(value as f32);
        let feature = if is_leaf { LEAF_FEATURE } else { feature as u32 };
        places.push(TreeNode { value, feature, left: left as u32, right: right as u32, unknown_left });
    }
    Ok(places)
}
