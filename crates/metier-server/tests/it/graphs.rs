//! Graphs over the API: an upload is analysed, predicted for every known device, and not stored.

use std::io::Write;

use crate::common::*;
use metier_server::{AccessToken, HttpConfig, HttpLimits};
use serde_json::json;

const TOKEN: &str = "a-token-that-nobody-guesses";

fn config() -> HttpConfig {
    HttpConfig { start_token: Some(AccessToken::new(TOKEN).unwrap()), ..HttpConfig::default() }
}

fn post(server: &Server, query: &str, token: &str, body: &[u8]) -> Response {
    let mut stream = server.connect();
    let head = format!(
        "POST /api/v1/graphs{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    Response::read(&mut stream)
}

/// A field of a protocol buffer with bytes in it.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(content);
    field
}

/// A field with a number below 128 in it.
fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn value(name: &str, sizes: &[Option<u8>]) -> Vec<u8> {
    let dims: Vec<u8> = sizes
        .iter()
        .flat_map(|size| bytes(1, &size.map_or_else(|| bytes(2, b"open"), |size| number(1, size))))
        .collect();
    let tensor = [number(1, 1), bytes(2, &dims)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// One product of matrices; `rows` of the first may be left open.
fn product(rows: Option<u8>) -> Vec<u8> {
    let node = [bytes(1, b"x"), bytes(1, b"y"), bytes(2, b"z"), bytes(4, b"MatMul")].concat();
    let graph = [
        bytes(1, &node),
        bytes(2, b"tiny"),
        bytes(11, &value("x", &[rows, Some(100)])),
        bytes(11, &value("y", &[Some(100), Some(60)])),
        bytes(12, &value("z", &[rows, Some(60)])),
    ]
    .concat();
    [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 13))].concat()
}

#[test]
fn a_graph_is_told_with_its_time_on_every_device_and_not_kept() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let answer = post(&server, "", TOKEN, &product(Some(100))).json();
    assert_eq!(answer["schema"], "metier.graph-times/1");
    assert_eq!(answer["graph"]["multiply_adds"], 600_000);
    assert!(answer["digest"].as_str().unwrap().starts_with("sha256:"));
    let devices = answer["devices"].as_array().unwrap();
    assert!(devices.iter().any(|device| device["id"] == "raspberry-pi-4b"));
    for device in devices {
        let prediction = &device["prediction"];
        let (low, value, high) = (
            prediction["low"].as_f64().unwrap(),
            prediction["value"].as_f64().unwrap(),
            prediction["high"].as_f64().unwrap(),
        );
        assert!(0.0 < low && low <= value && value <= high, "{device}");
        assert!(!prediction["because"].as_str().unwrap().is_empty());
        assert_eq!(device["origin"], "specified");
    }
    assert_eq!(answer["operators"].as_array().unwrap().len(), 1);
    assert_eq!(answer["measured"], json!([]));
    assert!(
        store.workloads().unwrap().is_empty() && store.passports().unwrap().is_empty(),
        "nothing is kept"
    );
}

#[test]
fn the_device_threads_and_runtime_that_were_asked_for_are_told() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let query = "?device=Raspberry%20Pi%204B&threads=2&runtime=onnxruntime";
    let answer = post(&server, query, TOKEN, &product(Some(100))).json();
    assert_eq!(answer["device"], "raspberry-pi-4b");
    assert_eq!(answer["runtime"], "onnxruntime");
    assert!(answer["devices"].as_array().unwrap().iter().all(|device| device["threads"] == 2));
    for (query, field) in [
        ("?device=nobody", "device"),
        ("?threads=0", "threads"),
        ("?runtime=magic", "runtime"),
        ("?odd=1", "odd"),
    ] {
        let problem = post(&server, query, TOKEN, &product(Some(100))).problem(400);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
}

#[test]
fn shapes_that_a_graph_leaves_open_can_be_given() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let answer = post(&server, "?shapes=x=50x100", TOKEN, &product(None)).json();
    assert_eq!(answer["graph"]["multiply_adds"], 300_000);
    for shapes in ["nobody=1x2", "x", "x=1xtwo"] {
        let problem = post(&server, &format!("?shapes={shapes}"), TOKEN, &product(None)).problem(422);
        assert_eq!(problem["errors"][0]["field"], "shapes", "{problem}");
    }
}

