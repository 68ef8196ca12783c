//! Published XGBoost predictors give the recorded numbers bit by bit. The files are real data
//! beside the project; without them only the small file here is checked.

use std::path::PathBuf;

use metier_learn::xgboost::XgboostPredictor;
use serde_json::{Value, json};

fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/kepler");
    if !folder.exists() {
        eprintln!("SKIP: published XGBoost predictors, because ../shared/data/kepler is not there");
        return None;
    }
    Some(folder)
}

#[test]
fn published_predictors_give_the_recorded_numbers_to_the_last_bit() {
    let Some(folder) = shared() else { return };
    let text = std::fs::read_to_string(folder.join("golden/predictions.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for entry in golden.as_array().unwrap() {
        let name = entry["model"].as_str().unwrap();
        let Some(node) = name.strip_prefix("XgboostFitTrainer_") else { continue };
        let pipeline = entry["path"].as_str().unwrap().split('/').next().unwrap();
        let files = folder.join(pipeline).join(format!("xgboost_AbsPower_BPFOnly_{node}"));
        let scale: Vec<f64> =
            entry["scale"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        for (component, powers) in entry["powers"].as_object().unwrap() {
            let path = files.join(format!("{component}.json"));
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let predictor =
                XgboostPredictor::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for (row, want) in entry["inputs"].as_array().unwrap().iter().zip(powers.as_array().unwrap()) {
                let row: Vec<f32> = row
                    .as_array()
                    .unwrap()
                    .iter()
                    .zip(&scale)
                    .map(|(value, scale)| (value.as_f64().unwrap() / scale) as f32)
                    .collect();
                let said = f64::from(predictor.predict(&row)).max(0.0);
                assert_eq!(
                    said.to_bits(),
                    want.as_f64().unwrap().to_bits(),
                    "{pipeline} {name} {component}: {said} {want}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared >= 81, "only {compared} predictions were compared");
}

/// One tree with one split, as XGBoost writes it.
fn small() -> Value {
    json!({ "learner": {
        "feature_names": ["a", "b"],
        "gradient_booster": { "name": "gbtree", "model": { "trees": [{
            "split_indices": [1, 0, 0], "split_conditions": [0.5, -2.0, 3.0], "left_children": [1, -1, -1],
            "right_children": [2, -1, -1], "default_left": [1, 0, 0], "split_type": [0, 0, 0]
        }] } },
        "learner_model_param": { "base_score": "[1E0]", "num_class": "0", "num_feature": "2", "num_target": "1" },
        "objective": { "name": "reg:squarederror" }
    } })
}

#[test]
fn a_row_goes_left_below_the_threshold_and_where_the_feature_is_not_known() {
    let predictor = XgboostPredictor::parse(&small().to_string()).unwrap();
    assert_eq!(predictor.names, ["a", "b"]);
    for (row, want) in [([0.0, 0.4999], -1.0), ([0.0, 0.5], 4.0), ([0.0, f32::NAN], -1.0)] {
        assert_eq!(predictor.predict(&row), want, "{row:?}");
    }
}

#[test]
fn files_that_are_not_one_are_refused_by_field() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut file = small();
        change(&mut file);
        XgboostPredictor::parse(&file.to_string()).unwrap_err().to_string()
    };
    let tree = |file: &mut Value, field: &str, value: Value| {
        file["learner"]["gradient_booster"]["model"]["trees"][0][field] = value;
    };
    assert!(XgboostPredictor::parse("{").unwrap_err().to_string().contains("is no JSON"));
    assert!(
        changed(&|file| file["learner"]["objective"]["name"] = json!("multi:softmax"))
            .contains("objective.name")
    );
    let linear = changed(&|file| file["learner"]["gradient_booster"]["name"] = json!("gblinear"));
    assert!(linear.ends_with("gradient_booster.name is \"gblinear\"; want gbtree or dart"), "{linear}");
    // A node that is its own child would never end.
    assert!(changed(&|file| tree(file, "left_children", json!([0, -1, -1]))).contains("left_children[0]"));
    assert!(
        changed(&|file| tree(file, "right_children", json!([9, -1, -1]))).contains("want places behind it")
    );
    assert!(changed(&|file| tree(file, "split_indices", json!([7, 0, 0]))).contains("split_indices[0]"));
    assert!(changed(&|file| tree(file, "split_type", json!([1, 0, 0]))).contains("by category"));
    assert!(changed(&|file| tree(file, "default_left", json!([1]))).contains("different lengths"));
    assert!(
        changed(&|file| file["learner"]["learner_model_param"]["num_target"] = json!("2"))
            .contains("several outputs")
    );
}
