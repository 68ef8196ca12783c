//! If a predictor of a pipeline is unreadable, others answer.

use metier_power::catalog::{PipelineCatalog, PredictorUpload};
use metier_power::estimate::PowerEstimator;
use metier_power::node::MachineSpec;
use serde_json::{Value, json};

#[test]
fn a_predictor_that_cannot_be_read_is_left_out_and_the_next_best_answers() {
    let folder = tempfile::tempdir().unwrap();
    let (shelf, _) = PipelineCatalog::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
    let good = json!({ "pipeline": "ours", "model_name": "SGDRegressorTrainer_0", "source": "acpi", "output_type": "AbsPower", "feature_group": "BPFOnly", "mae": 5.0,
        "weights": { "platform": { "All_Weights": { "Bias_Weight": 5.0, "Numerical_Variables": {
            "bpf_cpu_time_ms": { "scale": 1000.0, "weight": 7.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 0.0 } } } } } });
    shelf.upload(&PredictorUpload::read(&good).unwrap()).unwrap();
    // The predictor with the smallest error has a truncated file.
    let torn = folder.path().join("ours/acpi/AbsPower/BPFOnly/AutoTrainer_0");
    std::fs::create_dir_all(&torn).unwrap();
    std::fs::write(torn.join("metadata.json"), r#"{"mae":0.1}"#).unwrap();
    std::fs::write(torn.join("predictor.json"), "{ torn").unwrap();
    std::fs::write(torn.with_extension("zip"), "no zip").unwrap();
    shelf.reload();
    assert_eq!(shelf.registry().named("ours").unwrap().models.len(), 2);
    let estimator = PowerEstimator::new((*shelf.registry()).clone(), MachineSpec::default()).unwrap();
    let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "values": [[1000.0, 1.0]], "output_type": "AbsPower", "source": "acpi",
        "system_features": [], "system_values": [] });
    let mut reply = Vec::new();
    assert!(
        estimator.answer(request.to_string().as_bytes(), &mut reply),
        "{}",
        String::from_utf8_lossy(&reply)
    );
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(reply["powers"]["platform"][0], 12.0, "{reply}");
    assert_eq!(estimator.in_use()[0].predictor, "SGDRegressorTrainer_0");
    assert!(estimator.broken()[0].contains("AutoTrainer_0"), "{:?}", estimator.broken());
}
