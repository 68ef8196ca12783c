//! The regressors reproduce scikit-learn, SciPy and XGBoost (`fixtures/regress.json`, recorded by
//! `fixtures/regress.py`).

use metier_learn::linear_algebra::DenseMatrix;
use metier_learn::regress::exact_boosting::{ExactBoostedTrees, Settings};
use metier_learn::regress::linear::{least_squares, non_negative_least_squares, polynomial_features};
use metier_learn::regress::nearest_neighbours::NearestNeighbours;
use metier_learn::regress::quantile_forest::{self, QuantileForest};
use metier_learn::regress::svr::{self, SupportVectorRegression};
use metier_learn::regress::{curve_fit, sgd};
use metier_learn::xgboost::XgboostPredictor;
use serde_json::Value;

struct Recorded {
    all: Value,
    x: DenseMatrix,
    y: Vec<f64>,
    asked: Vec<Vec<f64>>,
    truth: Vec<f64>,
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn recorded() -> Recorded {
    let all: Value = serde_json::from_str(include_str!("../fixtures/regress.json")).unwrap();
    let rows: Vec<Vec<f64>> = all["x"].as_array().unwrap().iter().map(numbers).collect();
    let train = all["train"].as_u64().unwrap() as usize;
    let y = numbers(&all["y"]);
    Recorded {
        x: DenseMatrix::from_rows(&rows[..train]).unwrap(),
        y: y[..train].to_vec(),
        asked: rows[train..].to_vec(),
        truth: y[train..].to_vec(),
        all,
    }
}

impl Recorded {
    /// The largest difference from the recorded values.
    fn off(&self, name: &str, said: impl Fn(&[f64]) -> f64) -> f64 {
        let want = numbers(&self.all[name]);
        assert_eq!(want.len(), self.asked.len());
        self.asked.iter().zip(want).map(|(row, want)| (said(row) - want).abs()).fold(0.0, f64::max)
    }
}

#[test]
fn straight_lines_are_those_of_scikit_learn() {
    let recorded = recorded();
    let line = least_squares(&recorded.x, &recorded.y).unwrap();
    assert!(recorded.off("least_squares", |row| line.predict(row)) < 1e-9);
    let line = non_negative_least_squares(&recorded.x, &recorded.y).unwrap();
    assert!(line.weights.iter().all(|weight| *weight >= 0.0) && line.weights.contains(&0.0));
    assert!(recorded.off("not_negative", |row| line.predict(row)) < 1e-6);
    let rows: Vec<Vec<f64>> =
        (0..recorded.x.rows()).map(|row| polynomial_features(recorded.x.row(row))).collect();
    let line = least_squares(&DenseMatrix::from_rows(&rows).unwrap(), &recorded.y).unwrap();
    assert!(recorded.off("polynomial", |row| line.predict(&polynomial_features(row))) < 1e-8);
}

#[test]
fn a_descent_ends_where_scikit_learns_does() {
    // scikit-learn uses another order of rows: the recorded values are the mean over 20 orders.
    let recorded = recorded();
    let line = sgd::fit_sgd(&recorded.x, &recorded.y, 1).unwrap();
    let off = recorded.off("sgd", |row| line.predict(row));
    assert!(off < 0.5, "{off}");
}

#[test]
fn neighbours_and_support_vectors_are_those_of_scikit_learn() {
    let recorded = recorded();
    let near = NearestNeighbours::fit(&recorded.x, &recorded.y, 6).unwrap();
    assert!(recorded.off("neighbours", |row| near.predict(row)) < 1e-9);
    let vectors =
        SupportVectorRegression::fit(&recorded.x, &recorded.y, svr::Settings { cost: 1.0, epsilon: 0.2 })
            .unwrap();
    let off = recorded.off("svr", |row| vectors.predict(row));
    assert!(off < 5e-3, "{off}");
}

#[test]
fn boosted_trees_are_those_of_scikit_learn_and_xgboost() {
    let recorded = recorded();
    let trees = ExactBoostedTrees::fit(&recorded.x, &recorded.y, Settings::SCIKIT, None).unwrap();
    // If two features split rows equally, scikit-learn picks one at random and this crate the
    // first: a few rows differ.
    let want = numbers(&recorded.all["gradient_boosting"]);
    let off: Vec<f64> =
        recorded.asked.iter().zip(&want).map(|(row, want)| (trees.predict(row) - want).abs()).collect();
    assert!(off.iter().sum::<f64>() / (off.len() as f64) < 0.06, "{off:?}");
    assert!(off.iter().filter(|off| **off < 1e-6).count() >= 10, "{off:?}");
    let settings = Settings { trees: 20, ..Settings::XGBOOST };
    let trees = ExactBoostedTrees::fit(&recorded.x, &recorded.y, settings, None).unwrap();
    let off = recorded.off("xgboost", |row| trees.predict(row));
    assert!(off < 1e-3, "{off}");
}

#[test]
fn a_file_for_xgboost_gives_the_same_numbers_and_boosting_goes_on_from_it() {
    let recorded = recorded();
    let ten = Settings { trees: 10, ..Settings::XGBOOST };
    let half = ExactBoostedTrees::fit(&recorded.x, &recorded.y, ten, None).unwrap();
    let whole = ExactBoostedTrees::fit(&recorded.x, &recorded.y, ten, Some(&half)).unwrap();
    let once = ExactBoostedTrees::fit(&recorded.x, &recorded.y, Settings { trees: 20, ..ten }, None).unwrap();
    assert_eq!((half.trees(), whole.trees()), (10, 20));
    assert_eq!(whole, once);
    let read = XgboostPredictor::parse(&whole.to_xgboost().to_string()).unwrap();
    for row in &recorded.asked {
        let single: Vec<f32> = row.iter().map(|value| *value as f32).collect();
        assert_eq!(f64::from(read.predict(&single)), whole.predict(row));
    }
}

#[test]
fn curves_reach_scipys_least_squares() {
    let recorded = recorded();
    let s: Vec<f64> = (0..recorded.x.rows()).map(|row| recorded.x.row(row)[0]).collect();
    type Curve = fn(&[f64], f64) -> f64;
    let curves: [(&str, Curve); 3] = [
        ("exponential", |w, s| w[0] * (w[1] * s).exp() + w[2]),
        ("logarithmic", |w, s| w[0] * (w[1] * s + 1.0).ln() + w[2]),
        ("logistic", |w, s| w[0] / (1.0 + (-w[2] * (s - w[1])).exp()) + w[3]),
    ];
    for (name, form) in curves {
        let want = recorded.all[name]["loss"].as_f64().unwrap();
        let (_, loss) =
            curve_fit::fit_curve(&s, &recorded.y, &numbers(&recorded.all[name]["start"]), form).unwrap();
        assert!(loss < want * 1.001, "{name}: {loss}, SciPy {want}");
    }
    assert!(curve_fit::fit_curve(&s, &recorded.y, &[f64::NAN, 0.0, 0.0], curves[0].1).is_err());
}

#[test]
fn a_forest_tells_quantiles_and_its_file_gives_them_back() {
    let recorded = recorded();
    let settings = quantile_forest::Settings { trees: 50, leaf_rows: 5, seed: 1 };
    let weights = vec![1.0; recorded.y.len()];
    let forest = QuantileForest::fit(&recorded.x, &recorded.y, &recorded.y, &weights, settings).unwrap();
    let mean = recorded.y.iter().sum::<f64>() / recorded.y.len() as f64;
    let (mut missed, mut plain) = (0.0, 0.0);
    for (row, truth) in recorded.asked.iter().zip(&recorded.truth) {
        let alike = forest.find_similar_rows(row);
        assert!((alike.total() - 1.0).abs() < 1e-9);
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| alike.quantile(share, |_| 1.0));
        assert!(low <= middle && middle <= high && low < high);
        missed += (middle - truth).abs();
        plain += (mean - truth).abs();
    }
    assert!(missed < 0.4 * plain, "{missed} of {plain}");
    let text = serde_json::to_string(&forest).unwrap();
    assert_eq!(serde_json::from_str::<QuantileForest>(&text).unwrap(), forest);
    for (broken, why) in [
        (r#""count":51"#, "trees"),
        (r#""count":50,"more":1,"weights":[1.0,1.0]"#, "duplicate field `weights`"),
    ] {
        let wrong = text.replace(r#""count":50"#, broken);
        let error = serde_json::from_str::<QuantileForest>(&wrong).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn rows_of_a_forest_count_what_they_are_said_to() {
    let recorded = recorded();
    let rows = recorded.y.len();
    let settings = quantile_forest::Settings { trees: 20, leaf_rows: 5, seed: 1 };
    let middle = |weights: &[f64]| {
        let forest = QuantileForest::fit(&recorded.x, &recorded.y, &recorded.y, weights, settings).unwrap();
        let said = recorded.asked.iter().map(|row| forest.find_similar_rows(row).quantile(0.5, |_| 1.0));
        said.sum::<f64>() / recorded.asked.len() as f64
    };
    let mean = recorded.y.iter().sum::<f64>() / rows as f64;
    let heavy = |is_high: bool| -> Vec<f64> {
        recorded.y.iter().map(|y| if (*y > mean) == is_high { 20.0 } else { 1.0 }).collect()
    };
    let (low, plain, high) = (middle(&heavy(false)), middle(&vec![1.0; rows]), middle(&heavy(true)));
    assert!(low < plain && plain < high, "{low} {plain} {high}");
    assert!(QuantileForest::fit(&recorded.x, &recorded.y, &recorded.y, &vec![0.0; rows], settings).is_err());
}
