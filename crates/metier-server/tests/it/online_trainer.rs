//! The online trainer with a real Prometheus that scrapes an exporter with Kepler's metric names.
//! The trained predictor replaces the fallback, stays until a better one is trained, and stays in
//! use when Prometheus is gone.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::kepler_terms::{EnergySource, OutputType};
use metier_power::node::MachineSpec;
use metier_power::online::{self, promotions};
use metier_power::pipeline::PipelineLocation;
use metier_server::kepler::{KeplerServices, OnlineTrainerConfig};
use serde_json::{Value, json};

/// Ends with the test, however that ends.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An exporter of a machine that takes so many watts at rest, and 0.1 W for each millisecond of
/// processor time a second.
///
/// Each scrape is 0.1 s of its own time, so that power goes with load whenever scrapes come.
fn exporter(idle: f64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut milliseconds, mut hits, mut joules, mut scrapes) = (0.0, 0.0, 0.0, 0u64);
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0u8; 4096]);
            // The load changes every two seconds.
            let load = 200.0 + 150.0 * ((scrapes / 20 * 7) % 11) as f64;
            (milliseconds, hits, scrapes) = (milliseconds + 0.1 * load, hits + 1.0, scrapes + 1);
            joules += 0.1 * (idle + 0.1 * load);
            let labels =
                "container_id=\"a\",pod_name=\"p\",container_name=\"work\",container_namespace=\"n\"";
            let mut text = String::new();
            for (name, labels, value) in [
                ("kepler_container_bpf_cpu_time_ms_total", labels, milliseconds),
                ("kepler_container_bpf_page_cache_hit_total", labels, hits),
                ("kepler_node_platform_joules_total", "source=\"acpi\",mode=\"dynamic\"", joules),
            ] {
                writeln!(text, "# TYPE {name} counter\n{name}{{{labels}}} {value}").unwrap();
            }
            let length = text.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(format!("{head}{text}").as_bytes());
        }
    });
    address
}

fn start(folder: &Path, targets: &[SocketAddr]) -> (Prometheus, SocketAddr) {
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = folder.join("prometheus.yml");
    let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
    let targets = targets.join(", ");
    let text = format!(
        "global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}\nscrape_configs:\n  - {{job_name: kepler, static_configs: [{{targets: [{targets}]}}]}}\n"
    );
    std::fs::write(&config, text).unwrap();
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={listen}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (Prometheus(child), listen)
}

