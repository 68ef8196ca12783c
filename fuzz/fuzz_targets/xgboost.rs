//! Any text as an XGBoost predictor: it is rejected, or its trees reach a leaf for every row.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier_learn::xgboost::XGBoost;

fuzz_target!(|text: &str| {
    let Ok(predictor) = XGBoost::read(text) else { return };
    for value in [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 0.5, f32::MAX] {
        // Rows may be shorter than the declared width: absent features count as missing.
        let row = vec![value; predictor.width().min(64)];
        assert_eq!(predictor.predict(&row).to_bits(), predictor.predict(&row).to_bits());
    }
});
