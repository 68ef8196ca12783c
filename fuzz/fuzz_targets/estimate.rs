//! Any bytes as a request to Kepler's estimator. The reply is one JSON object that the exporter can
//! read: a finite number of at least 0 for each row, or none and the reason.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use metier_power::estimate::{Estimator, Request, is_whole};
use metier_power::node::MachineSpec;
use metier_power::selection::Registry;
use serde_json::Value;

/// An estimator with the shipped predictors.
static ESTIMATOR: LazyLock<Estimator> = LazyLock::new(|| {
    Estimator::new(Registry::default(), MachineSpec::default()).expect("what is shipped can be read")
});

fuzz_target!(|bytes: &[u8]| {
    let mut reply = Vec::new();
    let is_answer = ESTIMATOR.answer(bytes, &mut reply);
    let reply: Value = serde_json::from_slice(&reply).expect("a reply is JSON");
    let powers = reply["powers"].as_object().expect("powers is an object");
    let why = reply["msg"].as_str().expect("msg is a text");
    assert_eq!((is_answer, is_answer), (!powers.is_empty(), why.is_empty()), "{reply}");
    let Ok(request) = Request::read(bytes) else {
        assert!(!is_answer);
        return;
    };
    assert!(is_whole(bytes), "a request that can be read is known to be whole");
    assert_eq!(request.values.numbers.len(), request.values.count * request.metrics.len());
    for watts in powers.values() {
        let watts = watts.as_array().expect("watts are a list");
        assert_eq!(watts.len(), request.values.count);
        assert!(watts.iter().all(|watts| watts.as_f64().is_some_and(|watts| watts >= 0.0)));
    }
});
