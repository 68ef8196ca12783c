//! `metier agent` on this host: its page is right, a container comes and goes with its names, a pod
//! has its own, and a real Prometheus reads it all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::Place;
use metier_prom::{ExpositionFormat, MetricSample, ScrapeLimits, ScrapedPage, parse_page};

/// The agent, ended with the test.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(place: &Place, arguments: &[&str], set: &[(&str, &str)]) -> Self {
        let socket = place.text("live.sock");
        let all: Vec<&str> = ["agent", "--listen", "127.0.0.1:0", "--socket", &socket]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let mut command = place.command(&all);
        command.envs(set.iter().copied()).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready =
            lines.by_ref().map(Result::unwrap).find(|line| line.contains("ready at http://")).unwrap();
        let address = ready.split("http://").nth(1).unwrap().split('/').next().unwrap().to_string();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    fn page(&self, accept: &str) -> String {
        let answer = get(&self.address, "/metrics", &format!("Accept: {accept}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_string()
    }

    fn scrape(&self) -> ScrapedPage {
        let page = self.page("text/plain");
        parse_page(page.as_bytes(), ExpositionFormat::Text, &ScrapeLimits::default())
            .unwrap_or_else(|error| panic!("{error}\n{page}"))
    }

    /// The sample of a family with these labels.
    fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<MetricSample> {
        let scrape = self.scrape();
        let fits =
            |sample: &&MetricSample| labels.iter().all(|(name, value)| sample.label(name) == Some(value));
        scrape.family(name)?.samples.iter().find(fits).cloned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // SAFETY: a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asks until there is an answer; two minutes are more than any machine needs.
fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..480 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    panic!("{what} did not come");
}

/// The lab's engine, and a container of it that is removed with the test.
struct Container {
    engine: String,
    id: String,
    name: String,
}

fn engine() -> Option<String> {
    let engine = std::env::var("METIER_LAB_DOCKER").ok();
    if engine.is_none() {
        eprintln!("SKIP: containers, because METIER_LAB_DOCKER is not set (lab/lab up docker)");
    }
    engine
}

fn docker(engine: &str, arguments: &[&str]) -> String {
    let output = Command::new("docker").args(["-H", engine]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

impl Container {
    /// One that works a little all the time.
    fn start(engine: &str, what: &str) -> Self {
        let name = format!("metier-agent-{what}-{}", std::process::id());
        let script = "while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.05; done";
        let id = docker(
            engine,
            &[
                "run",
                "-d",
                "--name",
                &name,
                "--memory",
                "64m",
                "--cpus",
                "0.5",
                "busybox:local",
                "sh",
                "-c",
                script,
            ],
        );
        Self { engine: engine.to_string(), id, name }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["-H", &self.engine, "rm", "-f", &self.id]).output();
    }
}

fn promtool(page: &str) {
    let checked = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = checked else {
        eprintln!("SKIP: promtool check metrics, because promtool is not installed (lab/lab up prometheus)");
        return;
    };
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{page}");
}

#[test]
fn the_page_of_this_host_is_right_in_both_formats() {
    let place = Place::new();
    let agent = Agent::start(&place, &["--engine", "none", "--location", "city=Pisa,latitude=43.7"], &[]);
    promtool(&agent.page("text/plain"));
    let open = agent.page("application/openmetrics-text;version=1.0.0");
    let open = parse_page(open.as_bytes(), ExpositionFormat::OpenMetrics, &ScrapeLimits::default())
        .unwrap_or_else(|e| panic!("{e}\n{open}"));
    assert!(open.family("metier_agent_cpu_seconds").is_some(), "a counter's family has no suffix there");
    let own = agent.find("metier_process_instances", &[("command", "metier")]);
    assert!(own.is_none_or(|own| own.value >= 1.0));
    assert_eq!(agent.find("char_node_location", &[("char_node_city", "Pisa")]).unwrap().value, 1.0);
    assert!(agent.find("char_node_cpu_total_cores", &[]).unwrap().value >= 1.0);
    assert!(agent.find("metier_processes", &[]).unwrap().value >= 2.0);
    assert!(get(&agent.address, "/healthz", "").starts_with("HTTP/1.1 200"));
    assert!(get(&agent.address, "/elsewhere", "").starts_with("HTTP/1.1 404"));
    let mut stream = TcpStream::connect(&agent.address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
}

#[test]
fn other_addresses_need_to_be_opened() {
    let place = Place::new();
    let (code, error) = place.fails(&["agent", "--listen", "0.0.0.0:0"]);
    assert!(code == 2 && error.contains("--open metrics") && error.contains("0.0.0.0:0"), "{error}");
    let (code, error) = place.fails(&["agent", "--listen", "0.0.0.0:0", "--open", "page-of-mine"]);
    assert!(code == 2 && error.contains("page-of-mine"), "{error}");
    let (code, error) = place.fails(&["agent", "--location", "Pisa"]);
    assert!(code == 2 && error.contains("--location") && error.contains("city="), "{error}");
    let (code, error) = place.fails(&["agent", "--root", "/nowhere"]);
    assert!(code == 2 && error.contains("/nowhere"), "{error}");
    let (code, error) = place.fails(&["agent", "--engine", "tcp://elsewhere:1"]);
    assert!(code == 2 && error.contains("tcp://elsewhere:1"), "{error}");
}

#[test]
fn a_container_comes_with_its_names_grows_and_goes() {
    let Some(engine) = engine() else { return };
    let place = Place::new();
    let agent = Agent::start(&place, &["--engine", &engine], &[]);
    let container = Container::start(&engine, "page");
    let name = container.name.clone();
    let labels = [("container", name.as_str()), ("image", "busybox:local")];
    const CPU: &str = "metier_container_cpu_seconds_total";
    let first = wait("the container's CPU time", || agent.find(CPU, &labels));
    assert_eq!(first.label("id"), Some(&container.id[..12]));
    wait("growth", || agent.find(CPU, &labels).filter(|now| now.value > first.value + 0.05));
    let value = |name: &str| agent.find(name, &labels).unwrap_or_else(|| panic!("{name}")).value;
    assert_eq!(value("metier_container_memory_limit_bytes"), f64::from(64 << 20));
    assert_eq!(value("metier_container_cpu_limit_cores"), 0.5);
    assert!(value("metier_container_memory_bytes") > 0.0);
    assert!(value("metier_container_memory_peak_bytes") >= value("metier_container_memory_anonymous_bytes"));
    assert!(value("metier_container_processes") >= 1.0);
    assert!(value("metier_container_threads") >= 1.0);
    assert!(
        agent.find("metier_container_network_receive_bytes_total", &labels).is_some_and(|n| n.value >= 0.0)
    );
    promtool(&agent.page("text/plain"));
    drop(container);
    wait("the end of its series", || agent.find(CPU, &[labels[0]]).is_none().then_some(()));
}

/// Sends counts from inside a container: this host's Python, in the container's control group.
const SENDER: &str = "
import os, socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
def send(counts):
    for _ in range(counts):
        server.sendall(b'frames 1 count\\n')
send(100)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
send(int(sys.argv[3]))
";

/// A series as Prometheus tells them apart: by all of its labels.
fn series_key(sample: &MetricSample) -> String {
    let mut labels: Vec<String> =
        sample.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    labels.sort();
    labels.join(",")
}

#[test]
fn what_containers_sent_is_the_sum_of_all_series_that_ever_were() {
    let Some(engine) = engine() else { return };
    let place = Place::new();
    let agent = Agent::start(&place, &["--engine", &engine], &[]);
    std::fs::write(place.path("sender.py"), SENDER).unwrap();
    let name = format!("metier-agent-sender-{}", std::process::id());
    let mut last: BTreeMap<String, f64> = BTreeMap::new();
    let mut scrape = || {
        let page = agent.scrape();
        let frames = page.family("metier_app_items_total").map(|family| family.samples.clone());
        for sample in frames.into_iter().flatten() {
            last.insert(series_key(&sample), sample.value);
        }
        (page, last.values().sum::<f64>(), last.keys().cloned().collect::<Vec<_>>())
    };
    // The second container has the name of the first one, as after a restart by its owner.
    for (round, more, sent) in [(1, 35, 135.0), (2, 20, 255.0)] {
        let done = place.text(&format!("go-{round}"));
        let (root, more) = ("/:/host".to_string(), more.to_string());
        let (script, socket) = (place.text("sender.py"), place.text("live.sock"));
        let run = ["run", "-d", "--name", &name, "-v", &root, "busybox:local", "chroot", "/host"];
        let python = ["python3", &script, &socket, &done, &more];
        let id = docker(&engine, &[&run[..], &python[..]].concat());
        let container = Container { engine: engine.clone(), id: id.clone(), name: name.clone() };
        let begun = sent - 20.0 - if round == 1 { 15.0 } else { 0.0 };
        wait("the first counts", || (scrape().1 == begun).then_some(()));
        std::fs::write(&done, "").unwrap();
        wait("all counts", || (scrape().1 == sent).then_some(()));
        assert_eq!(docker(&engine, &["wait", &id]), "0");
        drop(container);
        wait("the end of the container's group", || {
            let page = scrape().0;
            let family = page.family("metier_container_cpu_seconds_total");
            let is_there = family.is_some_and(|family| {
                family.samples.iter().any(|sample| sample.label("id") == Some(&id[..12]))
            });
            (!is_there).then_some(())
        });
        for _ in 0..3 {
            let (_, sum, series) = scrape();
            assert_eq!((sum, series.len()), (sent, round), "{series:#?}");
            assert!(
                series.iter().all(|labels| labels.contains(&format!("container={name:?}"))),
                "{series:#?}"
            );
        }
    }
}

/// A Prometheus of the test's own.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // SAFETY: a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

#[test]
fn prometheus_scrapes_it_and_knows_a_containers_cpu_time() {
    let Some(engine) = engine() else { return };
    let place = Place::new();
    let agent = Agent::start(&place, &["--engine", &engine], &[]);
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: agent\n  static_configs: [{{targets: ['{}']}}]\n",
        agent.address
    );
    std::fs::write(place.path("prometheus.yml"), config).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Command::new("prometheus")
        .args([
            &format!("--config.file={}", place.text("prometheus.yml")),
            &format!("--storage.tsdb.path={}", place.text("series")),
            &format!("--web.listen-address={free}"),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else {
        eprintln!("SKIP: a real scrape, because prometheus is not installed (lab/lab up prometheus)");
        return;
    };
    let prometheus = Prometheus { child, address: free.to_string() };
    wait("Prometheus", || TcpStream::connect(&prometheus.address).ok());
    let container = Container::start(&engine, "scraped");
    let ask = |query: &str| {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        get(&prometheus.address, &format!("/api/v1/query?query={escaped}"), "")
    };
    let query =
        format!("increase(metier_container_cpu_seconds_total{{container=\"{}\"}}[1m]) > 0", container.name);
    let answer = wait("a growing series of the container", || {
        Some(ask(&query)).filter(|answer| answer.contains(&container.name))
    });
    assert!(answer.contains("busybox:local") && answer.contains("\"job\":\"agent\""), "{answer}");
    let up = ask("up{job=\"agent\"}");
    assert!(up.contains(",\"1\"]"), "{up}");
}

/// A pod that is removed with the test.
struct Pod {
    config: String,
    name: String,
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = Command::new("kubectl")
            .args(["--kubeconfig", &self.config, "delete", "pod", &self.name, "--grace-period=0", "--force"])
            .output();
    }
}

#[test]
fn a_pod_has_its_namespace_name_and_container() {
    let Ok(config) = std::env::var("METIER_LAB_KUBECONFIG") else {
        eprintln!("SKIP: pods, because METIER_LAB_KUBECONFIG is not set (lab/lab up kube)");
        return;
    };
    let place = Place::new();
    // Names from the cluster alone: the engine, which would know some of them, is not asked.
    let agent = Agent::start(&place, &["--engine", "none"], &[("KUBECONFIG", &config)]);
    let pod = Pod { config: config.clone(), name: format!("metier-agent-{}", std::process::id()) };
    let manifest = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{}","namespace":"default"}},"spec":{{"terminationGracePeriodSeconds":0,
        "automountServiceAccountToken":false,"containers":[{{"name":"worker","image":"busybox:local","imagePullPolicy":"IfNotPresent",
        "command":["sh","-c","while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.05; done"]}}]}}}}"#,
        pod.name
    );
    std::fs::write(place.path("pod.json"), manifest).unwrap();
    let made = Command::new("kubectl")
        .args(["--kubeconfig", &config, "apply", "-f", &place.text("pod.json")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let labels = [("pod", pod.name.as_str()), ("namespace", "default"), ("container", "worker")];
    let cpu = wait("the pod's container", || agent.find("metier_container_cpu_seconds_total", &labels));
    assert!(cpu.label("image").is_some_and(|image| image.contains("busybox:local")), "{cpu:?}");
    let whole = wait("the pod", || agent.find("metier_pod_cpu_seconds_total", &labels[..2]));
    assert!(whole.label("uid").is_some_and(|uid| uid.len() == 36), "{whole:?}");
    let info = agent.find("metier_pod_info", &labels[..2]).unwrap();
    assert_eq!(info.label("qos"), Some("besteffort"));
    promtool(&agent.page("text/plain"));
}

#[test]
fn a_run_under_way_has_its_own_series() {
    let place = Place::new();
    let agent = Agent::start(&place, &["--engine", "none"], &[]);
    let mut run = place.command(&["run", "-q", "--", "sleep", "600"]).stdout(Stdio::null()).spawn().unwrap();
    let found = wait("the run or its end", || {
        let ended = run.try_wait().unwrap().is_some();
        let seen = agent.scrape().family("metier_run_cpu_seconds_total").map(|family| family.samples.clone());
        let listed = place.json(&["runs", "-o", "json"]);
        let short = listed["runs"][0]["id"].as_str().map(|id| id.replace('-', ""))?;
        let ours = seen
            .into_iter()
            .flatten()
            .find(|sample| sample.label("run_id").is_some_and(|run_id| short.contains(run_id)));
        ours.map(Ok).or_else(|| ended.then_some(Err(())))
    });
    // SAFETY: a signal to a process that this test started and has not waited for.
    unsafe { libc::kill(run.id() as i32, libc::SIGTERM) };
    let _ = run.wait();
    match found {
        Ok(sample) => assert!(sample.value >= 0.0),
        Err(()) => eprintln!("SKIP: a run's own series, because no run can be started here"),
    }
}
