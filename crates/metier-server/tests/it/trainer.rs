//! The offline trainer over real connections: requests and responses of Kepler's clients, trainings
//! as jobs, and errors by field.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use metier_power::catalog::PipelineCatalog;
use metier_power::kepler_terms::{OutputType, PowerComponent};
use metier_power::pipeline::{self};
use metier_server::AccessToken;
use metier_server::kepler::{BackgroundServices, KeplerServices};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-that-is-long";

fn open(listen: &str, token: Option<&str>) -> Result<BackgroundServices, metier_server::Error> {
    let (shelf, _) = PipelineCatalog::open(Vec::new(), None).unwrap();
    let doors = KeplerServices {
        trainer: Some(listen.parse().unwrap()),
        token: token.map(|token| AccessToken::new(token).unwrap()),
        ..KeplerServices::new(Arc::new(shelf))
    };
    doors.run_in_background()
}

fn ask(address: SocketAddr, line: &str, headers: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&reply[..end]).to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, reply[end + 4..].to_vec())
}

const JSON: &str = "Content-Type: application/json\r\n";

fn train(address: SocketAddr, query: &str, body: &Value) -> (u16, String, Vec<u8>) {
    ask(address, &format!("POST /train{query}"), JSON, body.to_string().as_bytes())
}

fn get(address: SocketAddr, path: &str) -> (u16, Value) {
    let (status, _, body) = ask(address, &format!("GET {path}"), "", b"");
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// A machine that takes 50 W, and 0.03 W for each millisecond of processor time a second, as its
/// Prometheus tells it.
fn response() -> Value {
    let times = || (0..120).map(|row| 1_700_000_000 + row * 3);
    let load = |row: usize| 100.0 + 40.0 * (row * 7 % 23) as f64;
    let counter = |rate: &dyn Fn(usize) -> f64| -> Vec<Value> {
        let mut sum = 0.0;
        times()
            .enumerate()
            .map(|(row, time)| {
                sum += 3.0 * rate(row);
                json!([time, format!("{sum}")])
            })
            .collect()
    };
    let container = |rate: &dyn Fn(usize) -> f64| json!([{ "metric": { "container_id": "a", "pod_name": "p", "container_name": "work", "container_namespace": "n", "job": "kepler" }, "values": counter(rate) }]);
    json!({
        "kepler_container_bpf_cpu_time_ms_total": container(&load),
        "kepler_container_bpf_page_cache_hit_total": container(&|row| (row % 5) as f64),
        "kepler_node_platform_joules_total": [{ "metric": { "source": "acpi", "mode": "dynamic" }, "values": counter(&|row| 50.0 + 0.03 * load(row)) }],
    })
}

fn body(name: &str, trainers: &[&str]) -> Value {
    json!({ "name": name, "energy_source": "acpi", "prom_response": response(), "trainer": { "abs_trainers": trainers, "dyn_trainers": trainers,
        "isolator": "MinIdleIsolator", "isolator_args": {}, "idle_prom_response": {} } })
}

/// Waits until that holds; a minute at most.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn five_rows_are_learned_from_and_reasons_are_said_once() {
    let door = open("127.0.0.1:0", None).unwrap();
    let address = door.opened.trainer.unwrap();
    let few = |samples: usize, trainers: &[&str]| {
        let mut asked = body("few", trainers);
        for series in asked["prom_response"].as_object_mut().unwrap().values_mut() {
            series[0]["values"].as_array_mut().unwrap().truncate(samples);
        }
        asked
    };
    let (status, _, job) = train(
        address,
        "?wait=false",
        &few(6, &["LinearRegressionTrainer", "GradientBoostingRegressorTrainer"]),
    );
    assert_eq!(status, 202, "{}", String::from_utf8_lossy(&job));
    until("learned", || get(address, "/jobs/1").1["state"] == "done");
    let job = get(address, "/jobs/1").1;
    assert!(
        job.to_string().contains("fewer than 10 rows, the least 5")
            && job.to_string().contains("no intervals"),
        "{job}"
    );
    let (status, _, body) = train(address, "", &few(4, &["LinearRegressionTrainer", "SGDRegressorTrainer"]));
    let why = String::from_utf8_lossy(&body).into_owned();
    assert!(status == 400, "{why}");
    let detail: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(detail["detail"].as_str().unwrap().matches("3 rows; want 4").count(), 1, "{why}");
}