#[test]
fn what_is_no_graph_too_large_or_from_a_stranger_is_refused() {
    let (_folder, store) = store();
    let limits = HttpLimits { upload_bytes: 5000, body_bytes: 50, ..HttpLimits::default() };
    let server = Server::with(&store, HttpConfig { limits, ..config() });
    assert!(product(Some(100)).len() > 50, "larger than other bodies may be");
    post(&server, "", TOKEN, &product(Some(100))).json();
    for body in [&b""[..], b"not a graph", &product(Some(100))[..40]] {
        let problem = post(&server, "", TOKEN, body).problem(422);
        assert_eq!(problem["errors"][0]["field"], "body", "{problem}");
    }
    post(&server, "", TOKEN, &vec![0; 5001]).problem(413);
    post(&server, "", "another-token-than-the-server-has", &product(Some(100))).problem(401);
}

#[test]
fn predictors_are_listed() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let list = server.get("/api/v1/predictors?kind=latency").json();
    assert_eq!(list, json!({ "schema": "metier.predictors/1", "predictors": [] }));
}

#[test]
fn what_was_measured_is_the_quartile_that_predictors_learn_and_else_the_middle_one() {
    use sha2::Digest as _;
    let (_folder, store) = store();
    let body = product(Some(2));
    let digest = metier_types::ContentDigest::from_bytes(sha2::Sha256::digest(&body).into());
    let mut own = workload("product");
    own.digest = Some(digest);
    store.put_device(&device()).unwrap();
    store.put_workload(&own).unwrap();
    let spent = |seconds: f64| json!({ "wall": seconds, "cpu": seconds });
    let runs = [8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0].map(spent);
    let result = json!({
        "schema": "metier.inference/1", "load": null, "first": null, "inferences": 8, "operators": [], "outputs": [],
        "runs": runs,
    });
    let batch = metier_types::BatchId::new();
    for (number, result) in [(1, Some(result.to_string())), (2, Some("nothing".to_string())), (3, None)] {
        let mut run = run("product", batch, number);
        run.stages = serde_json::from_value(json!([{
            "name": "inference", "kind": "duration", "source": "socket", "count": 8, "p50": 4.5
        }]))
        .unwrap();
        if let Some(text) = result {
            let (digest, size) = store.put_artefact(&mut text.as_bytes()).unwrap();
            let file = metier_types::ArtefactRef::new("inference.json", "application/json", digest, size);
            run.artefacts.push(file);
        }
        store.put_run(&run, &[]).unwrap();
    }
    let server = Server::with(&store, config());
    let answer = post(&server, "", TOKEN, &body).json();
    let measured = answer["measured"].as_array().unwrap();
    let seconds: Vec<f64> = measured.iter().map(|one| one["seconds"].as_f64().unwrap()).collect();
    assert_eq!(seconds, [4.5, 4.5, 3.0], "newest first");
}

#[test]
fn what_is_predicted_beside_a_run_is_for_the_load_that_it_had() {
    use sha2::Digest as _;
    let (_folder, store) = store();
    let body = product(Some(2));
    let digest = metier_types::ContentDigest::from_bytes(sha2::Sha256::digest(&body).into());
    let mut own = workload("product");
    own.digest = Some(digest);
    store.put_device(&device()).unwrap();
    store.put_workload(&own).unwrap();
    let batch = metier_types::BatchId::new();
    for (number, others) in [(1, 0.0), (2, 0.9)] {
        let mut run = run("product", batch, number);
        run.host.others_ratio = Some(metier_types::Ratio(others));
        run.context.graph = serde_json::from_value(json!({
            "file": "product.onnx", "digest": digest, "runtime": "rten", "threads": device().cpu.threads, "shapes": {}
        }))
        .unwrap();
        store.put_run(&run, &[]).unwrap();
    }
    let server = Server::with(&store, config());
    let answer = post(&server, "", TOKEN, &body).json();
    let mut said: Vec<f64> = answer["measured"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["prediction"]["value"].as_f64().unwrap_or_else(|| panic!("{one}")))
        .collect();
    said.sort_by(f64::total_cmp);
    assert!(said.len() == 2 && said[1] > 1.5 * said[0], "{said:?}");
}
