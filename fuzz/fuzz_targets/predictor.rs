//! Any bytes as a power predictor, which covers all regressors of metier-learn. The file is
//! rejected, or every row gives a plausible power, and a rewritten file gives the same predictions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier_power::trainers::Predictor;

fuzz_target!(|bytes: &[u8]| {
    let Ok(predictor) = Predictor::read(bytes) else { return };
    let again = Predictor::read(&predictor.bytes()).expect("what is written can be read");
    let _ = predictor.weights();
    for value in [0.0, 0.5, -1.0, 1e300] {
        let row = vec![value; predictor.features.len()];
        let Ok(said) = predictor.predict(&row) else { continue };
        assert_eq!(Some(&said), again.predict(&row).ok().as_ref());
        for (component, watts) in said {
            assert!(watts.value.is_finite() && watts.value >= 0.0, "{component:?}: {watts:?}");
            assert!(watts.low >= 0.0 && watts.low <= watts.value && watts.value <= watts.high, "{watts:?}");
        }
    }
});
