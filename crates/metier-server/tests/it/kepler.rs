//! The Kepler-compatible services, as its exporter uses them: one write, one read of 4096 bytes,
//! the connection closed by the server. Every documented way to kill or confuse the original is
//! tried; after each the estimator answers as before.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metier_power::estimate::PowerEstimator;
use metier_power::node::MachineSpec;
use metier_power::selection::PipelineRegistry;
use metier_server::kepler::EstimatorDoor;
use serde_json::{Value, json};

fn machine() -> MachineSpec {
    MachineSpec {
        processor: Some("intel_xeon_gold_6230".into()),
        cores: Some(20.0),
        chips: Some(1.0),
        memory: Some(64.0),
        frequency: Some(2100.0),
    }
}

struct Open {
    _folder: tempfile::TempDir,
    door: EstimatorDoor,
    socket: std::path::PathBuf,
}

fn open() -> Open {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("estimator.sock");
    let estimator = Arc::new(PowerEstimator::new(PipelineRegistry::default(), machine()).unwrap());
    let door = EstimatorDoor::open(&socket, estimator).unwrap();
    Open { _folder: folder, door, socket }
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// As the exporter does it: everything in one write, one read.
fn ask_bytes(socket: &Path, request: &[u8]) -> Value {
    let mut stream = connect(socket);
    stream.write_all(request).unwrap();
    let mut buffer = [0u8; 4096];
    let count = stream.read(&mut buffer).unwrap();
    let reply = serde_json::from_slice(&buffer[..count])
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&buffer[..count])));
    assert_eq!(stream.read(&mut buffer).unwrap(), 0, "closed after the reply");
    reply
}

const METRICS: [&str; 9] = [
    "bpf_cpu_time_ms",
    "bpf_page_cache_hit",
    "bpf_net_tx_irq",
    "bpf_net_rx_irq",
    "bpf_block_irq",
    "cpu_cycles",
    "cpu_ref_cycles",
    "cpu_instructions",
    "cache_miss",
];

fn request(rows: usize, output_type: &str, source: &str) -> Value {
    let row = |row: usize| -> Vec<f64> {
        let load = (row + 1) as f64 / rows as f64;
        vec![15_000.0 * load, 3.0, 1.0, 2.0, 0.0, 4e10 * load, 4e10 * load, 5e10 * load, 1e8 * load]
    };
    json!({ "metrics": METRICS, "values": (0..rows).map(row).collect::<Vec<_>>(), "output_type": output_type, "source": source,
        "system_features": ["cpu_architecture"], "system_values": ["Skylake"], "trainer_name": "", "filter": "" })
}

fn ask(socket: &Path, request: &Value) -> Value {
    ask_bytes(socket, request.to_string().as_bytes())
}

#[test]
fn the_exporter_reads_whole_replies_of_one_to_two_hundred_rows() {
    let open = open();
    for rows in [1, 10, 100, 150, 200] {
        for (source, components) in
            [("intel_rapl", vec!["package", "core", "uncore", "dram"]), ("acpi", vec!["platform"])]
        {
            for output_type in ["AbsPower", "DynPower"] {
                let reply = ask(&open.socket, &request(rows, output_type, source));
                assert_eq!(reply["msg"], "", "{reply}");
                // 20 cores of the 40 that the shipped predictors were learned on; the same in every
                // reply.
                assert_eq!(reply["core_ratio"], 0.5, "{reply}");
                let powers = reply["powers"].as_object().unwrap();
                assert_eq!(powers.keys().collect::<Vec<_>>(), components.iter().collect::<Vec<_>>());
                for watts in powers.values() {
                    let watts = watts.as_array().unwrap();
                    assert_eq!(watts.len(), rows);
                    assert!(watts.iter().all(|watts| watts.as_f64().unwrap() >= 0.0));
                }
                let first = powers[components[0]].as_array().unwrap();
                assert!(first[rows - 1].as_f64().unwrap() > 20.0, "{first:?}");
            }
        }
    }
}

