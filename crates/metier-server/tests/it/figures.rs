//! `/metrics` and the log.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::*;
use metier_types::{BatchId, RunState};

fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(sample).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no {sample} in:\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn figures_say_what_was_asked_and_what_is_stored() {
    let (_folder, store) = store();
    fill(&store, 3);
    let mut under_way = run("alpha", BatchId::new(), 9);
    under_way.state = RunState::Running;
    store.put_run(&under_way, &[]).unwrap();
    let server = Server::start(&store);
    for _ in 0..3 {
        server.get("/api/v1/runs");
    }
    server.get("/api/v1/runs?limit=0");
    server.request("BREW", "/api/v1/runs", "");
    let response = server.get("/metrics");
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = response.text();
    let requests = |labels: &str| value(&text, &format!("metier_http_requests_total{{{labels}}}"));
    assert_eq!(requests(r#"route="/api/v1/runs",method="GET",status="200""#), 3.0);
    assert_eq!(requests(r#"route="/api/v1/runs",method="GET",status="400""#), 1.0);
    assert_eq!(value(&text, r#"metier_http_request_duration_seconds_count{route="/api/v1/runs"}"#), 4.0);
    assert_eq!(value(&text, r#"metier_runs{state="finished"}"#), 3.0);
    assert_eq!(value(&text, r#"metier_runs{state="running"}"#), 1.0);
    assert_eq!(value(&text, "metier_store_up"), 1.0);
    assert!(value(&text, "metier_store_size_bytes") > 4096.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    assert!(value(&text, "process_cpu_seconds_total") > 0.0);
    assert!(text.contains("metier_build_info{version=\""));
}

#[test]
fn clients_cannot_make_labels() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    for number in 0..200 {
        server.get(&format!("/nowhere/{number}"));
        server.get(&format!("/api/v1/devices/{number}"));
        server.request(&format!("M{number}"), "/", "");
    }
    let text = server.get("/metrics").text();
    let sets: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_once('{')?.1.split_once('}')).map(|(set, _)| set).collect();
    assert!(sets.len() < 60, "{sets:?}");
    assert!(!text.contains("nowhere"));
}

#[test]
fn prometheus_finds_nothing_to_complain_about() {
    let found = std::env::var("METIER_LAB_PROMTOOL").ok().or_else(|| {
        let works = Command::new("promtool").arg("--version").output().is_ok();
        works.then(|| "promtool".to_string())
    });
    let Some(promtool) = found else {
        eprintln!("SKIP: /metrics before promtool, because there is none (lab/lab up prometheus)");
        return;
    };
    let (_folder, store) = store();
    fill(&store, 2);
    let server = Server::start(&store);
    server.get("/api/v1/runs");
    let text = server.get("/metrics").text();
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
}
