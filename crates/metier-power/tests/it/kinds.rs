//! Tests of the estimator's cache: each request kind is separate, and replaced pipelines are not
//! used.

use std::sync::{Arc, Barrier};

use metier_power::catalog::{PipelineCatalog, PredictorUpload};
use metier_power::estimate::PowerEstimator;
use metier_power::node::MachineSpec;
use metier_power::selection::PipelineRegistry;
use serde_json::{Value, json};

/// A pipeline with one linear predictor with this constant.
fn registry(bias: f64) -> Arc<PipelineRegistry> {
    let folder = tempfile::tempdir().unwrap();
    let (shelf, _) = PipelineCatalog::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
    let upload = json!({ "pipeline": "ours", "model_name": "SGDRegressorTrainer_0", "source": "acpi", "output_type": "AbsPower", "feature_group": "BPFOnly",
        "mae": 1.0, "weights": { "platform": { "All_Weights": { "Bias_Weight": bias, "Numerical_Variables": {
            "bpf_cpu_time_ms": { "scale": 1.0, "weight": 1.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 100.0 } } } } } });
    shelf.upload(&PredictorUpload::read(&upload).unwrap()).unwrap();
    shelf.registry()
}

fn estimator(registry: &PipelineRegistry) -> PowerEstimator {
    PowerEstimator::new(registry.clone(), MachineSpec::default()).unwrap()
}

fn watts(estimator: &PowerEstimator, metrics: &[&str], row: &[f64], system: (&[&str], &[f64])) -> f64 {
    let request = json!({ "metrics": metrics, "values": [row], "output_type": "AbsPower", "source": "acpi", "system_features": system.0,
        "system_values": system.1 });
    let mut reply = Vec::new();
    estimator.answer(request.to_string().as_bytes(), &mut reply);
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    reply["powers"]["platform"][0].as_f64().unwrap()
}

#[test]
fn where_metrics_end_and_values_of_the_system_begin_makes_another_kind() {
    let estimator = estimator(&registry(0.0));
    let (time, hits) = ("bpf_cpu_time_ms", "bpf_page_cache_hit");
    for _ in 0..2 {
        assert_eq!(watts(&estimator, &[time, hits], &[5.0, 2.0], (&["x"], &[7.0])), 205.0);
        assert_eq!(watts(&estimator, &[time], &[5.0], (&[hits, "x"], &[3.0, 7.0])), 305.0);
        assert_eq!(watts(&estimator, &[], &[], (&[time, hits, "x"], &[6.0, 4.0, 7.0])), 406.0);
    }
}

#[test]
fn what_was_found_in_pipelines_that_are_gone_answers_once_at_most() {
    let (one, other) = (registry(1.0), registry(2.0));
    let estimator = estimator(&one);
    let ask = || watts(&estimator, &["bpf_cpu_time_ms", "bpf_page_cache_hit"], &[0.0, 0.0], (&[], &[]));
    // Hitting the race between selection and caching is random; the rule that replaced pipelines
    // answer no more is checked in every round.
    for round in 0..500 {
        let (next, want) = if round % 2 == 0 { (&other, 2.0) } else { (&one, 1.0) };
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                ask();
            });
            both.wait();
            estimator.replace(next.clone());
        });
        assert_eq!(ask(), want, "round {round}");
    }
}