#[test]
fn a_pipeline_comes_back_as_a_zip_that_can_be_used() {
    let door = open("127.0.0.1:0", None).unwrap();
    let address = door.opened.trainer.unwrap();
    let mut asked = body("mine", &["LinearRegressionTrainer", "XgboostFitTrainer"]);
    for spelling in ["prom_response", "prome_response"] {
        let response = asked.as_object_mut().unwrap().remove("prom_response").unwrap();
        asked[spelling] = response.clone();
        let (status, head, zip) = train(address, "", &asked);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&zip));
        assert!(head.contains("application/zip") && head.contains("filename=mine.zip"), "{head}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.zip");
        std::fs::write(&path, &zip).unwrap();
        let pipeline = pipeline::load(&path).unwrap();
        assert_eq!((pipeline.name.as_str(), pipeline.models.len()), ("mine", 4), "{:?}", pipeline.warnings);
        for model in &pipeline.models {
            let formulas = model.formulas().unwrap();
            let (component, formula) = &formulas[0];
            assert_eq!(*component, PowerComponent::Platform);
            let watts = formula.watts(&[500.0, 2.0]).unwrap();
            // Of 620, which is the least and most of the load.
            let (want, slack) = match model.output_type {
                OutputType::AbsPower => (65.0, 3.0),
                OutputType::DynPower => (12.0, 3.0),
            };
            assert!((watts - want).abs() < slack, "{} {:?}: {watts}", model.full_name, model.output_type);
        }
        asked.as_object_mut().unwrap().remove(spelling);
        asked["prom_response"] = response;
    }
    door.stop();
}

#[test]
fn a_training_can_be_a_job_with_progress_a_result_and_an_end() {
    let door = open("127.0.0.1:0", None).unwrap();
    let address = door.opened.trainer.unwrap();
    let (status, head, reply) = train(address, "?wait=false", &body("one", &["LinearRegressionTrainer"]));
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!((status, &reply["name"]), (202, &json!("one")), "{reply}");
    assert!(head.contains("location: /jobs/1"), "{head}");
    until("done", || get(address, "/jobs/1").1["state"] == "done");
    let (_, job) = get(address, "/jobs/1");
    let predictors = job["predictors"].as_array().unwrap();
    assert_eq!(predictors.len(), 2, "{job}");
    assert!(predictors.iter().all(|one| one["mae"].as_f64().unwrap() < 1.0), "{job}");
    assert_eq!(predictors[0]["held_out"][0]["component"], "platform");
    // Of one component the worst is its own: both in per cent.
    assert_eq!(predictors[0]["held_out"][0]["mape"], predictors[0]["mape"], "{}", predictors[0]);
    let (status, head, zip) = ask(address, "GET /jobs/1/result", "", b"");
    assert!(status == 200 && head.contains("filename=one.zip") && zip.starts_with(b"PK"), "{head}");

    // Prefer as RFC 7240 has it; the second is ended before it is done, whatever it was at.
    let prefer = format!("{JSON}Prefer: respond-async\r\n");
    let long = body("two", &["SVRRegressorTrainer", "GradientBoostingRegressorTrainer", "XgboostFitTrainer"]);
    let (status, _, _) = ask(address, "POST /train", &prefer, long.to_string().as_bytes());
    assert_eq!(status, 202);
    assert_eq!(ask(address, "DELETE /jobs/2", "", b"").0, 200);
    until("over", || {
        let state = get(address, "/jobs/2").1["state"].as_str().unwrap().to_string();
        state == "stopped" || state == "done"
    });
    let (status, list) = get(address, "/jobs");
    assert_eq!((status, list["jobs"].as_array().unwrap().len(), &list["jobs"][0]["id"]), (200, 2, &json!(2)));
    assert_eq!(get(address, "/jobs/99").0, 404);
    assert_eq!(get(address, "/jobs/x/result").0, 404);
    let (_, _, metrics) = ask(address, "GET /metrics", "", b"");
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("metier_power_trainings_total{outcome=\"done\"} "), "{metrics}");
    door.stop();
}

