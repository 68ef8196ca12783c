//! `metier up`: says where it is, answers, and ends when told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::common::{Place, refusal};

pub struct Server {
    child: Child,
    address: String,
    /// What it said before it was ready.
    said: String,
}

impl Server {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let ready = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it was never ready: {said}")).unwrap();
            if line.contains("ready at http") {
                break line;
            }
            said.push_str(&format!("{line}\n"));
        };
        let address = ready.split("://").nth(1).unwrap().split('/').next().unwrap().to_string();
        let address = address.replace("0.0.0.0", "127.0.0.1");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, said }
    }

    pub fn get(&self, path: &str, header: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{header}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn post(&self, path: &str, body: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n"
        );
        write!(stream, "{head}Content-Type: application/octet-stream\r\n\r\n").unwrap();
        // A server that has said no does not read on.
        let _ = stream.write_all(body);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    pub fn stop(mut self) -> Option<i32> {
        // SAFETY: a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        self.child.wait().unwrap().code()
    }
}

#[test]
fn it_serves_the_store_and_ends_well_when_told_to() {
    let place = Place::with_fixture();
    let server = Server::start(place.command(&["up", "--listen", "127.0.0.1:0"]));
    assert!(server.get("/healthz", "").starts_with("HTTP/1.1 200"));
    let runs = server.get("/api/v1/runs?limit=1", "");
    assert!(runs.contains("metier.runs/1") && runs.contains("\"total\":15"), "{runs}");
    let doctor = server.get("/api/v1/doctor", "");
    assert!(doctor.contains("control group"), "{doctor}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_token_comes_from_a_file_or_the_environment_and_is_needed() {
    let place = Place::with_fixture();
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(place.path("token"), format!("{token}\n")).unwrap();
    let server = Server::start(place.command(&["up", "--listen", "0.0.0.0:0", "--token-file", "token"]));
    assert!(server.get("/api/v1/runs", "").starts_with("HTTP/1.1 401"));
    let shown = server.get("/api/v1/runs", &format!("Authorization: Bearer {token}\r\n"));
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    let line = std::fs::read(format!("/proc/{}/cmdline", server.child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains(token));
    assert_eq!(server.stop(), Some(0));

    let mut command = place.command(&["up", "--listen", "127.0.0.1:0"]);
    command.env("METIER_TOKEN", "short");
    let (code, error) = refusal(&command.output().unwrap());
    assert!(code == 2 && error.contains("16") && !error.contains("short\""), "{error}");
    let (code, error) = place.fails(&["up", "--listen", "0.0.0.0:0", "--token-file", "gone"]);
    assert!(code == 1 && error.contains("gone"), "{error}");
}

#[test]
fn the_token_that_is_printed_opens_an_address_for_others() {
    let place = Place::with_fixture();
    let server = Server::start(place.command(&["up", "--listen", "0.0.0.0:0"]));
    assert!(server.said.contains("plain HTTP") && server.said.contains("--tls-cert"), "{}", server.said);
    let page = server.get("/", "");
    assert!(page.starts_with("HTTP/1.1 200") && page.to_lowercase().contains("<!doctype html>"), "{page}");
    assert!(server.get("/api/v1/runs", "").starts_with("HTTP/1.1 401"));
    let token = place.ok(&["token"]);
    let shown = server.get("/api/v1/runs", &format!("Authorization: Bearer {}\r\n", token.trim()));
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    assert_eq!(server.stop(), Some(0));
    // On loopback nothing is readable from elsewhere.
    let server = Server::start(place.command(&["up", "--listen", "127.0.0.1:0"]));
    assert!(!server.said.contains("plain HTTP"), "{}", server.said);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn certificate_and_key_are_settings_and_need_each_other() {
    let place = Place::new();
    std::fs::write(place.path("key.pem"), "no key").unwrap();
    for (given, absent) in [("--tls-cert", "--tls-key"), ("--tls-key", "--tls-cert")] {
        let (code, error) = place.fails(&["up", "--listen", "127.0.0.1:0", given, "key.pem"]);
        assert!(code == 2 && error.contains("key.pem") && error.contains(absent), "{error}");
    }
    let wrong = ["up", "--listen", "127.0.0.1:0", "--tls-cert", "gone.pem", "--tls-key", "key.pem"];
    let (code, error) = place.fails(&wrong);
    assert!(code == 1 && error.contains("gone.pem"), "{error}");
    let mut command = place.command(&["up", "--listen", "127.0.0.1:0"]);
    command.env("METIER_UP_TLS_CERT", "gone.pem").env("METIER_UP_TLS_KEY", "key.pem");
    let (code, error) = refusal(&command.output().unwrap());
    assert!(code == 1 && error.contains("gone.pem"), "{error}");
}

#[test]
fn a_taken_port_is_said() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = place.run(&["up", "--listen", &address]);
    let (code, error) = refusal(&output);
    assert!(code == 1 && error.contains(&address) && error.contains("taken"), "{error}");
}

#[test]
fn how_large_a_graph_may_be_is_a_setting() {
    let place = Place::new();
    let server = Server::start(place.command(&["up", "--listen", "127.0.0.1:0", "--upload-limit", "2Ki"]));
    let large = server.post("/api/v1/graphs", &[0; 2049]);
    assert!(large.starts_with("HTTP/1.1 413") && large.contains("2048"), "{large}");
    assert!(server.post("/api/v1/graphs", &[0; 2048]).starts_with("HTTP/1.1 422"));
    assert_eq!(server.stop(), Some(0));
    for wrong in ["0", "much", "3Gi"] {
        let (code, error) = place.fails(&["up", "--listen", "127.0.0.1:0", "--upload-limit", wrong]);
        assert!(code == 2 && error.contains("upload") && error.contains(wrong), "{error}");
    }
}

#[test]
fn the_power_of_this_node_is_looked_at_unless_it_is_not_wanted() {
    let place = Place::new();
    let begins = ["up", "--listen", "127.0.0.1:0"];
    let server = Server::start(place.command(&[&begins[..], &["--power-interval", "1s"]].concat()));
    let mut told = server.get("/api/v1/power", "");
    for _ in 0..300 {
        if !told.contains("\"times\":[]") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        told = server.get("/api/v1/power", "");
    }
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("\"interval_seconds\":1.0"), "{told}");
    assert!(!told.contains("\"times\":[]") && !told.contains("\"estimated\":[null"), "{told}");
    let predictors = server.get("/api/v1/power/predictors?limit=1", "");
    assert!(predictors.contains("metier-defaults"), "{predictors}");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(place.command(&[&begins[..], &["--no-power"]].concat()));
    assert!(server.get("/api/v1/power", "").starts_with("HTTP/1.1 503"));
    assert_eq!(server.stop(), Some(0));
    for wrong in ["0s", "10ms", "2m", "soon"] {
        let (code, error) = place.fails(&[&begins[..], &["--power-interval", wrong]].concat());
        assert!(code == 2 && error.contains("power") && error.contains(wrong), "{error}");
    }
}

#[test]
fn a_pipeline_of_the_store_answers_while_it_is_in_use() {
    let place = Place::new();
    let zip = concat!(env!("CARGO_MANIFEST_DIR"), "/../metier-power/tests/fixtures/power-before.zip");
    place.ok(&["predictors", "import", zip]);
    let pipelines = || {
        let server = Server::start(place.command(&["up", "--listen", "127.0.0.1:0"]));
        let known = server.get("/api/v1/power/predictors?limit=1", "");
        assert_eq!(server.stop(), Some(0));
        known
    };
    let known = pipelines();
    assert!(known.contains("\"name\":\"before\"") && known.contains("metier-defaults"), "{known}");
    let all = place.json(&["predictors", "-o", "json"]);
    place.ok(&["predictors", "remove", all["predictors"][0]["id"].as_str().unwrap()]);
    let known = pipelines();
    assert!(!known.contains("\"name\":\"before\"") && known.contains("metier-defaults"), "{known}");
}
