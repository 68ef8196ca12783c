//! Any bytes as a request to Kepler's estimator. The reply is one JSON object that the exporter can
//! read: a finite number of at least 0 for each row, or none and the reason.

use std::sync::LazyLock;

use metier_power::estimate::{EstimateRequest, PowerEstimator, is_whole};
use metier_power::node::MachineSpec;
use metier_power::selection::PipelineRegistry;
use serde_json::Value;

use super::FuzzTarget;

pub const TARGET: FuzzTarget = FuzzTarget { name: "estimate", seeds, run };

/// An estimator with the shipped predictors.
static ESTIMATOR: LazyLock<PowerEstimator> =
    LazyLock::new(|| PowerEstimator::new(PipelineRegistry::default(), MachineSpec::default()).unwrap());

fn seeds() -> Vec<Vec<u8>> {
    let columns = r#""metrics":["bpf_cpu_time_ms","cpu_cycles"],"values":[[1,2],[3,4.5]],"system_features":["cpu_architecture"],"system_values":["Skylake"]"#;
    let request = |kind: &str, source: &str| {
        format!("{{{columns},\"output_type\":\"{kind}\",\"source\":\"{source}\",\"trainer_name\":\"\",\"filter\":\"mae:0.5\"}}").into_bytes()
    };
    ["AbsPower", "DynPower"]
        .iter()
        .flat_map(|kind| ["rapl-sysfs", "acpi"].map(|it| request(kind, it)))
        .collect()
}

fn run(bytes: &[u8]) {
    let mut reply = Vec::new();
    let is_answer = ESTIMATOR.answer(bytes, &mut reply);
    let reply: Value = serde_json::from_slice(&reply).expect("a reply is JSON");
    let powers = reply["powers"].as_object().expect("powers is an object");
    let reason = reply["msg"].as_str().expect("msg is a text");
    assert_eq!((is_answer, is_answer), (!powers.is_empty(), reason.is_empty()), "{reply}");
    let Ok(request) = EstimateRequest::read(bytes) else {
        assert!(!is_answer);
        return;
    };
    assert!(is_whole(bytes), "a request that can be read is known to be whole");
    for watts in powers.values() {
        let watts = watts.as_array().expect("watts are a list");
        assert_eq!(watts.len(), request.values.count);
        assert!(watts.iter().all(|watts| watts.as_f64().is_some_and(|watts| watts >= 0.0)));
    }
}