#[test]
fn idle_is_what_nothing_takes_and_containers_add_up() {
    let open = open();
    let mut idle = request(1, "AbsPower", "acpi");
    idle["values"] = json!([[0, 0, 0, 0, 0, 0, 0, 0, 0]]);
    let idle_watts = ask(&open.socket, &idle)["powers"]["platform"][0].as_f64().unwrap();
    assert!(idle_watts > 50.0 && idle_watts < 250.0, "{idle_watts}");
    let dynamic = ask(&open.socket, &request(10, "DynPower", "acpi"));
    let watts: Vec<f64> =
        dynamic["powers"]["platform"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
    // Dynamic power is a straight line through the origin: the parts of a load are parts of its
    // power.
    let mut whole = request(1, "DynPower", "acpi");
    let sum = |column: usize| -> f64 {
        request(10, "DynPower", "acpi")["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[column].as_f64().unwrap())
            .sum()
    };
    whole["values"] = json!([(0..9).map(sum).collect::<Vec<f64>>()]);
    let all = ask(&open.socket, &whole)["powers"]["platform"][0].as_f64().unwrap();
    assert!((watts.iter().sum::<f64>() - all).abs() < 0.01, "{watts:?} {all}");
}

#[test]
fn nothing_that_is_sent_kills_it() {
    let open = open();
    let good = request(2, "AbsPower", "acpi");
    let with = |field: &str, value: Value| {
        let mut request = good.clone();
        request[field] = value;
        request.to_string().into_bytes()
    };
    let without = |field: &str| {
        let mut request = good.clone();
        request.as_object_mut().unwrap().remove(field);
        request.to_string().into_bytes()
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("unknown source", with("source", json!("sun")), "sun"),
        ("unknown trainer", with("trainer_name", json!("MagicTrainer")), "MagicTrainer"),
        ("a list for the trainer", with("trainer_name", json!([])), "failed to handle request"),
        ("unknown output type", with("output_type", json!("Power")), "output type Power is not supported"),
        ("empty metrics", with("metrics", json!([])), "failed to handle request"),
        ("no rows", with("values", json!([])), "values is empty"),
        ("a short row", with("values", json!([[1, 2]])), "values[0]"),
        (
            "text for a number",
            with("values", json!([["1", 2, 3, 4, 5, 6, 7, 8, 9]])),
            "failed to handle request",
        ),
        (
            "an object inside",
            with("values", json!([[{}, 2, 3, 4, 5, 6, 7, 8, 9]])),
            "failed to handle request",
        ),
        ("an unknown field", with("node_type", json!(0)), "node_type"),
        ("no source", without("source"), "source"),
        ("no values", without("values"), "values"),
        ("too few system values", with("system_values", json!([])), "system_values"),
        ("a filter that nothing passes", with("filter", json!("mae:0.0001")), "filter"),
        ("a filter without a number", with("filter", json!("mae:small")), "filter"),
        ("NaN", good.to_string().replacen("15000.0", "NaN", 1).into_bytes(), "failed to handle request"),
        ("no end", good.to_string().replacen("15000.0", "1e999", 1).into_bytes(), "failed to handle request"),
        ("no JSON", b"power, please}".to_vec(), "failed to handle request"),
        ("a list", b"[1]}".to_vec(), "failed to handle request"),
        ("not UTF-8", b"\xff\xfe\x00}".to_vec(), "failed to handle request"),
        (
            "features that nobody learned from",
            {
                let mut request = good.clone();
                request["metrics"] = json!(["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
                request.to_string().into_bytes()
            },
            "bpf_cpu_time_ms",
        ),
    ];
    for (what, bytes, word) in cases {
        let reply = ask_bytes(&open.socket, &bytes);
        assert_eq!(reply["powers"], json!({}), "{what}: an object, also where it is empty");
        assert!(reply["msg"].as_str().unwrap().contains(word), "{what}: {reply}");
        assert_eq!(ask(&open.socket, &good)["msg"], "", "after {what}");
    }
    // Platform sources without predictors of their own, and a trainer that exists elsewhere, are
    // answered.
    for field in [
        ("source", json!("redfish")),
        ("source", json!("hmc")),
        ("trainer_name", json!("SGDRegressorTrainer")),
    ] {
        assert_eq!(ask_bytes(&open.socket, &with(field.0, field.1.clone()))["msg"], "", "{field:?}");
    }
}

#[test]
fn clients_that_say_nothing_or_half_of_it_make_nobody_wait() {
    let open = open();
    let good = request(3, "AbsPower", "acpi");
    drop(connect(&open.socket));
    let blank = connect(&open.socket);
    (&blank).write_all(b" \n ").unwrap();
    drop(blank);
    // More of them than threads that accept; all stay connected.
    let text = good.to_string();
    let mut halves: Vec<UnixStream> = (0..20).map(|_| connect(&open.socket)).collect();
    for half in &mut halves {
        half.write_all(&text.as_bytes()[..text.len() / 2]).unwrap();
    }
    assert_eq!(ask(&open.socket, &good)["msg"], "");
    // Half a request and then nothing more is refused, and one that goes on is answered.
    let mut gone = halves.pop().unwrap();
    gone.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = String::new();
    gone.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("failed to handle request"), "{reply}");
    let mut late = halves.pop().unwrap();
    late.write_all(&text.as_bytes()[text.len() / 2..]).unwrap();
    let mut reply = String::new();
    late.read_to_string(&mut reply).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&reply).unwrap()["msg"], "");
}

#[test]
fn clients_that_send_byte_by_byte_make_nobody_wait() {
    let open = open();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    // More of them than threads that accept, none of which ever pauses for long.
    let drip = |stream: UnixStream| {
        let stop = stop.clone();
        std::thread::spawn(move || {
            let mut is_open = (&stream).write_all(b"{\"metrics\":[\"").is_ok();
            while is_open && !stop.load(std::sync::atomic::Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(2));
                is_open = (&stream).write_all(b"a").is_ok();
            }
        })
    };
    let drips: Vec<_> = (0..8).map(|_| drip(connect(&open.socket))).collect();
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..20 {
        assert_eq!(ask(&open.socket, &request(3, "AbsPower", "acpi"))["msg"], "");
    }
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    drips.into_iter().for_each(|drip| drip.join().unwrap());
}

