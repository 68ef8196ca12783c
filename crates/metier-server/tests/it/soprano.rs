//! The SOPRANO profiler's interface: with a real Prometheus that scrapes simulated nodes, without
//! one, and with one that is gone.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use crate::lab_node::LabNode;
use metier_cluster::inventory::prometheus::{self, SnapshotPace};
use metier_prom::query::{BlockingClient, PromEndpoint};
use metier_server::{AccessToken, Config, HttpConfig, PredictorColumns, SopranoConfig};
use serde_json::{Value, json};

const JSON: &str = "Content-Type: application/json\r\n";
const TOKEN: &str = "a-token-that-nobody-guesses";

fn counts() -> Value {
    json!({
        "model": "resnet50", "conv_layers": 53, "pool_layers": 2, "fc_layers": 1, "filter_details": 26560,
        "total_parameters": 25_610_153, "model_input_size": 602_112, "model_output_size": 4000,
    })
}

/// The seed's own example, with the device described.
fn described() -> Value {
    json!({
        "model": "model", "conv_layers": 66_666_666, "pool_layers": 77_777_777, "fc_layers": 34_535_353_535_u64,
        "filter_details": 66, "total_parameters": 10_000_000_000_000_000_000_u64, "model_input_size": 345_343_543,
        "cpu_usage(percentage)": 95, "disk_usage(percentage)": 75, "device_type": "Raspberry Pi 4B",
        "model_output_size": 123_421_435,
    })
}

fn ask(server: &Server, body: &Value) -> Response {
    server.post("/api/profiling", JSON, &body.to_string())
}

/// A page of one node: char_agent, node_exporter and the agent together.
struct Node {
    name: &'static str,
    model: &'static str,
    /// Half of it waits for a disk, which is no load.
    idle_share: f64,
    disk_free: f64,
}

impl Node {
    fn page(&self, seconds: f64) -> String {
        let Self { name, model, idle_share, disk_free } = self;
        let common =
            format!("char_node_name=\"{name}\",char_node_class=\"Computer\",char_node_uuid=\"4e849968\"");
        let mut page =
            format!("char_node_device_model{{{common},char_node_device_model_name=\"{model}\"}} 1\n");
        let half = idle_share / 2.0;
        for (mode, share) in [("idle", half), ("iowait", half), ("user", 1.0 - idle_share), ("system", 0.0)] {
            let value = 1000.0 + seconds * share;
            for cpu in 0..2 {
                page.push_str(&format!("node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}} {value}\n"));
            }
            // As `metier agent` tells it; of two the higher load counts.
            let both = 2.0 * value;
            page.push_str(&format!("metier_device_cpu_seconds_total{{{common},mode=\"{mode}\"}} {both}\n"));
        }
        page.push_str("node_memory_MemAvailable_bytes 1e9\n");
        for (series, value) in [("size", 100.0), ("avail", *disk_free)] {
            page.push_str(&format!(
                "node_filesystem_{series}_bytes{{device=\"/dev/root\",fstype=\"ext4\",mountpoint=\"/\"}} {value}\n"
            ));
        }
        page
    }
}