#[test]
fn what_is_wrong_is_a_400_that_names_the_field_and_the_door_stays_open() {
    let door = open("127.0.0.1:0", None).unwrap();
    let address = door.opened.trainer.unwrap();
    let good = body("mine", &["LinearRegressionTrainer"]);
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        match field.split_once('/') {
            Some((outer, inner)) => body[outer][inner] = value,
            None => body[field] = value,
        }
        body
    };
    let nothing = json!({ "kepler_container_bpf_cpu_time_ms_total": [{ "metric": {}, "values": [[1, "NaN"], [4, "NaN"]] }] });
    for (body, words) in [
        (with("trainer/abs_trainers", json!(["MagicTrainer"])), &["abs_trainers", "MagicTrainer"][..]),
        (with("prom_response", json!({})), &["mine", "feature group"]),
        (with("prom_response", nothing), &["mine", "feature group"]),
        (with("use_vm_metrics", json!("maybe")), &["use_vm_metrics", "true or false"]),
        (with("energy_source", json!("sun")), &["energy_source", "sun"]),
        (with("energy_source", json!("rapl-sysfs")), &["\"field\":\"energy_source\"", "rapl-sysfs", "acpi"]),
        (with("name", json!("../outside")), &["\"field\":\"name\"", "../outside"]),
        (with("threshold", json!(1)), &["threshold"]),
        (with("trainer/isolator", json!("ProfileBackgroundIsolator")), &["mine"]),
    ] {
        let (status, head, reply) = train(address, "", &body);
        let reply = String::from_utf8(reply).unwrap();
        assert!(status == 400 && head.contains("problem+json"), "{words:?}: {status} {reply}");
        assert!(words.iter().all(|word| reply.contains(word)), "{words:?}: {reply}");
    }
    let mut trained_by = with("trainer/isolator", json!("TrainIsolator"));
    trained_by["trainer"]["isolator_args"] = json!({ "abs_pipeline_name": "nowhere" });
    let (status, _, reply) = train(address, "", &trained_by);
    let reply = String::from_utf8_lossy(&reply);
    assert!(
        status == 400 && reply.contains("nowhere") && reply.contains("isolator_args.abs_pipeline_name\""),
        "{reply}"
    );
    assert_eq!(train(address, "?wait=false", &with("name", json!("../outside"))).0, 400, "at once, too");
    assert_eq!(ask(address, "POST /train", JSON, b"{").0, 400);
    assert_eq!(ask(address, "POST /train", JSON, b"{\"name\": NaN}").0, 400);
    assert_eq!(ask(address, "POST /train", "", b"{}").0, 415);
    assert_eq!(train(address, "?wait=perhaps", &good).0, 400);
    assert_eq!(ask(address, "GET /train", "", b"").0, 405);
    assert_eq!(train(address, "", &good).0, 200);
    door.stop();
}

#[test]
fn a_reachable_trainer_wants_the_token() {
    let error = open("0.0.0.0:0", None).err().unwrap().to_string();
    assert!(error.contains("METIER_TOKEN"), "{error}");
    let door = open("0.0.0.0:0", Some(TOKEN)).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], door.opened.trainer.unwrap().port()));
    assert_eq!(train(address, "", &json!({})).0, 401);
    assert_eq!(get(address, "/jobs").0, 401);
    assert_eq!(ask(address, "GET /healthz", "", b"").0, 200);
    assert_eq!(ask(address, "GET /jobs", &format!("Authorization: Bearer {TOKEN}\r\n"), b"").0, 200);
    door.stop();
}

#[test]
fn trainings_that_are_ended_while_they_wait_are_counted_and_forgotten() {
    let door = open("127.0.0.1:0", None).unwrap();
    let address = door.opened.trainer.unwrap();
    let long = body("long", &["AutoTrainer", "SVRRegressorTrainer", "GradientBoostingRegressorTrainer"]);
    assert_eq!(train(address, "?wait=false", &long).0, 202);
    until("begun", || get(address, "/jobs/1").1["state"] != "waiting");
    let mut stopped = 0.0;
    for id in 2..=40 {
        assert_eq!(train(address, "?wait=false", &body("next", &["LinearRegressionTrainer"])).0, 202);
        let (_, _, reply) = ask(address, &format!("DELETE /jobs/{id}"), "", b"");
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        stopped += f64::from(u8::from(reply["state"] == "stopped"));
    }
    assert!(stopped > 0.0, "none of them had to wait");
    // It may be over by now, and forgotten.
    let _ = ask(address, "DELETE /jobs/1", "", b"");
    let (_, _, metrics) = ask(address, "GET /metrics", "", b"");
    let metrics = String::from_utf8(metrics).unwrap();
    let line = metrics.lines().find(|line| line.contains("outcome=\"stopped\"")).unwrap();
    assert!(line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() >= stopped, "{line}; {stopped}");
    assert!(get(address, "/jobs").1["jobs"].as_array().unwrap().len() <= 18, "sixteen that are over");
    door.stop();
}
