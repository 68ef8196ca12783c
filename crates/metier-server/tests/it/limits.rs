//! Bounds: slow and large clients, slow work, and the end of the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::*;
use metier_server::config::DoctorCallback;
use metier_server::{Config, DoctorCheck, HttpConfig, HttpLimits};

const SHORT: Duration = Duration::from_millis(200);

/// A doctor that says when it was asked and answers when it is told to.
fn held() -> (DoctorCallback, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (asked, was_asked) = mpsc::channel();
    let (answer, may_answer) = mpsc::channel::<()>();
    let may_answer = Mutex::new(may_answer);
    let doctor: DoctorCallback = Arc::new(move || {
        let _ = asked.send(());
        let _ = may_answer.lock().unwrap().recv_timeout(PATIENCE);
        Vec::new()
    });
    (doctor, was_asked, answer)
}

fn config(doctor: Option<DoctorCallback>, limits: HttpLimits) -> Config {
    Config { doctor, ..HttpConfig { limits, ..HttpConfig::default() }.into() }
}

#[test]
fn a_client_that_does_not_finish_its_head_loses_its_place() {
    let (_folder, store) = store();
    let limits = HttpLimits { connections: 1, header_time: SHORT, ..HttpLimits::default() };
    let server = Server::with(&store, config(None, limits));
    for sent in ["", "GET /healthz HTTP/1.1\r\nHost: loc"] {
        let mut slow = server.connect();
        slow.write_all(sent.as_bytes()).unwrap();
        // There is one place, and the slow client has it: an answer here means that it was taken
        // away.
        assert_eq!(server.get("/healthz").status, 200);
        let mut rest = Vec::new();
        let _ = slow.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
    }
}

#[test]
fn a_client_that_does_not_read_loses_its_place() {
    let (_folder, store) = store();
    let check = DoctorCheck { name: "large".into(), ok: true, text: "x".repeat(64 << 20), fix: None };
    let doctor: DoctorCallback = Arc::new(move || vec![check.clone()]);
    let limits = HttpLimits { connections: 1, write_time: SHORT, ..HttpLimits::default() };
    let server = Server::with(&store, config(Some(doctor), limits));
    let mut deaf = server.connect();
    deaf.write_all(b"GET /api/v1/doctor HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(server.get("/healthz").status, 200);
    drop(deaf);
}

#[test]
fn work_that_takes_too_long_is_given_up() {
    let (_folder, store) = store();
    let (doctor, was_asked, answer) = held();
    let limits = HttpLimits { request_time: SHORT, ..HttpLimits::default() };
    let server = Server::with(&store, config(Some(doctor), limits));
    let response = server.get("/api/v1/doctor");
    assert!(response.problem(503)["detail"].as_str().unwrap().contains("longer than 0.2 s"));
    assert!(response.header("retry-after").is_some());
    was_asked.recv_timeout(PATIENCE).unwrap();
    answer.send(()).unwrap();
}

#[test]
fn slow_checks_do_not_hold_up_anything_else() {
    let (_folder, store) = store();
    let (doctor, was_asked, answer) = held();
    let limits = HttpLimits { store_calls: 1, request_time: PATIENCE, ..HttpLimits::default() };
    let server = Server::with(&store, config(Some(doctor), limits));
    let mut waiting = server.connect();
    waiting
        .write_all(b"GET /api/v1/doctor HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    was_asked.recv_timeout(PATIENCE).unwrap();
    for path in ["/healthz", "/", "/readyz", "/api/v1/runs"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    answer.send(()).unwrap();
    assert_eq!(Response::read(&mut waiting).status, 200);
}

#[test]
fn what_is_too_large_is_refused() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    let problem = server.request("POST", "/api/v1/runs", "Content-Length: 1048577\r\n").problem(413);
    assert_eq!(problem["errors"][0]["got"], "1048577");
    let long = format!("X-Long: {}\r\n", "x".repeat(300_000));
    assert_eq!(server.request("GET", "/healthz", &long).status, 431);
    let many: String = (0..200).map(|n| format!("X-{n}: 1\r\n")).collect();
    assert_eq!(server.request("GET", "/healthz", &many).status, 431);
    server.get(&format!("/api/v1/runs?text={}", "x".repeat(17_000))).problem(414);
    server.get(&format!("/api/v1/runs?text={}", "x".repeat(201))).problem(400);
}

#[test]
fn what_is_not_http_ends_its_connection_only() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    for rubbish in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        &[0; 4096],
    ] {
        let mut stream = server.connect();
        let _ = stream.write_all(rubbish);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
    }
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_connection_serves_many_requests() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    let mut stream = server.connect();
    let one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("{one}{one}{last}").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3, "{text}");
}

#[test]
fn a_request_under_way_is_finished_before_the_end() {
    let (_folder, store) = store();
    let (doctor, was_asked, answer) = held();
    let limits = HttpLimits { drain_time: PATIENCE, request_time: PATIENCE, ..HttpLimits::default() };
    let mut server = Server::with(&store, config(Some(doctor), limits));
    let mut idle = server.connect();
    let mut waiting = server.connect();
    waiting.write_all(b"GET /api/v1/doctor HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    was_asked.recv_timeout(PATIENCE).unwrap();
    server.tell_to_stop();
    // Idle connections are closed at once, and from then on no new connection is accepted.
    let mut nothing = Vec::new();
    idle.read_to_end(&mut nothing).unwrap();
    assert!(nothing.is_empty());
    assert!(TcpStream::connect(server.address).is_err());
    answer.send(()).unwrap();
    let response = Response::read(&mut waiting);
    assert_eq!(response.json()["schema"], "metier.doctor/1");
    server.join().unwrap();
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_server() {
    let (_folder, store) = store();
    let (doctor, was_asked, answer) = held();
    let limits = HttpLimits { drain_time: SHORT, request_time: PATIENCE, ..HttpLimits::default() };
    let mut server = Server::with(&store, config(Some(doctor), limits));
    let mut waiting = server.connect();
    waiting.write_all(b"GET /api/v1/doctor HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    was_asked.recv_timeout(PATIENCE).unwrap();
    server.join().unwrap();
    drop(answer);
}

#[test]
fn large_answers_are_compressed_for_those_who_ask() {
    let (_folder, store) = store();
    fill(&store, 200);
    let limits = HttpLimits { compress_on_loopback: true, ..HttpLimits::default() };
    let server = Server::with(&store, config(None, limits));
    let plain = server.get("/api/v1/runs?limit=200");
    let small = server.request("GET", "/api/v1/runs?limit=200", "Accept-Encoding: gzip\r\n");
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(small.header("content-encoding"), Some("gzip"));
    assert!(small.body.len() * 3 < plain.body.len(), "{} of {}", small.body.len(), plain.body.len());
    let mut back = Vec::new();
    flate2::read::GzDecoder::new(&small.body[..]).read_to_end(&mut back).unwrap();
    assert_eq!(back, plain.body);
}
