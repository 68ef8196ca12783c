//! A round of the online trainer on synthetic responses: promoted container predictors add up.

use std::ops::ControlFlow;

use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::isolate::PowerIsolator;
use metier_power::kepler_terms::{EnergySource, OutputType, PowerTrainer};
use metier_power::node::MachineSpec;
use metier_power::online::{self, promotions};
use metier_power::pipeline::PipelineLocation;
use metier_power::response::KeplerResponse;
use metier_power::training::{self, PipelinePlan, TrainingKnowledge};
use metier_predict::lifecycle::PromotionDecision;
use proptest::prelude::*;
use serde_json::{Value, json};

const SAMPLES: usize = 120;

/// A counter with the increments `rate` for each step of three seconds.
fn counter(labels: &Value, rate: impl Fn(usize) -> f64) -> Value {
    let mut sum = 0.0;
    let values: Vec<Value> = (0..SAMPLES)
        .map(|step| {
            sum += 3.0 * rate(step);
            json!([3 * step, sum.to_string()])
        })
        .collect();
    json!({ "metric": labels, "values": values })
}

/// A machine with `idle` W plus the power of two containers, with a bend that no linear model can
/// fit.
fn response(idle: f64, bend: f64) -> KeplerResponse {
    let load = |step: usize, one: usize| 150.0 * (((step / 4) * (3 + 4 * one)) % 7) as f64;
    let watts = |step: usize| {
        let all = load(step, 0) + load(step, 1);
        idle + 0.1 * all + bend * (all / 100.0).sqrt()
    };
    let of = |one: usize| {
        let id = ["a", "b"][one];
        json!({ "container_id": id, "pod_name": id, "container_name": id, "container_namespace": "n" })
    };
    let text = json!({
        "kepler_container_bpf_cpu_time_ms_total": [counter(&of(0), |step| load(step, 0)), counter(&of(1), |step| load(step, 1))],
        "kepler_container_bpf_page_cache_hit_total": [counter(&of(0), |_| 1.0), counter(&of(1), |step| (step % 3) as f64)],
        "kepler_node_platform_joules_total": [counter(&json!({ "source": "acpi", "mode": "dynamic" }), watts)],
    });
    KeplerResponse::read(text.to_string().as_bytes()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn what_is_promoted_for_containers_adds_up(
        idle in 20.0..300.0f64,
        bend in 0.0..20.0f64,
        rows in proptest::collection::vec((0.0..900.0f64, 0.0..3.0f64), 1..100),
        trees_only in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = online::OnlineSettings::new(folder.path().to_path_buf());
        if trees_only {
            settings.trainers = vec![PowerTrainer::Xgboost];
        }
        // The margin accepts any candidate.
        settings.margin = -1e9;
        let (shelf, _) = PipelineCatalog::open(vec![PipelineLocation::Path(folder.path().to_path_buf())], None).unwrap();
        let estimator = PowerEstimator::new((*shelf.registry()).clone(), MachineSpec::default()).unwrap();
        let now = "2026-11-17T10:00:00Z".parse().unwrap();
        let verdicts = online::round(&response(idle, bend), &estimator, &settings, now).unwrap();
        let verdict = verdicts.iter().find(|one| one.output_type == OutputType::DynPower).unwrap();
        prop_assert_eq!(verdict.decision, PromotionDecision::Promoted, "{:?}", verdict);
        let promotion = &promotions(&folder.path().join("online"))[&(EnergySource::Acpi, OutputType::DynPower)];

        shelf.reread();
        estimator.replace(shelf.registry());
        let ask = |values: &[[f64; 2]]| -> Vec<f64> {
            let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "values": values, "output_type": "DynPower",
                "source": "acpi", "system_features": [], "system_values": [] });
            let mut reply = Vec::new();
            assert!(estimator.answer(request.to_string().as_bytes(), &mut reply));
            let reply: Value = serde_json::from_slice(&reply).unwrap();
            reply["powers"]["platform"].as_array().unwrap().iter().map(|watts| watts.as_f64().unwrap()).collect()
        };
        let values: Vec<[f64; 2]> = rows.iter().map(|(time, hits)| [*time, *hits]).collect();
        let all = values.iter().fold([0.0, 0.0], |sum, row| [sum[0] + row[0], sum[1] + row[1]]);
        let (each, together) = (ask(&values).iter().sum::<f64>(), ask(&[all])[0]);
        // Replies have about six digits.
        prop_assert!((each - together).abs() <= 1e-4 * together + 1e-6, "{each} {together} {promotion:?}");
        prop_assert_eq!(ask(&[[0.0, 0.0]]), [0.0], "what does nothing takes nothing");
        let in_use = estimator.in_use();
        prop_assert!(in_use.iter().all(|one| one.pipeline == "online"), "{in_use:?}");
    }
}

#[test]
fn what_was_promoted_once_and_does_not_add_up_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let now = "2026-11-17T10:00:00Z".parse().unwrap();
    let response = response(60.0, 10.0);
    let plan = PipelinePlan {
        sources: vec![EnergySource::Acpi],
        isolator: PowerIsolator::Joint,
        abs_trainers: Vec::new(),
        dyn_trainers: vec![PowerTrainer::Xgboost],
        ..PipelinePlan::new("online", now)
    };
    let known = TrainingKnowledge { idle: None, judges: None };
    let go_on = &mut |_: training::TrainingStep<'_>| ControlFlow::Continue(());
    training::train_from_responses(std::slice::from_ref(&response), known, &plan, folder.path(), go_on)
        .unwrap();
    let (shelf, _) =
        PipelineCatalog::open(vec![PipelineLocation::Path(folder.path().to_path_buf())], None).unwrap();
    let estimator = PowerEstimator::new((*shelf.registry()).clone(), MachineSpec::default()).unwrap();
    let settings = online::OnlineSettings::new(folder.path().to_path_buf());
    // Folders of killed processes are removed; folders that may be in use stay.
    let (left, in_use) = (folder.path().join(".candidates-1"), folder.path().join(".candidates-2"));
    for folder in [&left, &in_use] {
        std::fs::create_dir(folder).unwrap();
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::open(&left).unwrap().set_modified(long_ago).unwrap();
    let of = |verdicts: Vec<online::PromotionVerdict>| {
        verdicts.into_iter().find(|one| one.output_type == OutputType::DynPower).unwrap()
    };
    let first = of(online::round(&response, &estimator, &settings, now).unwrap());
    let running = first.running.as_ref().unwrap();
    assert!(running.name.contains("Xgboost"), "{first:?}");
    assert!(running.error < first.candidate.as_ref().unwrap().error, "trees have seen these rows: {first:?}");
    assert!(first.decision == PromotionDecision::Promoted && first.because.contains("add up"), "{first:?}");
    shelf.reread();
    estimator.replace(shelf.registry());
    let second = of(online::round(&response, &estimator, &settings, now).unwrap());
    assert!(second.decision == PromotionDecision::Kept, "{second:?}");
    assert!(!left.exists() && in_use.exists());
}