#[test]
fn clients_that_send_nothing_keep_nobody_out_and_the_oldest_makes_room() {
    let open = open();
    let mut silent: Vec<UnixStream> = (0..300).map(|_| connect(&open.socket)).collect();
    for _ in 0..20 {
        assert_eq!(ask(&open.socket, &request(3, "AbsPower", "acpi"))["msg"], "");
    }
    let mut reply = String::new();
    silent[0].read_to_string(&mut reply).unwrap();
    assert!(reply.contains("too many clients"), "{reply}");
    let last = silent.last_mut().unwrap();
    last.write_all(request(1, "AbsPower", "acpi").to_string().as_bytes()).unwrap();
    let mut reply = String::new();
    last.read_to_string(&mut reply).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&reply).unwrap()["msg"], "", "a late client is answered");
}

#[test]
fn a_brace_inside_a_text_ends_nothing() {
    let open = open();
    let mut good = request(1, "AbsPower", "acpi");
    good["system_values"] = json!(["}"]);
    let text = good.to_string();
    let cut = text.find("\"}\"").unwrap() + 2;
    let mut stream = connect(&open.socket);
    stream.write_all(&text.as_bytes()[..cut]).unwrap();
    std::thread::yield_now();
    stream.write_all(&text.as_bytes()[cut..]).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&reply).unwrap()["msg"], "", "{reply}");
}

#[test]
fn a_hundred_megabytes_are_refused_and_not_kept() {
    let open = open();
    let mut stream = connect(&open.socket);
    let piece = vec![b'1'; 1 << 20];
    stream.write_all(b"{\"metrics\":[\"").unwrap();
    for _ in 0..100 {
        stream.write_all(&piece).unwrap();
    }
    stream.write_all(b"\"]}").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("more than"), "{reply}");
    assert_eq!(ask(&open.socket, &request(1, "AbsPower", "acpi"))["msg"], "");
}

