//! Any bytes as an ONNX file: it is refused, or read and analysed within the default limits, and the sums are the sums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier_onnx::{Bindings, Limits};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let Ok(model) = metier_onnx::read(bytes, &limits) else { return };
    let Ok(analysis) = metier_onnx::analyse(&model, &Bindings::default(), &limits) else { return };
    let kinds = analysis.kinds.values();
    assert_eq!(kinds.clone().map(|kind| kind.multiply_adds).sum::<u64>(), analysis.multiply_adds);
    assert_eq!(kinds.map(|kind| kind.operators).sum::<u64>(), analysis.operators.len() as u64);
    assert!(serde_json::to_string(&analysis).is_ok());
});
