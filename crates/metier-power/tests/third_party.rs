//! Third-party metrics, from the Prometheus response to the estimator's reply. A process has one
//! list of them, so this is a separate test program.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::ops::ControlFlow;

use metier_power::estimate::PowerEstimator;
use metier_power::extract::{self, ExtractSettings};
use metier_power::kepler_terms::{EnergySource, FeatureGroup, PowerTrainer};
use metier_power::node::MachineSpec;
use metier_power::response::KeplerResponse;
use metier_power::selection::PipelineRegistry;
use metier_power::third_party;
use metier_power::training::{self, PipelinePlan, TrainingKnowledge};
use serde_json::{Value, json};

const SAMPLES: usize = 80;

fn names() -> Vec<String> {
    ["node_disk_io_total", "app_requests_total"].map(str::to_string).to_vec()
}

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

/// 40 W, and a watt for every ten requests and every disk access per second.
fn response() -> KeplerResponse {
    let requests = |step: usize| 50.0 + 37.0 * (step % 11) as f64;
    let disk = |step: usize| 3.0 + 2.0 * (step % 7) as f64;
    let container = json!({ "container_id": "c", "pod_name": "p", "container_name": "web", "container_namespace": "n", "job": "app" });
    let text = json!({
        "kepler_container_bpf_cpu_time_ms_total": [counter(&container, |_| 100.0)],
        "kepler_container_bpf_page_cache_hit_total": [counter(&container, |_| 1.0)],
        "app_requests_total": [counter(&container, requests)],
        // A series of the machine, not of a container.
        "node_disk_io_total": [counter(&json!({ "job": "node" }), disk)],
        "kepler_node_platform_joules_total":
            [counter(&json!({ "source": "acpi", "mode": "dynamic" }), |step| 40.0 + requests(step) / 10.0 + disk(step))],
    });
    KeplerResponse::read(text.to_string().as_bytes()).unwrap()
}

#[test]
fn metrics_of_others_are_a_group_that_is_learned_from_and_answers() {
    assert!(FeatureGroup::ThirdParty.features().is_empty());
    assert!(!extract::groups(&response(), false).contains(&FeatureGroup::ThirdParty));
    assert!(!FeatureGroup::ThirdParty.is_within(&["app_requests_total"]));
    let before = training::check(
        &extract::extract(&response(), &ExtractSettings::new(EnergySource::Acpi, FeatureGroup::BpfOnly))
            .unwrap()
            .frame,
        EnergySource::Acpi,
        FeatureGroup::ThirdParty,
    );
    assert!(before.unwrap_err().to_string().contains("thirdparty-metrics"));
    for wrong in ["cpu_cycles", "2nd", "a b", "their_power", ""] {
        let error = third_party::set(&[wrong.to_string()]).unwrap_err().to_string();
        assert!(error.contains("thirdparty-metrics") && error.contains(wrong), "{error}");
    }
    third_party::set(&[]).unwrap();
    third_party::set(&names()).unwrap();
    third_party::set(&names()).unwrap();
    assert!(third_party::set(&["other".to_string()]).is_err(), "groups do not change under predictors");

    let group = FeatureGroup::ThirdParty;
    assert_eq!((group.id(), group.features()), (10, &["app_requests_total", "node_disk_io_total"][..]));
    assert_eq!(FeatureGroup::ALL.last(), Some(&group));
    let workload = FeatureGroup::WorkloadOnly.features();
    assert!(workload.is_sorted() && workload.len() == 11 && workload.contains(&"app_requests_total"));
    assert_eq!(extract::groups(&response(), false), [FeatureGroup::BpfOnly, group]);

    let table =
        extract::extract(&response(), &ExtractSettings::new(EnergySource::Acpi, group)).unwrap().frame;
    let (requests, disk) =
        (table.need("app_requests_total").unwrap(), table.need("node_disk_io_total").unwrap());
    assert_eq!(table.len(), SAMPLES - 1);
    assert!((requests[0] - 87.0).abs() < 1e-9 && (disk[0] - 5.0).abs() < 1e-9, "{} {}", requests[0], disk[0]);

    let folder = tempfile::tempdir().unwrap();
    let plan = PipelinePlan {
        sources: vec![EnergySource::Acpi],
        groups: vec![group],
        abs_trainers: vec![PowerTrainer::Linear],
        dyn_trainers: vec![PowerTrainer::Sgd],
        ..PipelinePlan::new("mine", "2026-11-17T10:00:00Z".parse().unwrap())
    };
    let known = TrainingKnowledge { idle: None, judges: None };
    let outcome = training::train_from_responses(&[response()], known, &plan, folder.path(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(outcome.entries.len(), 2, "{:?}", outcome.warnings);
    assert!(outcome.entries.iter().all(|entry| entry.group == group));

    let loaded = PipelineRegistry::load(&[outcome.folder]);
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let estimator = PowerEstimator::new(loaded.registry, MachineSpec::default()).unwrap();
    let mut reply = Vec::new();
    let request = json!({
        "metrics": ["node_disk_io_total", "bpf_cpu_time_ms", "app_requests_total"], "values": [[10.0, 100.0, 200.0]],
        "output_type": "AbsPower", "source": "acpi", "system_features": [], "system_values": [],
    });
    assert!(estimator.answer(request.to_string().as_bytes(), &mut reply));
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    let watts = reply["powers"]["platform"][0].as_f64().unwrap();
    assert!((watts - 70.0).abs() < 0.5, "{reply}");
    assert_eq!(estimator.in_use()[0].group, "ThirdParty");
}