/// Serves the page of each node at `/NAME`, as exporters do.
fn exporter(nodes: Vec<Node>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let began = Instant::now();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while lines.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_string();
            let node = nodes.iter().find(|node| node.name == path);
            let body = node.map(|node| node.page(began.elapsed().as_secs_f64())).unwrap_or_default();
            let status = if node.is_some() { "200 OK" } else { "404 No" };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

/// A Prometheus of our own that scrapes those nodes every quarter of a second; ended by its id.
struct Prometheus {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(names: &[&str], exporter: SocketAddr) -> Option<Self> {
        if Command::new("prometheus").arg("--version").output().is_err() {
            eprintln!("SKIP: needs prometheus because the nodes come from a real one");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut jobs =
            String::from("global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs:\n");
        for name in names {
            jobs.push_str(&format!(
                "- {{job_name: {name}, metrics_path: /{name}, static_configs: [{{targets: ['{exporter}'], labels: {{instance: {name}}}}}]}}\n"
            ));
        }
        std::fs::write(folder.path().join("prometheus.yml"), jobs).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new("prometheus")
            .current_dir(folder.path())
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Self { child, address, _folder: folder };
        started.wait_for_loads(names.len());
        Some(started)
    }

    fn endpoint(&self) -> PromEndpoint {
        self.address.parse().unwrap()
    }

    /// Until a rate can be told of so many nodes.
    fn wait_for_loads(&self, nodes: usize) {
        let client = BlockingClient::new(self.endpoint()).unwrap();
        let query = "count(count by (instance) (rate(node_cpu_seconds_total{mode=\"idle\"}[1m])))";
        let began = Instant::now();
        loop {
            let answer = client.block_on(async |client| client.query_instant(query, None).await);
            if answer.is_ok_and(|answer| answer.as_number() == Some(nodes as f64)) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "Prometheus tells no loads");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(prometheus: Option<PromEndpoint>) -> Config {
    let pace = SnapshotPace { every: Duration::from_millis(200), ..SnapshotPace::default() };
    let soprano = SopranoConfig { prometheus, pace, ..SopranoConfig::default() };
    let http = HttpConfig { start_token: Some(AccessToken::new(TOKEN).unwrap()), ..HttpConfig::default() };
    Config { soprano, ..http.into() }
}

#[test]
fn the_fastest_node_is_told_with_the_originals_fields_and_all_others_beside_it() {
    let nodes = vec![
        Node { name: "rpi-busy", model: "Raspberry Pi 4 Model B", idle_share: 0.1, disk_free: 70.0 },
        Node { name: "rpi-idle", model: "Raspberry Pi 4 Model B", idle_share: 0.98, disk_free: 25.0 },
        Node { name: "anvil", model: "Acme Anvil 9000", idle_share: 0.98, disk_free: 25.0 },
    ];
    let names = ["rpi-busy", "rpi-idle", "anvil"];
    let Some(prometheus) = Prometheus::start(&names, exporter(nodes)) else { return };
    let (_folder, store) = store();
    let server = Server::with(&store, config(Some(prometheus.endpoint())));
    let answer = ask(&server, &counts()).json();
    assert_eq!(
        (answer["status"].clone(), answer["message"].clone()),
        (json!("success"), json!("Profiling data received"))
    );
    assert_eq!(answer["model_characteristics"], counts());
    let best = &answer["profiling_prediction"];
    let fields: Vec<&str> = best.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["class", "device_model", "model", "node", "node_uuid", "predicted_execution_time"]);
    assert_eq!((best["node"].clone(), best["model"].clone()), (json!("rpi-idle"), json!("resnet50")));
    let candidates = answer["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 3);
    assert_eq!(candidates[0]["predicted_execution_time"], best["predicted_execution_time"]);
    // The real load has an effect: the query of the original gave 87.5 for every node.
    assert_eq!(candidates[1]["node"], "rpi-busy");
    let load = |at: usize| candidates[at]["cpu_usage"].as_f64().unwrap();
    assert!(load(0) < 20.0 && load(1) > 70.0, "waiting for a disk is no load: {} {}", load(0), load(1));
    assert!((candidates[1]["disk_usage"].as_f64().unwrap() - 30.0).abs() < 0.01, "by name, not by place");
    for at in [0, 1] {
        let time = candidates[at]["predicted_execution_time"].as_f64().unwrap();
        assert!(
            candidates[at]["low"].as_f64().unwrap() <= time
                && time <= candidates[at]["high"].as_f64().unwrap()
        );
    }
    assert_eq!(candidates[2]["node"], "anvil");
    let reason = candidates[2]["reason"].as_str().unwrap();
    assert!(reason.contains("no passport of \"Acme Anvil 9000\""), "{reason}");
    assert!(answer["snapshot"]["age_seconds"].as_f64().unwrap() < 60.0);
    // A program that asks once, as `metier place`, is told the same.
    let once = prometheus::take_snapshot_blocking(prometheus.endpoint()).unwrap();
    let find = |name: &str| once.nodes.iter().find(|node| node.name == name).unwrap();
    let busy = |name: &str| find(name).cpu_busy.unwrap().value.get();
    assert!(busy("rpi-idle") < 0.2 && busy("rpi-busy") > 0.7, "{once:?}");
    // One goes away: what is known is used within its age, and that is said; the node itself is not
    // made up.
    drop(prometheus);
    let began = Instant::now();
    loop {
        let answer = ask(&server, &counts()).json();
        if answer["snapshot"]["trouble"].as_str().is_some_and(|trouble| trouble.contains("cannot be reached"))
        {
            assert_eq!(answer["profiling_prediction"]["node"], "rpi-idle");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_described_device_needs_no_prometheus() {
    let (_folder, store) = store();
    let server = Server::with(&store, config(None));
    let answer = ask(&server, &described()).json();
    assert_eq!(answer["model_characteristics"], described());
    let fields: Vec<&str> =
        answer["profiling_prediction"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "predicted_execution_time"]);
    assert!(answer["profiling_prediction"]["predicted_execution_time"].as_f64().unwrap() > 0.0);
    assert_eq!(answer["candidates"].as_array().unwrap().len(), 1);
    assert!(answer.get("snapshot").is_none());
    let mut toaster = described();
    toaster["device_type"] = json!("toaster");
    let problem = ask(&server, &toaster).problem(422);
    assert_eq!(problem["errors"][0]["field"], "device_type");
    let problem = ask(&server, &counts()).problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("--prometheus"), "{problem}");
}

#[test]
fn wrong_requests_are_refused_in_json_with_each_field() {
    let (_folder, store) = store();
    let server = Server::with(&store, config(None));
    let problem = ask(&server, &json!({})).problem(422);
    assert_eq!(problem["errors"].as_array().unwrap().len(), 11);
    let mut negative = described();
    (negative["conv_layers"], negative["pool_layers"]) = (json!(-3), json!("abc"));
    let problem = ask(&server, &negative).problem(422);
    let errors = problem["errors"].as_array().unwrap();
    let named: Vec<_> = errors.iter().map(|error| (error["field"].clone(), error["got"].clone())).collect();
    assert_eq!(named, [(json!("conv_layers"), json!("-3")), (json!("pool_layers"), json!("abc"))]);
    ask(&server, &json!([1, 2])).problem(422);
    server.post("/api/profiling", JSON, "{\"model\":").problem(400);
    server.post("/api/profiling", "Content-Type: text/plain\r\n", "{}").problem(415);
    let refused = server.get("/api/profiling");
    refused.problem(405);
    assert_eq!(refused.header("allow"), Some("POST"));
    let mut large = described();
    large["note"] = json!("x".repeat(2 << 20));
    ask(&server, &large).problem(413);
    // Placing needs the token, and nodes. Without the token the response reveals nothing else.
    let mut apply = described();
    apply["apply"] = json!(true);
    let stranger = format!("{JSON}X-Forwarded-For: 192.0.2.1\r\n");
    server.post("/api/profiling", &stranger, &apply.to_string()).problem(401);
    let problem = server.post("/api/profiling", &stranger, &json!({"apply": true}).to_string()).problem(401);
    assert_eq!(problem["errors"].as_array().unwrap().len(), 1, "{problem}");
    let bearer = format!("{JSON}Authorization: Bearer {TOKEN}\r\n");
    let problem = server.post("/api/profiling", &bearer, &apply.to_string()).problem(422);
    assert_eq!(problem["errors"][0]["field"], "apply");
}

#[test]
fn a_prometheus_that_is_down_or_hangs_is_said_at_once() {
    let (_folder, store) = store();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // The kernel accepts the connection, but no program answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (address, said) in
        [(free, "cannot be reached"), (silent.local_addr().unwrap(), "no answer within 2 s")]
    {
        let server = Server::with(&store, config(Some(address.to_string().parse().unwrap())));
        let refused = ask(&server, &counts());
        let problem = refused.problem(503);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(said) && detail.contains(&address.to_string()), "{detail}");
        assert!(refused.header("retry-after").is_some());
        // What needs no nodes goes on.
        ask(&server, &described()).json();
    }
}

#[test]
fn elsewhere_than_on_loopback_it_needs_the_token_unless_it_was_opened() {
    let (_folder, store) = store();
    let token = Some(AccessToken::new(TOKEN).unwrap());
    let mut far = config(None);
    far.http.listen = "0.0.0.0:0".parse().unwrap();
    far.http.token = token;
    let server = Server::with(&store, far.clone());
    ask(&server, &described()).problem(401);
    let bearer = format!("{JSON}Authorization: Bearer {TOKEN}\r\n");
    server.post("/api/profiling", &bearer, &described().to_string()).json();
    far.http.open = vec!["soprano".into()];
    let opened = Server::with(&store, far);
    ask(&opened, &described()).json();
    opened.post("/upload", "Content-Type: multipart/form-data; boundary=x\r\n", "--x--").problem(401);
}

fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        body.extend_from_slice(
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").as_bytes(),
        );
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    body
}

fn upload(server: &Server, body: &[u8]) -> Response {
    let mut stream = server.connect();
    let head = format!(
        "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=XX\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    Response::read(&mut stream)
}

#[test]
fn an_uploaded_graph_is_answered_by_the_predictor_for_graphs() {
    let node = Node { name: "rpi-1", model: "Raspberry Pi 4 Model B", idle_share: 0.9, disk_free: 70.0 };
    let Some(prometheus) = Prometheus::start(&["rpi-1"], exporter(vec![node])) else { return };
    let (_folder, store) = store();
    let server = Server::with(&store, config(Some(prometheus.endpoint())));
    let sizes: [(&str, Option<&str>, &[u8]); 2] =
        [("model_input_size", None, b"602112"), ("model_output_size", None, b"4000")];
    let with = |file: (&'static str, &[u8])| {
        upload(&server, &form(&[("file", Some(file.0), file.1), sizes[0], sizes[1]]))
    };
    let problem = upload(&server, &form(&sizes)).problem(400);
    assert_eq!(problem["errors"][0]["field"], "file");
    assert_eq!(problem["error"], problem["detail"], "where the original's clients look");
    assert_eq!(with(("net.txt", b"x")).problem(400)["errors"][0]["field"], "file");
    assert_eq!(with(("net.onnx", b"not a graph")).problem(422)["errors"][0]["field"], "file");
    let problem = upload(&server, &form(&[("file", Some("a.onnx"), b"x")])).problem(422);
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2, "{problem}");
    upload(&server, b"--XX\r\nContent-Disposition: form-data; name=\"file\"").problem(400);
    let Some(folder) = std::env::var_os("METIER_LAB_GRAPHS") else {
        eprintln!("SKIP: real graphs, because METIER_LAB_GRAPHS is not set");
        return;
    };
    let path = Path::new(&folder).join("pplcnet-orientation.onnx");
    let bytes = std::fs::read(&path).unwrap();
    let shape: (&str, Option<&str>, &[u8]) = ("shape", None, b"x=1x3x224x224");
    let whole = form(&[("file", Some("pplcnet-orientation.onnx"), &bytes), sizes[0], sizes[1], shape]);
    let answer = upload(&server, &whole);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer["filepath"], "pplcnet-orientation.onnx");
    assert_eq!(answer["profiling_prediction"]["node"], "rpi-1");
    assert_eq!(answer["model_characteristics"]["conv_layers"], 32);
    assert_eq!(answer["model_characteristics"]["model"], "pplcnet-orientation");
    let reason = answer["candidates"][0]["reason"].as_str().unwrap();
    assert!(!reason.contains("from counts alone"), "{reason}");
    let wrong: (&str, Option<&str>, &[u8]) = ("shape", None, b"x=1xcat");
    let body = form(&[("file", Some("a.onnx"), &bytes), sizes[0], sizes[1], wrong]);
    assert_eq!(upload(&server, &body).problem(422)["errors"][0]["field"], "shape");
}

#[test]
fn an_uploaded_graph_is_answered_for_a_device_that_the_form_describes() {
    let (_folder, store) = store();
    let server = Server::with(&store, config(None));
    let mut graph = metier_onnx::graph_builder::GraphBuilder::new(1);
    let x = graph.add_input(metier_onnx::DataType::Float, &[1, 64]);
    let weights = graph.add_weights(&[64, 64], 64);
    let made = graph.encode_node("MatMul", &[&x, &weights], &[]);
    graph.add_output(&made);
    let bytes = graph.finish();
    let file: (&str, Option<&str>, &[u8]) = ("file", Some("net.onnx"), &bytes);
    let fields: [(&str, Option<&str>, &[u8]); 5] = [
        ("model_input_size", None, b"256"),
        ("model_output_size", None, b"256"),
        ("cpu_usage(percentage)", None, b"20"),
        ("disk_usage(percentage)", None, b"50"),
        ("device_type", None, b"Raspberry Pi 4B"),
    ];
    let problem = upload(&server, &form(&[file, fields[0], fields[1]])).problem(422);
    assert_eq!(problem["errors"].as_array().unwrap().len(), 3, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("must describe its device"), "{problem}");
    let answer = upload(&server, &form(&[file, fields[0], fields[1], fields[2], fields[3], fields[4]]));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer["profiling_prediction"]["model"], "net");
    assert!(answer["profiling_prediction"]["predicted_execution_time"].as_f64().unwrap() > 0.0);
    assert_eq!(answer["candidates"][0]["known_from"]["passport"], "raspberry-pi-4b");
}

#[test]
fn a_predictor_file_answers_with_the_numbers_of_xgboost() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/predictor");
    let columns = PredictorColumns::open(&fixtures.join("original.json")).unwrap();
    let recorded: Value =
        serde_json::from_str(&std::fs::read_to_string(fixtures.join("answers.json")).unwrap()).unwrap();
    let (_folder, store) = store();
    let mut config = config(None);
    config.soprano.predictor = Some(Arc::new(columns));
    let server = Server::with(&store, config);
    for one in recorded.as_array().unwrap() {
        let row: Vec<f64> =
            one["row"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        let device = if row[7] == 1.0 { "Jetson Nano" } else { "Raspberry Pi 4B" };
        let body = json!({
            "model": "m", "conv_layers": row[0], "pool_layers": row[8], "fc_layers": row[6], "filter_details": row[5],
            "total_parameters": row[9], "model_input_size": row[2], "model_output_size": row[3],
            "cpu_usage(percentage)": row[1], "disk_usage(percentage)": row[4], "device_type": device,
        });
        let answer = ask(&server, &body).json();
        assert_eq!(answer["profiling_prediction"]["predicted_execution_time"], one["original"], "{row:?}");
        assert!(answer["candidates"][0]["low"].is_null());
    }
}

#[test]
fn a_door_has_an_address_of_its_own_and_one_that_is_taken_is_done_without() {
    let (_folder, store) = store();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let doors = vec![("soprano".to_string(), taken.local_addr().unwrap()), ("soprano".to_string(), free)];
    let mut config = config(None);
    config.http.doors = doors;
    let server = Server::with(&store, config);
    ask(&server, &described()).json();
    let beside = Beside(free);
    let body = described().to_string();
    assert_eq!(beside.post("/api/profiling", &body), 200);
    assert_eq!(beside.post("/upload", "x"), 415);
}

/// The same server at another address.
struct Beside(SocketAddr);

impl Beside {
    fn post(&self, path: &str, body: &str) -> u16 {
        let mut stream = std::net::TcpStream::connect(self.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        Response::read(&mut stream).status
    }
}

/// The node of the lab's cluster, as exporters there would show it, and one that is not of it.
fn of_cluster() -> Vec<Node> {
    vec![
        Node { name: "localhost", model: "Raspberry Pi 4 Model B", idle_share: 0.5, disk_free: 70.0 },
        Node { name: "elsewhere", model: "Raspberry Pi 5", idle_share: 0.98, disk_free: 70.0 },
    ]
}

impl LabNode {
    fn deployment(&self, image: &str) -> Value {
        // It exits at once on SIGTERM, so that the next pod finds free cores.
        let words = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"];
        json!({"name": self.name, "image": image, "arguments": words, "within_seconds": 60})
    }

    fn is_there(&self) -> bool {
        // What is there can be gone back from, once.
        match self.cluster.rollback(&self.name, Duration::from_secs(1)) {
            Ok(_) => true,
            // A busy kubelet may take its time to let go of pods: what was there was there.
            Err(error) => {
                eprintln!("{error}");
                !error.to_string().contains("there is none of that name")
            }
        }
    }
}

fn place(server: &Server, deployment: &Value) -> Response {
    let mut body = counts();
    (body["apply"], body["deployment"]) = (json!(true), deployment.clone());
    server.post("/api/profiling", &format!("{JSON}Authorization: Bearer {TOKEN}\r\n"), &body.to_string())
}

#[test]
fn a_graph_is_put_on_the_chosen_node_of_a_real_cluster() {
    let Some(cluster) = LabNode::take("door") else { return };
    let Some(prometheus) = Prometheus::start(&["localhost", "elsewhere"], exporter(of_cluster())) else {
        return;
    };
    let (_folder, store) = store();
    let mut told = config(Some(prometheus.endpoint()));
    told.soprano.cluster = cluster.access.clone();
    let server = Server::with(&store, told);
    // Elsewhere is faster, as far as Prometheus knows.
    assert_eq!(ask(&server, &counts()).json()["profiling_prediction"]["node"], "elsewhere");
    let serve = cluster.deployment("busybox:local");
    let mut body = counts();
    (body["apply"], body["deployment"]) = (json!(true), serve.clone());
    let stranger = format!("{JSON}X-Forwarded-For: 192.0.2.1\r\n");
    server.post("/api/profiling", &stranger, &body.to_string()).problem(401);
    let mut large = serve.clone();
    (large["threads"], large["replicas"]) = (json!(4000), json!(2));
    let problem = place(&server, &large).problem(409);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("localhost: 8000 cores are wanted"), "{detail}");
    assert!(detail.contains("elsewhere: left out, the cluster has no node of this name"), "{detail}");
    let mut refused = serve.clone();
    refused["environment"] = json!({"no name": "x"});
    let problem = place(&server, &refused).problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("nothing was written"), "{problem}");
    assert!(!cluster.is_there(), "what was refused is not written");

    let answer = place(&server, &serve).json();
    assert_eq!(answer["profiling_prediction"]["node"], "localhost", "{answer}");
    assert_eq!(answer["model_characteristics"], counts());
    let placement = &answer["placement"];
    assert_eq!(
        (&placement["schema"], &placement["status"]),
        (&json!("metier.placement/1"), &json!("optimal"))
    );
    assert_eq!(placement["assignments"][0]["device"], "localhost");
    assert_eq!(placement["objective"], answer["profiling_prediction"]["predicted_execution_time"]);
    let applied = &placement["applied"];
    assert_eq!((&applied["name"], &applied["action"]), (&json!(cluster.name), &json!("created")));
    assert_eq!((&applied["is_available"], &applied["because"]), (&json!(true), &json!(null)), "{applied}");
    // Not available is an answer, too, and says why.
    let answer = place(&server, &cluster.deployment("metier.test/no-such-image:1")).json();
    let applied = &answer["placement"]["applied"];
    assert_eq!((&applied["action"], &applied["is_available"]), (&json!("replaced"), &json!(false)));
    assert!(applied["because"].as_str().unwrap().contains("no-such-image"), "{applied}");
    assert!(
        cluster.is_there() && cluster.is_there() && !cluster.is_there(),
        "back to the first, then to nothing"
    );
}

