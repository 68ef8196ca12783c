//! The power of a node through the real routes, on a simulated host: a meter of the whole machine,
//! busy processors, two commands.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use metier_linux::KernelRoots;
use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::node::MachineSpec;
use metier_server::{Config, NodePowerConfig};
use serde_json::Value;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // At once: a torn file would be a look without figures.
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

/// `/proc/stat` in place and always as long: it is held open.
fn busy(root: &Path, ticks: u64) {
    let stat = |pid: u32, name: &str, own: u64| {
        let text = format!("{pid} ({name}) R 1 1 1 0 -1 0 1 0 0 0 {own} 0 0 0 20 0 1 0 5 1000 10\n");
        put(root, &format!("proc/{pid}/stat"), &text);
    };
    stat(7, "worker", ticks * 3);
    stat(8, "helper <b>", ticks);
    let text = format!("cpu  {:<12} 0 0 5000 0 0 0 0 0 0\n", ticks * 4);
    let mut open = fs::OpenOptions::new();
    open.write(true)
        .create(true)
        .truncate(false)
        .open(root.join("proc/stat"))
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

fn host(root: &Path, has_meter: bool) {
    fs::create_dir_all(root.join("proc")).unwrap();
    fs::create_dir_all(root.join("sys")).unwrap();
    busy(root, 0);
    put(root, "proc/7/cgroup", &format!("0::/system.slice/docker-{}.scope\n", "a".repeat(64)));
    if has_meter {
        put(root, "sys/class/hwmon/hwmon0/name", "power_meter\n");
        put(root, "sys/class/hwmon/hwmon0/power1_average", "42000000\n");
    }
}

fn server(root: &Path) -> (tempfile::TempDir, Server) {
    let (folder, store) = store();
    let machine = MachineSpec {
        processor: Some("intel_xeon_gold_6230".into()),
        cores: Some(4.0),
        ..MachineSpec::default()
    };
    let (shelf, _) = PipelineCatalog::open(Vec::new(), None).unwrap();
    let estimator = Arc::new(PowerEstimator::new((*shelf.registry()).clone(), machine).unwrap());
    let roots = KernelRoots { proc: root.join("proc"), sys: root.join("sys"), etc: root.join("etc") };
    let power = NodePowerConfig { roots, interval: Duration::from_millis(50), estimator, engine: None };
    (folder, Server::with(&store, Config { power: Some(power), ..Config::default() }))
}

/// Works until there are so many entries.
fn entries(root: &Path, server: &Server, least: usize) -> Value {
    let begun = Instant::now();
    for ticks in 1.. {
        busy(root, ticks);
        let told = server.get("/api/v1/power").json();
        if told["times"].as_array().unwrap().len() >= least {
            return told;
        }
        assert!(begun.elapsed() < PATIENCE, "{told}");
        std::thread::sleep(Duration::from_millis(10));
    }
    unreachable!()
}

fn numbers(list: &Value) -> Vec<Option<f64>> {
    list.as_array().unwrap().iter().map(Value::as_f64).collect()
}

/// Idle, consumers, others and unseen of each entry.
fn sums(told: &Value) -> Vec<Option<f64>> {
    let consumers: Vec<Vec<Option<f64>>> =
        told["consumers"].as_array().unwrap().iter().map(|one| numbers(&one["watts"])).collect();
    let rest = ["idle", "others", "unseen"].map(|name| numbers(&told[name]));
    let sum = |row: usize| {
        let named: f64 = consumers.iter().filter_map(|watts| watts[row]).sum();
        Some(named + rest.iter().map(|list| list[row]).sum::<Option<f64>>()?)
    };
    (0..told["times"].as_array().unwrap().len()).map(sum).collect()
}

#[test]
fn measured_power_is_shared_and_stands_against_the_estimate() {
    let host_folder = tempfile::tempdir().unwrap();
    let root = host_folder.path();
    host(root, true);
    let (_folder, server) = server(root);
    let told = entries(root, &server, 6);
    assert_eq!(told["schema"], "metier.node-power/1");
    assert_eq!(
        (told["covers"].as_str(), &told["meters"][0]),
        (Some("platform"), &"hwmon:power_meter-power1".into())
    );
    let measured = numbers(&told["measured"]);
    assert!(measured.iter().all(|watts| (watts.unwrap() - 42.0).abs() < 0.01), "{measured:?}");
    for (sum, measured) in sums(&told).iter().zip(&measured) {
        assert!((sum.unwrap() - measured.unwrap()).abs() < 0.02, "{sum:?} {measured:?}");
    }
    let (estimated, low, high) = (numbers(&told["estimated"]), numbers(&told["low"]), numbers(&told["high"]));
    for row in 0..measured.len() {
        assert!(
            low[row].unwrap() <= estimated[row].unwrap() && estimated[row].unwrap() <= high[row].unwrap()
        );
    }
    let mean =
        measured.iter().zip(&estimated).map(|(is, said)| (is.unwrap() - said.unwrap()).abs()).sum::<f64>()
            / measured.len() as f64;
    let compared = &told["compared"];
    assert_eq!(compared["entries"], measured.len());
    assert!((compared["mae_watts"].as_f64().unwrap() - mean).abs() < 0.01, "{compared} {mean}");
    assert!(compared["inside_ratio"].is_number() && compared["bias_watts"].is_number());
    assert!(told["missing"]["measured"].is_null() && told["missing"]["bpf_page_cache_hit"].is_string());
    let by = &told["predictor"];
    assert_eq!(by["pipeline"], "fallback");
    assert!(by["origin"].as_str().unwrap().contains("published machines"), "{by}");
}

#[test]
fn without_a_meter_the_estimate_is_shared_by_what_each_works() {
    let host_folder = tempfile::tempdir().unwrap();
    let root = host_folder.path();
    host(root, false);
    let (_folder, server) = server(root);
    let told = entries(root, &server, 8);
    assert!(told["missing"]["measured"].as_str().unwrap().contains("no energy meter"), "{told}");
    assert!(numbers(&told["measured"]).iter().all(Option::is_none), "absent is not 0");
    assert_eq!((&told["compared"], &told["idle_from"]), (&Value::Null, &"predictor".into()));
    for (sum, estimated) in sums(&told).iter().zip(numbers(&told["estimated"])) {
        assert!((sum.unwrap() - estimated.unwrap()).abs() < 0.02, "{sum:?} {estimated:?}");
    }
    let consumers = told["consumers"].as_array().unwrap();
    let of = |name: &str| consumers.iter().find(|one| is(&one["name"], name)).unwrap();
    assert_eq!(of("worker")["owner"]["kind"], "container");
    assert_eq!(of("helper <b>")["owner"], Value::Null);
    let watts = |name: &str| of(name)["mean_watts"].as_f64().unwrap();
    assert!(watts("worker") > watts("helper <b>"), "three of four ticks are its own");
    let fewer = server.get("/api/v1/power?last=2&top=1").json();
    assert_eq!(
        (fewer["times"].as_array().unwrap().len(), fewer["consumers"].as_array().unwrap().len()),
        (2, 1)
    );
    assert_eq!(fewer["times"][0], 0.0);
    for wrong in ["last=0", "last=721", "top=99", "top=x", "first=1"] {
        let problem = server.get(&format!("/api/v1/power?{wrong}")).problem(400);
        assert_eq!(problem["errors"][0]["field"], wrong.split('=').next().unwrap());
    }
}

#[test]
fn predictors_are_listed_by_machine_with_the_worst_component_first_and_can_be_narrowed() {
    let host_folder = tempfile::tempdir().unwrap();
    host(host_folder.path(), false);
    let (_folder, server) = server(host_folder.path());
    let all = server.get("/api/v1/power/predictors").json();
    assert_eq!(all["schema"], "metier.power-predictor-list/1");
    let list = all["predictors"].as_array().unwrap();
    assert_eq!((list.len(), &all["total"]), (12, &12.into()), "what is shipped");
    for one in list {
        assert_eq!((&one["pipeline"], &one["machine"]["cores"]), (&"metier-defaults".into(), &40.0.into()));
        let errors: Vec<f64> = one["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| error["mae_watts"].as_f64().unwrap())
            .collect();
        assert!(!errors.is_empty() && errors.is_sorted_by(|a, b| a >= b), "{one}");
    }
    let narrow = server
        .get("/api/v1/power/predictors?source=acpi&output_type=AbsPower&feature_group=CounterOnly")
        .json();
    let names: Vec<&str> =
        narrow["predictors"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["AutoTrainer_0", "LinearRegressionTrainer_0"], "the least error first");
    let shipped = metier_power::defaults::shipped().unwrap();
    let mut models = shipped.pipeline.models.iter();
    let of = |model: &&metier_power::pipeline::PipelineModel| {
        model.full_name == "AutoTrainer_0"
            && (model.source.name(), model.group.name()) == ("acpi", "CounterOnly")
    };
    let percent = models.find(of).unwrap().error("platform_mape").unwrap();
    assert_eq!(narrow["predictors"][0]["errors"][0]["mape_ratio"], percent / 100.0);
    let page = server.get("/api/v1/power/predictors?from=11&limit=5").json();
    assert_eq!((page["predictors"].as_array().unwrap().len(), &page["total"]), (1, &12.into()));
    assert!(all["pipelines"][0]["origin"].as_str().unwrap().contains("kepler-model-db"));
    assert_eq!(all["fallback"]["class"], "intel_xeon_gold");
    for wrong in
        ["source=sun", "output_type=Power", "feature_group=Nothing", "node_type=-1", "limit=0", "usable=yes"]
    {
        let problem = server.get(&format!("/api/v1/power/predictors?{wrong}")).problem(400);
        assert_eq!(problem["errors"][0]["field"], wrong.split('=').next().unwrap());
    }
}

#[test]
fn a_server_that_does_not_look_says_so() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    for path in ["/api/v1/power", "/api/v1/power/predictors"] {
        assert!(server.get(path).problem(503)["detail"].as_str().unwrap().contains("--no-power"));
    }
}