fn metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// The value of the first sample whose line has all these words; 0 where there is none.
fn value(page: &str, words: &[&str]) -> f64 {
    let line =
        page.lines().find(|line| !line.starts_with('#') && words.iter().all(|word| line.contains(word)));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// Waits until that holds of the trainer's metrics; five minutes at most: whether the next
/// candidate is better is up to the load that it saw.
fn until(address: SocketAddr, what: &str, holds: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    loop {
        let page = metrics(address);
        if holds(&page) {
            eprintln!("{what}: after {:.1} s", begun.elapsed().as_secs_f64());
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}: {page}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn watts(socket: &Path, load: f64) -> f64 {
    let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "values": [[load, 10.0]], "output_type": "AbsPower", "source": "acpi",
        "system_features": [], "system_values": [] });
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(request.to_string().as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let reply: Value = serde_json::from_str(&reply).unwrap();
    reply["powers"]["platform"][0].as_f64().unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn what_the_online_trainer_does_is_told_wherever_there_are_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Arc::new(PipelineCatalog::open(Vec::new(), None).unwrap().0);
    let estimator = PowerEstimator::new((*shelf.registry()).clone(), MachineSpec::default()).unwrap();
    // The port is free again, so no program listens there.
    let unreachable = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let doors = KeplerServices {
        models: Some("127.0.0.1:0".parse().unwrap()),
        metrics: Some("127.0.0.1:0".parse().unwrap()),
        online: Some(OnlineTrainerConfig {
            prometheus: unreachable.to_string().parse().unwrap(),
            interval: Duration::from_millis(100),
            window: Duration::from_secs(60),
            step: Duration::from_secs(1),
            settings: online::OnlineSettings::new(folder.path().to_path_buf()),
            only: Vec::new(),
            node: None,
        }),
        estimator: Some(Arc::new(estimator)),
        ..KeplerServices::new(shelf)
    };
    let doors = doors.run_in_background().unwrap();
    for address in [doors.opened.models.unwrap(), doors.opened.metrics.unwrap()] {
        until(address, "failed", |page| value(page, &["metier_power_online_rounds_total", "failed"]) >= 1.0);
    }
    doors.stop();
}

#[test]
fn a_better_predictor_is_promoted_kept_and_outlives_prometheus() {
    if std::env::var_os("METIER_LAB_PROMETHEUS").is_none() {
        eprintln!("SKIP: needs the lab's Prometheus because METIER_LAB_PROMETHEUS is not set");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (prometheus, address) = start(folder.path(), &[exporter(150.0)]);
    let (socket, pipelines) = (folder.path().join("estimator.sock"), folder.path().join("pipelines"));
    std::fs::create_dir(&pipelines).unwrap();
    let open = || PipelineCatalog::open(vec![PipelineLocation::Path(pipelines.clone())], None).unwrap().0;
    let shelf = Arc::new(open());
    let machine = MachineSpec { cores: Some(2.0), ..MachineSpec::default() };
    let estimator = Arc::new(PowerEstimator::new((*shelf.registry()).clone(), machine).unwrap());
    let doors = KeplerServices {
        socket: Some(socket.clone()),
        trainer: Some("127.0.0.1:0".parse().unwrap()),
        online: Some(OnlineTrainerConfig {
            prometheus: address.to_string().parse().unwrap(),
            interval: Duration::from_millis(500),
            window: Duration::from_secs(60),
            step: Duration::from_millis(500),
            settings: online::OnlineSettings::new(pipelines.clone()),
            only: Vec::new(),
            node: None,
        }),
        estimator: Some(estimator.clone()),
        ..KeplerServices::new(shelf)
    };
    let doors = doors.run_in_background().unwrap();
    let trainer = doors.opened.trainer.unwrap();
    let fallback = watts(&socket, 1000.0);
    assert!(fallback < 120.0, "a machine of two cores that unreachable measured: {fallback}");

    // While too little is known nothing is decided, and that is said.
    let decisions = "metier_power_online_decisions_total";
    until(trainer, "short or promoted", |page| {
        value(page, &[decisions, "decision=\"short\""]) + value(page, &[decisions, "decision=\"promoted\""])
            > 0.0
    });
    until(trainer, "promoted", |page| {
        value(page, &[decisions, "acpi", "AbsPower", "decision=\"promoted\""]) >= 1.0
    });
    let learned = watts(&socket, 1000.0);
    assert!((learned - 250.0).abs() < 40.0, "150 W and 0.1 W for each of 1000 ms/s: {learned}");
    // Another may be promoted meanwhile, which empties the list of what is in use.
    until(trainer, "in use", |_| {
        watts(&socket, 1000.0) > fallback && estimator.in_use().iter().any(|one| one.pipeline == "online")
    });
    let promotion = &promotions(&pipelines.join("online"))[&(EnergySource::Acpi, OutputType::AbsPower)];
    assert!(promotion.before.is_some() && promotion.error < 40.0, "{promotion:?}");
    assert!(promotion.error < promotion.error_before.unwrap(), "{promotion:?}");

    // What is as good as what runs does not take its place.
    until(trainer, "kept", |page| {
        value(page, &[decisions, "acpi", "AbsPower", "decision=\"kept\""]) >= 1.0
            && value(page, &["metier_power_online_error_watts", "AbsPower", "who=\"running\"", "online/"])
                > 0.0
    });

    // Without Prometheus rounds fail, and what was learned goes on answering; also after a start.
    drop(prometheus);
    until(trainer, "failed", |page| value(page, &["metier_power_online_rounds_total", "failed"]) >= 1.0);
    assert!((watts(&socket, 1000.0) - 250.0).abs() < 40.0);
    doors.stop();
    assert_eq!(open().registry().active(EnergySource::Acpi).unwrap().name, "online");
}

#[test]
fn of_several_nodes_only_this_one_is_learned_from() {
    if std::env::var_os("METIER_LAB_PROMETHEUS").is_none() {
        eprintln!("SKIP: needs the lab's Prometheus because METIER_LAB_PROMETHEUS is not set");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (exporter(150.0), exporter(400.0));
    let (_prometheus, address) = start(folder.path(), &[own, other]);
    let open = |name: &str, only: Vec<(String, String)>, node: Option<String>| {
        let (socket, pipelines) = (folder.path().join(format!("{name}.sock")), folder.path().join(name));
        std::fs::create_dir(&pipelines).unwrap();
        let shelf =
            Arc::new(PipelineCatalog::open(vec![PipelineLocation::Path(pipelines.clone())], None).unwrap().0);
        let machine = MachineSpec { cores: Some(2.0), ..MachineSpec::default() };
        let estimator = PowerEstimator::new((*shelf.registry()).clone(), machine).unwrap();
        let doors = KeplerServices {
            socket: Some(socket.clone()),
            trainer: Some("127.0.0.1:0".parse().unwrap()),
            online: Some(OnlineTrainerConfig {
                prometheus: address.to_string().parse().unwrap(),
                interval: Duration::from_millis(500),
                window: Duration::from_secs(60),
                step: Duration::from_millis(500),
                settings: online::OnlineSettings::new(pipelines),
                only,
                node,
            }),
            estimator: Some(Arc::new(estimator)),
            ..KeplerServices::new(shelf)
        };
        (doors.run_in_background().unwrap(), socket)
    };
    let said = vec![("instance".to_string(), own.to_string())];
    // By what is said, by its own name, and, where neither tells, not at all.
    let (by_label, label_socket) = open("label", said, None);
    let (by_name, name_socket) = open("name", Vec::new(), Some(own.to_string()));
    let (unknown, _) = open("unknown", Vec::new(), Some("somebody".to_string()));
    let decisions = "metier_power_online_decisions_total";
    for (doors, socket) in [(&by_label, &label_socket), (&by_name, &name_socket)] {
        until(doors.opened.trainer.unwrap(), "promoted", |page| {
            value(page, &[decisions, "acpi", "AbsPower", "decision=\"promoted\""]) >= 1.0
        });
        let learned = watts(socket, 1000.0);
        assert!((learned - 250.0).abs() < 40.0, "150 W and 0.1 W for each of 1000 ms/s: {learned}");
    }
    let trainer = unknown.opened.trainer.unwrap();
    until(trainer, "failed", |page| value(page, &["metier_power_online_rounds_total", "failed"]) >= 3.0);
    assert!(value(&metrics(trainer), &[decisions, "promoted"]) < 1.0);
    for doors in [by_label, by_name, unknown] {
        doors.stop();
    }
}