#[test]
fn an_uploaded_graph_is_put_there_with_the_digest_of_its_file() {
    let (Some(cluster), Some(folder)) = (LabNode::take("upload"), std::env::var_os("METIER_LAB_GRAPHS"))
    else {
        eprintln!("SKIP: no graphs, because METIER_LAB_GRAPHS is not set");
        return;
    };
    let Some(prometheus) = Prometheus::start(&["localhost", "elsewhere"], exporter(of_cluster())) else {
        return;
    };
    let (_folder, store) = store();
    let mut told = config(Some(prometheus.endpoint()));
    told.soprano.cluster = cluster.access.clone();
    let server = Server::with(&store, told);
    let bytes = std::fs::read(Path::new(&folder).join("light-squeezenet.onnx")).unwrap();
    let send = |apply: &str, deployment: &str| {
        upload(
            &server,
            &form(&[
                ("file", Some("light-squeezenet.onnx"), &bytes),
                ("model_input_size", None, b"602112"),
                ("model_output_size", None, b"4000"),
                ("apply", None, apply.as_bytes()),
                ("deployment", None, deployment.as_bytes()),
            ]),
        )
    };
    assert_eq!(send("yes", "{}").problem(422)["errors"][0]["field"], "apply");
    assert_eq!(send("true", "{").problem(422)["errors"][0]["field"], "deployment");
    assert_eq!(send("true", "{}").problem(422)["errors"][0]["field"], "deployment.image");
    assert!(send("false", "{").status == 201 && !cluster.is_there());
    let answer = send("true", &cluster.deployment("busybox:local").to_string());
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer["profiling_prediction"]["node"], "localhost");
    let placement = &answer["placement"];
    assert!(placement["applied"]["is_available"] == true, "{placement}");
    let memory = placement["assignments"][0]["memory"]["because"].as_str().unwrap();
    assert!(memory.contains("live activations"), "from the graph, not from counts: {memory}");
}

