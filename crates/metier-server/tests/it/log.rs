//! One structured line for each request.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::common::*;
use metier_server::{AccessToken, HttpConfig};
use serde_json::Value;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_request_is_one_line_with_its_id_and_without_secrets() {
    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt().json().with_writer(move || writer.clone()).init();
    let (_folder, store) = store();
    let token = "a-token-that-nobody-guesses";
    let config = HttpConfig { token: Some(AccessToken::new(token).unwrap()), ..HttpConfig::default() };
    let mut server = Server::with(&store, config);
    let headers = format!("Authorization: Bearer {token}\r\nX-Request-Id: mine-1\r\n");
    assert_eq!(server.request("GET", "/api/v1/runs?text=a-private-text", &headers).status, 200);
    assert_eq!(server.request("HEAD", "/healthz", "X-Request-Id: mine-2\r\n").status, 200);
    assert_eq!(server.request("GET", "/api/v1/runs", "X-Request-Id: mine-3\r\n").status, 401);
    server.join().unwrap();

    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains(token) && !text.contains("a-private-text"), "{text}");
    // The log is the process's: other tests may have written to it, too.
    let requests: Vec<Value> = text
        .lines()
        .filter(|line| line.contains("mine-"))
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].take())
        .filter(|fields| fields["message"] == "request")
        .collect();
    let told = |fields: &Value| {
        assert!(fields["duration_ms"].as_f64().is_some_and(|ms| ms >= 0.0), "{fields}");
        ["request_id", "method", "path", "status"].map(|name| fields[name].to_string().replace('"', ""))
    };
    assert_eq!(
        requests.iter().map(told).collect::<Vec<_>>(),
        [
            ["mine-1", "GET", "/api/v1/runs", "200"],
            ["mine-2", "HEAD", "/healthz", "200"],
            ["mine-3", "GET", "/api/v1/runs", "401"],
        ]
    );
}
