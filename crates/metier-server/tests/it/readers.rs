//! What other users of this machine may read and start, and what no reply says.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::*;
use metier_server::{AccessToken, HttpConfig};
use metier_store::{OwnerProcess, RecordStore, StoreLocation};
use metier_types::{Device, SessionRecord};
use serde_json::json;

const TOKEN: &str = "a-token-that-nobody-guesses";
const JSON: &str = "Content-Type: application/json\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const SECRET: &str = "s3cret-of-the-run";
/// `nobody`.
const STRANGER: u32 = 65534;

fn config() -> HttpConfig {
    HttpConfig { start_token: Some(AccessToken::new(TOKEN).unwrap()), ..HttpConfig::default() }
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

/// Only root can become another user.
fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().as_raw() == 0;
    if !is_root {
        eprintln!("SKIP: {test}, because only root can become another user");
    }
    is_root
}

/// Sends a request from a process of that user; the whole answer.
fn ask_as(user: u32, server: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> String {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let script =
        format!("exec 3<>/dev/tcp/{}/{}; printf '%s' \"$1\" >&3; cat <&3", server.ip(), server.port());
    let output = Command::new("bash")
        .args(["-c", &script, "ask", &request])
        .uid(user)
        .gid(user)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Claims the next session for a device; each device has one at a time.
fn begin(store: &RecordStore, id: &str) -> SessionRecord {
    let owner = OwnerProcess { host: id.into(), boot: "b".into(), pid: 1, started: 1 };
    let device = Device { id: id.parse().unwrap(), ..device() };
    store.claim_session(&device.reference(), &owner).unwrap().unwrap()
}

#[test]
fn another_user_reads_what_was_opened_for_all_and_no_more() {
    if !is_root("another user's request") {
        return;
    }
    let (_folder, store) = store();
    let run = fill(&store, 1).remove(0);
    let server = Server::with(&store, config());
    let answer = server.post("/api/v1/sessions", JSON, "{\"command\":[\"true\"]}");
    let session = answer.header("location").unwrap().to_string();
    let job = server.post("/job/x/buildWithParameters", FORM, "app_name=busybox");
    assert_eq!(job.status, 201, "{}", job.text());
    begin(&store, "board-7");
    begin(&store, "board-8");
    let ask = |path: &str, headers: &str| ask_as(STRANGER, server.address, "GET", path, headers, "");
    for open in ["/healthz", "/readyz", "/metrics", "/", "/openapi.json"] {
        let answer = ask(open, "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{open}: {answer}");
    }
    let run = format!("/api/v1/runs/{}", run.id);
    let owned = [
        "/api/v1/runs".to_string(),
        run.clone(),
        format!("{run}/series"),
        format!("{run}/processes"),
        format!("{run}/artefacts/x"),
        "/api/v1/compare?a=x&b=y".to_string(),
        "/api/v1/trend".to_string(),
        "/api/v1/devices".to_string(),
        "/api/v1/workloads".to_string(),
        "/api/v1/predictors".to_string(),
        "/api/v1/power".to_string(),
        "/api/v1/power/predictors".to_string(),
        "/api/v1/doctor".to_string(),
        "/api/v1/sessions".to_string(),
        session.clone(),
        format!("{session}/log"),
        "/job/x/api/json".to_string(),
        "/job/x/2/api/json".to_string(),
        "/job/x/2/consoleText".to_string(),
        "/queue/item/2/api/json".to_string(),
    ];
    for path in &owned {
        let refused = ask(path, "");
        assert!(refused.starts_with("HTTP/1.1 401 "), "{path}: {refused}");
        assert!(!refused.contains("alpha") && refused.contains("metier token"), "{path}: {refused}");
        // What the user of the server gets, the holder of the token gets.
        let (own, shown) = (server.get(path), ask(path, &bearer()));
        assert_ne!(own.status, 401, "{path}");
        assert!(shown.starts_with(&format!("HTTP/1.1 {} ", own.status)), "{path}: {shown}");
        // A proxy is not the user behind it.
        server.request("GET", path, "X-Forwarded-For: 10.0.0.9\r\n").problem(401);
    }
}

#[test]
fn another_user_starts_nothing_without_the_token() {
    if !is_root("another user's request") {
        return;
    }
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let ask = |headers: &str| {
        let headers = format!("{JSON}{headers}");
        ask_as(STRANGER, server.address, "POST", "/api/v1/sessions", &headers, "{\"command\":[\"true\"]}")
    };
    let refused = ask("");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    assert_eq!(store.sessions(&Default::default()).unwrap().len(), 0);
    let let_in = ask(&bearer());
    assert!(let_in.starts_with("HTTP/1.1 202 "), "{let_in}");
}

#[test]
fn root_reads_what_belongs_to_another_user_and_starts_nothing() {
    if !is_root("a server of another user") {
        return;
    }
    // The other user's own folder, with the program in it: it cannot read ours.
    let folder = tempfile::tempdir().unwrap();
    let (program, file) = (folder.path().join("server"), folder.path().join("metier.db"));
    std::fs::copy(env!("CARGO_BIN_EXE_server-process"), &program).unwrap();
    fill(&RecordStore::open(&StoreLocation::Sqlite(file.clone())).unwrap(), 1);
    let owner = format!("{STRANGER}:{STRANGER}");
    assert!(Command::new("chown").args(["-R", &owner]).arg(folder.path()).status().unwrap().success());
    let mut child = Command::new(program)
        .arg(&file)
        .uid(STRANGER)
        .gid(STRANGER)
        .current_dir("/")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ready = lines.find(|line| line.starts_with("ready ")).expect("the server gets ready");
    let address: SocketAddr = ready["ready ".len()..].parse().unwrap();
    let ask = |user, method: &str, path: &str, body: &str| ask_as(user, address, method, path, JSON, body);
    let file = "{\"command\":[\"true\"]}";
    let answers = [
        ask(0, "GET", "/api/v1/runs", ""),
        ask(STRANGER, "GET", "/api/v1/runs", ""),
        ask(STRANGER - 1, "GET", "/api/v1/runs", ""),
        ask(0, "POST", "/api/v1/sessions", file),
        ask(STRANGER, "POST", "/api/v1/sessions", file),
    ];
    child.kill().unwrap();
    child.wait().unwrap();
    let statuses: Vec<&str> = answers.iter().map(|answer| &answer[9..12]).collect();
    assert_eq!(statuses, ["200", "200", "401", "401", "202"], "{answers:?}");
}

#[test]
fn no_reply_has_the_value_of_an_environment_variable_and_the_queue_has_it() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let table = json!({ "KEY": SECRET });
    let file = json!({
        "command": ["true"], "environment": table,
        "probes": [{"name": "tool", "wrap": ["env"], "environment": table}],
        "needs": [{"command": ["sleep", "1"], "environment": table}],
        "with": [{"command": ["sleep", "1"], "environment": table}],
    });
    let added = server.post("/api/v1/sessions", JSON, &file.to_string());
    assert_eq!(added.status, 202, "{}", added.text());
    let flags = format!("-e KEY={SECRET} --env=OTHER={SECRET} -eTHIRD={SECRET} -v /d:/d:ro");
    let form: String = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("app_name", "busybox"), ("app_docker_args", &flags)])
        .finish();
    let built = server.post("/job/x/buildWithParameters", FORM, &form);
    assert_eq!(built.status, 201, "{}", built.text());
    let (first, second) = (begin(&store, "board-7"), begin(&store, "board-8"));
    let replies = [
        added.text(),
        server.get(added.header("location").unwrap()).text(),
        server.get("/api/v1/sessions").text(),
        server.get(&format!("/api/v1/sessions/{}", second.id)).text(),
        server.get("/queue/item/2/api/json").text(),
        server.get("/job/x/api/json").text(),
        server.get("/job/x/2/api/json").text(),
        server.get("/job/x/lastBuild/api/json").text(),
        server.post("/job/x/2/stop", "", "").text(),
        server.request("DELETE", &format!("/api/v1/sessions/{}", first.id), "").text(),
    ];
    for reply in &replies {
        assert!(!reply.contains(SECRET), "{reply}");
    }
    for name in ["needs", "with", "probes", "KEY"] {
        assert!(replies[0].contains(name), "{name} is shown: {}", replies[0]);
    }
    assert!(
        replies[6].contains("-e KEY=REDACTED -e OTHER=REDACTED -e THIRD=REDACTED -v /d:/d:ro"),
        "{}",
        replies[6]
    );
    // The queue runs with the values.
    assert_eq!(first.file["environment"]["KEY"], SECRET);
    assert_eq!(first.file["needs"][0]["environment"]["KEY"], SECRET);
    assert_eq!(second.file["environment"]["THIRD"], SECRET);
    let claimed = store.session(second.id).unwrap().unwrap();
    assert!(claimed.asker.extra["parameters"].to_string().contains(SECRET));
}