#[test]
fn clients_that_hold_large_requests_are_kept_within_bounds_and_stop_nobody() {
    let open = open();
    let mut half = b"{\"metrics\":[\"".to_vec();
    half.resize(900 << 10, b'a');
    let mut held: Vec<UnixStream> = (0..20).map(|_| connect(&open.socket)).collect();
    for stream in &mut held {
        stream.write_all(&half).unwrap();
    }
    assert_eq!(ask(&open.socket, &request(3, "AbsPower", "acpi"))["msg"], "");
    let mut crowded = 0;
    for stream in &mut held {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.contains("failed to handle request") && reply.len() < 2000, "{reply}");
        crowded += usize::from(reply.contains("at once; try again"));
    }
    assert!(crowded >= 11, "{crowded} of 20 found no room");
}

#[test]
fn what_no_exporter_could_read_is_refused_and_sums_hold_up_to_there() {
    let open = open();
    let good = |rows: usize| {
        let mut request = request(rows, "DynPower", "intel_rapl");
        let row = |row: usize| -> Vec<f64> {
            let load = if row == 0 { 0.3 } else { 0.7 / (rows - 1) as f64 };
            vec![15_000.0 * load, 3.0, 1.0, 2.0, 0.0, 4e10 * load, 4e10 * load, 5e10 * load, 1e8 * load]
        };
        request["values"] = json!((0..rows).map(row).collect::<Vec<_>>());
        ask(&open.socket, &request)
    };
    let sum = |reply: &Value| -> f64 {
        let watts = reply["powers"]["package"].as_array().unwrap();
        watts.iter().map(|watts| watts.as_f64().unwrap()).sum()
    };
    let (few, many) = (good(20), good(400));
    assert_eq!(many["msg"], "");
    assert!((sum(&few) - sum(&many)).abs() < 1.0, "{} {}", sum(&few), sum(&many));
    let reply = good(600);
    assert_eq!(reply["powers"], json!({}));
    let why = reply["msg"].as_str().unwrap();
    assert!(why.contains("600 rows") && why.contains("4096 bytes"), "{why}");
    for (field, value) in [("x".repeat(9000), json!(1)), ("values".to_string(), json!("x".repeat(9000)))] {
        let mut wrong = request(1, "AbsPower", "acpi");
        wrong[field] = value;
        let why = ask(&open.socket, &wrong)["msg"].as_str().unwrap().to_string();
        assert!(why.starts_with("failed to handle request") && why.len() < 1100, "{why}");
    }
}

#[test]
fn many_clients_are_answered_at_once_and_each_gets_its_own() {
    let open = open();
    std::thread::scope(|scope| {
        for client in 1..=8usize {
            let socket = open.socket.clone();
            scope.spawn(move || {
                for _ in 0..100 {
                    let reply = ask(&socket, &request(client, "DynPower", "acpi"));
                    assert_eq!(reply["powers"]["platform"].as_array().unwrap().len(), client);
                }
            });
        }
    });
    assert!(open.door.figures.answered.load(std::sync::atomic::Ordering::Relaxed) >= 800);
}