#[test]
fn without_a_cluster_nothing_is_placed_and_faults_are_told_before_one_is_looked_for() {
    let Some(prometheus) = Prometheus::start(&["localhost", "elsewhere"], exporter(of_cluster())) else {
        return;
    };
    let (folder, store) = store();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let nobody = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": format!("http://{free}")}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {}}],
    });
    std::fs::write(&kubeconfig, nobody.to_string()).unwrap();
    for (file, said) in [(kubeconfig, "could not be surveyed"), (folder.path().join("nowhere"), "no cluster")]
    {
        let mut told = config(Some(prometheus.endpoint()));
        told.soprano.cluster.kubeconfig = Some(file);
        let server = Server::with(&store, told);
        let refused = place(&server, &json!({"image": "serve:1"}));
        let problem = refused.problem(503);
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
        assert!(refused.header("retry-after").is_some());
        let problem = place(&server, &json!({"name": "A", "x": 1})).problem(422);
        let errors = problem["errors"].as_array().unwrap();
        let names: Vec<&str> = errors.iter().map(|error| error["field"].as_str().unwrap()).collect();
        assert_eq!(names, ["deployment.image", "deployment.name", "deployment.x"]);
        assert_eq!(place(&server, &json!(null)).problem(422)["errors"][0]["field"], "deployment");
    }
    // A predictor file has no interval, and nothing is placed without one.
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/predictor");
    let mut told = config(Some(prometheus.endpoint()));
    told.soprano.predictor = Some(Arc::new(PredictorColumns::open(&fixtures.join("original.json")).unwrap()));
    let problem = place(&Server::with(&store, told), &json!({"image": "serve:1"})).problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("no interval"), "{problem}");
}
