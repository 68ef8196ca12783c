//! `metier power query` against a real Prometheus that holds Kepler's series of a known time, and
//! one that goes away in between.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{self, Place};
use serde_json::Value;

/// Two days ago on the hour: inside of what Prometheus keeps, and whole blocks.
fn start() -> i64 {
    let now = metier_types::UtcTimestamp::now().as_second();
    (now - 2 * 86_400) / 7200 * 7200
}

/// Ten minutes of a node in phases, as OpenMetrics.
fn series(start: i64) -> String {
    let mut text = String::new();
    let load = |at: i64| {
        if (at / 10) % 3 == 0 { 20.0 } else { 200.0 * ((at / 10) % 3) as f64 + 10.0 * (at % 7) as f64 }
    };
    for (feature, per_ms) in [("bpf_cpu_time_ms", 1.0), ("bpf_page_cache_hit", 0.5)] {
        let _ = writeln!(text, "# TYPE kepler_container_{feature} counter");
        let mut sum = 0.0;
        for at in 0..200 {
            sum += load(at) * per_ms * 3.0;
            let labels = r#"container_id="1",pod_name="p",container_name="c",container_namespace="n",command="a \"b\"""#;
            let _ = writeln!(text, "kepler_container_{feature}_total{{{labels}}} {sum} {}", start + 3 * at);
        }
    }
    let _ = writeln!(text, "# TYPE kepler_node_platform_joules counter");
    let mut sum = 0.0;
    for at in 0..200 {
        sum += 3.0 * (50.0 + 0.04 * load(at));
        let _ = writeln!(
            text,
            "kepler_node_platform_joules_total{{source=\"acpi\",mode=\"dynamic\"}} {sum} {}",
            start + 3 * at
        );
    }
    let _ = writeln!(
        text,
        "# TYPE other_thing gauge\nother_thing 1 {start}\n# TYPE unasked gauge\nunasked 1 {start}\n# EOF"
    );
    text
}