#[test]
fn the_socket_is_for_its_user_and_group_and_goes_with_the_door() {
    let open = open();
    let mode = std::fs::metadata(&open.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let estimator = || Arc::new(PowerEstimator::new(PipelineRegistry::default(), machine()).unwrap());
    let taken = EstimatorDoor::open(&open.socket, estimator()).unwrap_err();
    assert!(taken.to_string().contains("another program listens"), "{taken}");
    let socket = open.socket.clone();
    drop(open.door);
    assert!(!socket.exists());
    // One that a killed predecessor left is replaced; a file is not.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    drop(EstimatorDoor::open(&socket, estimator()).unwrap());
    std::fs::write(&socket, "mine").unwrap();
    assert!(EstimatorDoor::open(&socket, estimator()).unwrap_err().to_string().contains("no socket"));
}

#[test]
fn a_small_machine_unlike_any_gets_the_physical_fallback() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let small = MachineSpec {
        cores: Some(2.0),
        processor: Some("intel_xeon_gold_6230".into()),
        ..MachineSpec::default()
    };
    // With what is shipped among the pipelines, as `metier serve` has it.
    let (shelf, _) = metier_power::catalog::PipelineCatalog::open(Vec::new(), None).unwrap();
    let estimator = Arc::new(PowerEstimator::new((*shelf.registry()).clone(), small).unwrap());
    let _door = EstimatorDoor::open(&socket, estimator.clone()).unwrap();
    let mut busy = request(1, "AbsPower", "acpi");
    busy["values"][0][0] = json!(2000.0);
    let reply = ask(&socket, &busy);
    assert_eq!((reply["msg"].as_str(), reply["core_ratio"].as_f64()), (Some(""), Some(1.0)));
    let watts = reply["powers"]["platform"][0].as_f64().unwrap();
    assert!(watts > 10.0 && watts < 30.0, "two of many cores of a Xeon Gold: {watts}");
    assert_eq!(estimator.in_use()[0].pipeline, "fallback");
    assert_eq!(estimator.in_use()[0].predictor, "intel_xeon_gold");
}

/// Asks the model server itself, as a client would, over a connection.
mod models {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;

    use metier_power::catalog::PipelineCatalog;
    use metier_server::AccessToken;
    use metier_server::kepler::KeplerServices;
    use serde_json::{Value, json};

    const TOKEN: &str = "a-token-that-is-long";

