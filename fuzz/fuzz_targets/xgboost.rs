//! Any text as a predictor of XGBoost: it is refused, or its trees lead somewhere for every row.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier_learn::xgboost::XGBoost;

fuzz_target!(|text: &str| {
    let Ok(predictor) = XGBoost::read(text) else { return };
    for value in [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 0.5, f32::MAX] {
        // Rows may be shorter than the file says: what is not there is not known.
        let row = vec![value; predictor.width().min(64)];
        assert_eq!(predictor.predict(&row).to_bits(), predictor.predict(&row).to_bits());
    }
});