/// A Prometheus of its own.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// With these series in its store; `None` where the programs are not here.
    fn start(place: &Place, text: &str) -> Option<Self> {
        if ["prometheus", "promtool"].iter().any(|name| Command::new(name).arg("--version").output().is_err())
        {
            eprintln!("SKIP: needs prometheus and promtool because a real one is asked");
            return None;
        }
        fs::create_dir_all(place.path("prom")).unwrap();
        fs::write(place.path("prom/series.txt"), text).unwrap();
        fs::write(place.path("prom/prometheus.yml"), "").unwrap();
        let made = Command::new("promtool")
            .current_dir(place.path("prom"))
            .args(["tsdb", "create-blocks-from", "openmetrics", "series.txt", "data"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // A port that was free a moment ago may be taken: another one then.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let address = format!("127.0.0.1:{port}");
            let mut child = Command::new("prometheus")
                .current_dir(place.path("prom"))
                .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
                .arg(format!("--web.listen-address={address}"))
                .stderr(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
            let is_ready =
                lines.by_ref().any(|line| line.contains("Server is ready to receive web requests"));
            std::thread::spawn(move || lines.for_each(drop));
            let prometheus = Self { child, address };
            if is_ready {
                return Some(prometheus);
            }
        }
        panic!("prometheus does not start");
    }
}

fn times(start: i64) -> [String; 2] {
    [start, start + 597].map(|second| metier_types::UtcTimestamp::from_second(second).unwrap().to_string())
}

#[test]
fn keplers_series_come_from_a_real_prometheus_and_can_be_learned_from() {
    let place = Place::new();
    let start = start();
    let Some(prometheus) = Prometheus::start(&place, &series(start)) else { return };
    let [from, to] = times(start);
    let server = format!("http://{}", prometheus.address);
    let words = [
        "power",
        "query",
        "-s",
        &server,
        "-o",
        "load",
        "--start-time",
        &from,
        "--end-time",
        &to,
        "--benchmark",
        "bench",
        "-tm",
        "other_thing",
        "--to-csv",
        "--id",
        "here",
    ];
    let table = place.ok(&words);
    assert!(table.contains("kepler_node_platform_joules_total") && !table.contains("unasked"), "{table}");
    let response: Value = serde_json::from_slice(&fs::read(place.path("load.json")).unwrap()).unwrap();
    let one = &response["kepler_container_bpf_cpu_time_ms_total"][0];
    assert_eq!(
        (one["metric"]["command"].as_str(), one["values"].as_array().unwrap().len()),
        (Some("a \"b\""), 200)
    );
    assert_eq!((&one["values"][0][0], one["values"][1][1].as_str()), (&Value::from(start), Some("120")));
    assert!(response.get("other_thing").is_some() && response.get("unasked").is_none());
    for file in [
        "bench.json",
        "load_validate_result.csv",
        "load_csv/kepler_node_platform_joules_total.csv",
        "machine_spec/here.json",
    ] {
        assert!(place.path(file).is_file(), "{file}");
    }
    assert!(!place.path("load.parts").exists());
    let bench: Value = serde_json::from_slice(&fs::read(place.path("bench.json")).unwrap()).unwrap();
    assert_eq!(bench["startTimeUTC"], from.as_str());
    // The benchmark's times again give the same.
    place.ok(&["power", "query", "-s", &server, "-i", "bench", "-o", "again", "-tm", "other_thing"]);
    assert_eq!(fs::read(place.path("load.json")).unwrap(), fs::read(place.path("again.json")).unwrap());
    let learned = place.json(&[
        "-o",
        "json",
        "power",
        "train",
        "-i",
        "load",
        "-p",
        "mine",
        "-e",
        "acpi",
        "--abs-trainers",
        "LinearRegressionTrainer",
        "--dyn-trainers",
        "LinearRegressionTrainer",
    ]);
    assert!(learned["predictors"][0]["mae"].as_f64().unwrap() < 0.5, "{learned}");
    let (_, error) = place.fails(&[
        "power",
        "query",
        "-s",
        &server,
        "-i",
        "bench",
        "-o",
        "x",
        "--metric-prefix",
        "nobody_",
    ]);
    assert!(error.contains("nobody_") && error.contains("metric prefix"), "{error}");
}

/// Passes on what a real server says, until so many range queries came; then it says 500 to them.
fn failing(server: &str, most: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (server, asked) = (server.to_string(), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut head = String::new();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            if head.contains("query_range") && count.fetch_add(1, Ordering::SeqCst) >= most {
                let _ = client.write_all(
                    b"HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                );
                continue;
            }
            let first = head.lines().next().unwrap_or_default();
            let mut real = TcpStream::connect(&server).unwrap();
            write!(real, "{first}\r\nHost: {server}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            real.read_to_end(&mut answer).unwrap();
            let _ = client.write_all(&answer);
        }
    });
    (address, asked)
}

#[test]
fn a_query_that_was_broken_off_asks_only_for_what_is_missing() {
    let place = Place::new();
    let start = start();
    let Some(prometheus) = Prometheus::start(&place, &series(start)) else { return };
    let [from, to] = times(start);
    let ask = |address: &str| {
        place
            .command(&[
                "power",
                "query",
                "-s",
                address,
                "-o",
                "load",
                "--start-time",
                &from,
                "--end-time",
                &to,
            ])
            .env("PROM_QUERY_STEP", "3")
            .output()
            .unwrap()
    };
    // One address for both tries: it is part of the question.
    let (address, asked) = failing(&prometheus.address, 2);
    let (code, error) = common::refusal(&ask(&address));
    assert!(code == 1 && error.contains("422"), "{error}");
    assert!(place.path("load.parts").is_dir() && !place.path("load.json").exists());
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    asked.store(1, Ordering::SeqCst);
    let again = ask(&address);
    assert!(again.status.success(), "{}", common::stderr(&again));
    assert!(common::stderr(&again).contains("2 of 3 metrics are here already"), "{}", common::stderr(&again));
    assert_eq!(asked.load(Ordering::SeqCst), 2, "only the third was asked for");
    let response: Value = serde_json::from_slice(&fs::read(place.path("load.json")).unwrap()).unwrap();
    assert_eq!(response.as_object().unwrap().len(), 3);
    assert!(!place.path("load.parts").exists());
}

#[test]
fn plain_http_needs_no_certificate_authorities() {
    let place = Place::new();
    let start = start();
    let Some(prometheus) = Prometheus::start(&place, &series(start)) else { return };
    let query = |scheme: &str, output: &str| {
        let ([from, to], server) = (times(start), format!("{scheme}://{}", prometheus.address));
        let span = ["--start-time", &from, "--end-time", &to];
        let mut command =
            place.command(&[&["power", "query", "-s", &server, "-o", output], &span[..]].concat());
        command.env("SSL_CERT_FILE", "/nonexistent/bundle.pem").env("SSL_CERT_DIR", "/nonexistent");
        command.output().unwrap()
    };
    let output = query("http", "load");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read_to_string(place.path("load.json")).unwrap().contains("kepler_container"));
    let (_, error) = common::refusal(&query("https", "other"));
    assert!(error.contains(&prometheus.address), "{error}");
}