    /// Serves until the tests end.
    fn serve(uploads: Option<std::path::PathBuf>, listen: &str) -> SocketAddr {
        let (shelf, _) = PipelineCatalog::open(Vec::new(), uploads).unwrap();
        let services = KeplerServices {
            models: Some(listen.parse().unwrap()),
            token: Some(AccessToken::new(TOKEN).unwrap()),
            ..KeplerServices::new(Arc::new(shelf))
        };
        let serving = services.run_in_background().unwrap();
        let port = serving.opened.models.unwrap().port();
        std::mem::forget(serving);
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn ask(address: SocketAddr, line: &str, headers: &str, body: &str) -> (u16, String) {
        let (status, _, body) = ask_bytes(address, line, headers, body);
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    fn ask_bytes(address: SocketAddr, line: &str, headers: &str, body: &str) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&reply[..end]).to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, reply[end + 4..].to_vec())
    }

    const JSON: &str = "Content-Type: application/json\r\n";

    fn model(address: SocketAddr, body: &Value) -> (u16, Value) {
        let (status, body) = ask(address, "POST /model", JSON, &body.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    #[test]
    fn weights_come_as_the_exporter_wants_them() {
        let address = serve(None, "127.0.0.1:0");
        let wanted = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "AbsPower", "source": "acpi", "weight": true });
        let (status, body) = model(address, &wanted);
        assert_eq!((status, &body["model_name"]), (200, &json!("LinearRegressionTrainer_0")), "{body}");
        assert!(body["platform"]["All_Weights"]["Bias_Weight"].as_f64().unwrap() > 50.0);
        assert!(body["mae"].is_number() && body["machine_spec"]["cores"] == 40, "{body}");
        // A node type that was named: only the weights.
        let mut named = wanted.clone();
        named["node_type"] = json!(0);
        let (status, body) = model(address, &named);
        assert_eq!(status, 200);
        assert!(body.get("model_name").is_none() && body.get("platform").is_some(), "{body}");
        // The same by an address.
        let query = "GET /model?metrics=bpf_cpu_time_ms,bpf_page_cache_hit&output_type=AbsPower&source=acpi&weight=true";
        assert_eq!(ask(address, query, "", "").0, 200);
    }

    #[test]
    fn the_exporters_own_request_is_answered_with_nothing_configured() {
        let address = serve(None, "127.0.0.1:0");
        let machine = json!({ "vendor": "x", "processor": "intel_xeon_gold_6230", "cores": 8, "chips": 1, "memory": 31, "frequency": 2100, "threads_per_core": 2 });
        for (source, component) in [("acpi", "platform"), ("intel_rapl", "package")] {
            for output_type in ["AbsPower", "DynPower"] {
                let wanted = json!({ "metrics": super::METRICS, "output_type": output_type, "source": source, "node_type": 0, "weight": true,
                    "trainer_name": "SGDRegressorTrainer", "filter": "", "machine_spec": machine });
                let (status, body) = model(address, &wanted);
                assert_eq!(status, 200, "{source} {output_type}: {body}");
                // What the exporter's linear predictor reads; of a name that it does not know it
                // takes what it asked for.
                let weights = &body[component]["All_Weights"];
                assert!(
                    weights["Bias_Weight"].is_number() && weights.get("CurveFit_Weights").is_none(),
                    "{body}"
                );
                let first = weights["Numerical_Variables"].as_object().unwrap().values().next().unwrap();
                assert!(first["scale"].is_number() && first["weight"].is_number(), "{body}");
            }
        }
        let curve = json!({ "metrics": super::METRICS, "output_type": "AbsPower", "source": "acpi", "weight": true, "trainer_name": "LogarithmicRegressionTrainer" });
        assert_eq!(model(address, &curve).0, 400, "a line is no curve");
    }

    #[test]
    fn refusals_are_short_whatever_was_sent() {
        let address = serve(None, "127.0.0.1:0");
        let wanted = json!({ "metrics": ["x".repeat(100_000)], "output_type": "AbsPower", "source": "acpi" });
        let (status, body) = ask(address, "POST /model", JSON, &wanted.to_string());
        assert!(status == 400 && body.contains("cannot find model") && body.len() < 2000, "{}", body.len());
        let wanted = json!({ "metrics": ["x".repeat(300_000)], "output_type": "AbsPower", "source": "acpi" });
        let (status, body) = ask(address, "POST /model", JSON, &wanted.to_string());
        assert!(status == 413 && body.contains("262144 bytes"), "{body}");
        let wanted = json!({ "metrics": [], "output_type": "AbsPower", "machine_spec": "x".repeat(100_000) });
        assert!(ask(address, "POST /model", JSON, &wanted.to_string()).1.len() < 2000);
    }

    #[test]
    fn an_archive_of_what_has_only_weights_is_a_zip_with_them() {
        let address = serve(None, "127.0.0.1:0");
        let wanted = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "AbsPower", "source": "acpi" });
        let (status, head, zip) = ask_bytes(address, "POST /model", JSON, &wanted.to_string());
        assert!(status == 200 && head.contains("application/zip") && head.contains("etag: "), "{head}");
        let name = head.split("filename=").nth(1).unwrap().split(".zip").next().unwrap().to_string();
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
        let mut member = |name: &str| -> Value {
            let mut text = String::new();
            archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let (about, weights) = (member("metadata.json"), member("weight.json"));
        assert_eq!(about["model_name"].as_str().unwrap().to_lowercase(), name);
        assert!(about["mae"].is_number() && about["machine_spec"]["cores"] == 40, "{about}");
        let read = metier_power::weights::KeplerWeights::read(&weights).unwrap();
        let formulas = read.formulas(about["trainer"].as_str().unwrap()).unwrap();
        assert!(formulas[0].1.watts(&[0.0, 0.0]).unwrap() > 20.0);
    }

    #[test]
    fn what_is_wrong_is_a_400_that_names_the_field() {
        let address = serve(None, "127.0.0.1:0");
        let good = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "AbsPower", "source": "acpi" });
        for (field, value, word) in [
            ("source", json!("sun"), "sun"),
            ("source", json!("hmc"), "hmc"),
            ("output_type", json!("Power"), "AbsPower"),
            ("metrics", json!("all"), "metrics"),
            ("metrics", json!([]), "cannot find model"),
            ("weight", json!("maybe"), "true or false"),
            ("filter", json!("mae:small"), "filter"),
            ("filter", json!("mae:0.0001"), "cannot find model"),
            ("machine_spec", json!({ "cores": "many" }), "cores"),
            ("node_type", json!("x"), "node_type"),
            ("threshold", json!(1), "threshold"),
        ] {
            let mut body = good.clone();
            body[field] = value.clone();
            let (status, reply) = model(address, &body);
            assert!(status == 400 && reply.to_string().contains(word), "{field} {value}: {status} {reply}");
        }
        assert_eq!(ask(address, "POST /model", JSON, "{").0, 400);
        assert_eq!(ask(address, "POST /model", "", "{}").0, 415);
        assert_eq!(ask(address, "GET /best-models?feature-group=Nothing", "", "").0, 400);
        let (status, best) = ask(address, "GET /best-models?energy-source=acpi", "", "");
        let best: Value = serde_json::from_str(&best).unwrap();
        assert_eq!((status, &best["AbsPower"]["CounterOnly"]), (200, &json!("AutoTrainer_0")), "{best}");
        assert_eq!(
            ask(address, "GET /best-models?node-type=99999", "", "").1,
            r#"{"AbsPower":{},"DynPower":{}}"#
        );
    }

    #[test]
    fn uploads_need_the_token_and_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let address = serve(Some(folder.path().to_path_buf()), "127.0.0.1:0");
        let body = json!({ "pipeline": "ours", "model_name": "SGDRegressorTrainer_0", "source": "acpi", "output_type": "DynPower", "feature_group": "BPFOnly", "mae": 0.5,
            "weights": { "platform": { "All_Weights": { "Bias_Weight": 0.0, "Numerical_Variables": {
                "bpf_cpu_time_ms": { "scale": 1000.0, "weight": 7.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 0.0 } } } } } });
        assert_eq!(ask(address, "POST /models", JSON, &body.to_string()).0, 401);
        assert_eq!(
            ask(address, "POST /reload", "Authorization: Bearer a-token-that-is-wrong\r\n", "").0,
            401
        );
        let shown = format!("{JSON}Authorization: Bearer {TOKEN}\r\n");
        assert_eq!(ask(address, "POST /models", &shown, "{}").0, 400);
        let (status, reply) = ask(address, "POST /models", &shown, &body.to_string());
        assert_eq!(status, 201, "{reply}");
        let wanted = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "DynPower", "source": "acpi", "weight": true });
        assert_eq!(model(address, &wanted).1["model_name"], "SGDRegressorTrainer_0");
        let (status, list) = ask(address, "GET /models?pipeline=ours", "", "");
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(
            (status, &list["count"], &list["predictors"][0]["active"]),
            (200, &json!(1), &json!(true))
        );
        let (_, metrics) = ask(address, "GET /metrics", "", "");
        assert!(
            metrics.contains(
                "metier_power_predictor_given_total{pipeline=\"ours\",predictor=\"SGDRegressorTrainer_0\""
            ),
            "{metrics}"
        );
        assert_eq!(ask(address, "POST /reload", &shown, "").0, 200);
        // Weights of other features or of another component would never answer.
        for (from, to, word) in [
            ("\"mae\"", "\"machine_specs\":{},\"mae\"", "a field machine_specs"),
            ("bpf_page_cache_hit", "cache_miss", "features of BPFOnly"),
            ("\"platform\"", "\"package\"", "no component of acpi"),
        ] {
            let (status, reply) = ask(address, "POST /models", &shown, &body.to_string().replace(from, to));
            assert!(status == 400 && reply.contains(word), "{reply}");
        }
        // What cannot be kept is not the client's fault.
        std::fs::remove_dir_all(folder.path()).unwrap();
        std::fs::write(folder.path(), "in the way").unwrap();
        let (status, reply) = ask(address, "POST /models", &shown, &body.to_string());
        std::fs::remove_file(folder.path()).unwrap();
        assert!(status == 500 && reply.contains("\"field\":\"upload\""), "{reply}");
    }

    #[test]
    fn a_closed_server_lets_only_probes_in() {
        let address = serve(None, "0.0.0.0:0");
        assert_eq!(ask(address, "GET /models", "", "").0, 401);
        assert_eq!(ask(address, "GET /healthz", "", "").0, 200);
        assert_eq!(ask(address, "GET /models", &format!("Authorization: Bearer {TOKEN}\r\n"), "").0, 200);
    }
}
