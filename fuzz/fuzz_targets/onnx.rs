//! Any bytes as an ONNX file. The file is rejected, or it is analysed within the default limits.
//! Totals equal the sums of their parts, and the parts of a split can be read.
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
    let Ok(chain) = metier_onnx::split::Chain::new(bytes, &model, &Bindings::default(), &limits) else { return };
    if let Ok(parts) = chain.parts(&[chain.len() / 2]) {
        assert!(parts.iter().all(|part| metier_onnx::read(&part.bytes, &limits).is_ok()));
    }
});