#[test]
fn a_query_that_saved_nothing_keeps_no_time() {
    let place = Place::new();
    for _ in 0..2 {
        let (code, error) = place.fails(&["power", "query", "-s", "http://127.0.0.1:1", "-o", "load"]);
        assert!(code != 0 && error.contains("127.0.0.1:1"), "{error}");
        assert!(!place.path("load.parts").exists(), "another try is of its own time");
    }
}

#[test]
fn a_query_shows_the_token_that_prometheus_wants() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let head = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = String::new();
        let mut reader = BufReader::new(client.try_clone().unwrap());
        while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
        let _ = client.write_all(
            b"HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        head
    });
    fs::write(place.path("token"), "let-me-in\n").unwrap();
    place.fails(&["power", "query", "-s", &address, "--prometheus-token-file", "token", "-o", "load"]);
    let head = head.join().unwrap().to_ascii_lowercase();
    assert!(head.contains("authorization: bearer let-me-in"), "{head}");
    let (_, error) =
        place.fails(&["power", "query", "-s", &address, "--prometheus-token-file", "none", "-o", "load"]);
    assert!(error.contains("token file none"), "{error}");
}

#[test]
fn of_a_prometheus_with_several_nodes_that_of_one_is_saved_where_it_is_named() {
    let place = Place::new();
    let start = start();
    let text = series(start).replace('{', "{instance=\"a\",");
    let energy = text.lines().filter(|line| line.starts_with("kepler_node_"));
    let other: String = energy.map(|line| line.replace("instance=\"a\"", "instance=\"b\"") + "\n").collect();
    let text = text.replace("# TYPE other_thing", &format!("{other}# TYPE other_thing"));
    let Some(prometheus) = Prometheus::start(&place, &text) else { return };
    let [from, to] = times(start);
    let server = format!("http://{}", prometheus.address);
    let asked = |name: &str, only: &[&str]| {
        let words = ["power", "query", "-s", &server, "-o", name, "--start-time", &from, "--end-time", &to];
        let output = place.command(&[&words[..], only].concat()).output().unwrap();
        let response: Value =
            serde_json::from_slice(&fs::read(place.path(&format!("{name}.json"))).unwrap()).unwrap();
        let energy = response["kepler_node_platform_joules_total"].as_array().unwrap().clone();
        (energy, String::from_utf8(output.stderr).unwrap())
    };
    let (energy, said) = asked("all", &[]);
    assert_eq!(energy.len(), 2);
    assert!(said.contains("energy is of 2 nodes (a, b)") && said.contains("--only instance=a"), "{said}");
    let (energy, said) = asked("one", &["--only", "instance=b"]);
    assert!(energy.len() == 1 && energy[0]["metric"]["instance"] == "b", "{energy:?}");
    assert!(!said.contains("nodes"), "{said}");
    let (_, error) = place.fails(&["power", "query", "-s", &server, "-o", "x", "--only", "instance"]);
    assert!(error.contains("--only") && error.contains("LABEL=VALUE"), "{error}");
}
