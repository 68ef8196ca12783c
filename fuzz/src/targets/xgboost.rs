//! Any text as an XGBoost predictor: it is refused, or its trees reach a leaf for every row.

use metier_learn::xgboost::XgboostPredictor;

use super::{FuzzTarget, repository_files};

pub const TARGET: FuzzTarget = FuzzTarget { name: "xgboost", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    let small = r#"{"learner":{"objective":{"name":"reg:squarederror"},"learner_model_param":{"base_score":"0.5","num_feature":"2"},"gradient_booster":{"name":"gbtree","model":{"trees":[{"split_indices":[0,0,0],"split_conditions":[0.5,1,2],"left_children":[1,-1,-1],"right_children":[2,-1,-1],"default_left":[1,0,0]}]}}}}"#;
    let mut seeds = repository_files("crates/metier-server/tests/fixtures/predictor", ".json");
    seeds.push(small.as_bytes().to_vec());
    seeds
}

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(predictor) = XgboostPredictor::parse(text) else { return };
    for value in [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 0.5, f32::MAX] {
        // Rows may be shorter than the declared width: absent features count as missing.
        let row = vec![value; predictor.width().min(64)];
        assert_eq!(predictor.predict(&row).to_bits(), predictor.predict(&row).to_bits());
    }
}
