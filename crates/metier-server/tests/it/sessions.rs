//! The interfaces to the queue: permission to start a run, accepted requests, and responses.

use crate::common::{self, *};
use metier_server::{AccessToken, Config, HttpConfig, HttpLimits, JenkinsJobConfig};
use metier_store::{OwnerProcess, RecordStore, SessionEnd, SessionFilter};
use metier_types::SessionState;
use serde_json::{Value, json};

const TOKEN: &str = "a-token-that-nobody-guesses";
/// `ci:` and the token.
const BASIC: &str = "Authorization: Basic Y2k6YS10b2tlbi10aGF0LW5vYm9keS1ndWVzc2Vz\r\n";
const JSON: &str = "Content-Type: application/json\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn config() -> HttpConfig {
    HttpConfig { start_token: Some(AccessToken::new(TOKEN).unwrap()), ..HttpConfig::default() }
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

fn waiting(store: &RecordStore) -> usize {
    store.sessions(&SessionFilter::default()).unwrap().len()
}

fn owner() -> OwnerProcess {
    OwnerProcess { host: "board-7".into(), boot: "b".into(), pid: 1, started: 1 }
}

fn begin(store: &RecordStore) -> metier_types::SessionRecord {
    store.claim_session(&device().reference(), &owner()).unwrap().unwrap()
}

fn end(store: &RecordStore, session: &metier_types::SessionRecord, state: SessionState) {
    let end = SessionEnd { state, exit_code: Some(0), reason: None };
    assert!(store.end_session(session.id, &owner(), &end).unwrap());
}

#[test]
fn a_run_file_is_queued_shown_and_cancelled() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let file = json!({"name": "hello", "command": ["echo", "$(touch x)"]});
    let answer = server.post("/api/v1/sessions?device=board-7", JSON, &file.to_string());
    assert_eq!(answer.status, 202, "{}", answer.text());
    let session: Value = serde_json::from_slice(&answer.body).unwrap();
    let place = answer.header("location").unwrap().to_string();
    assert_eq!(place, format!("/api/v1/sessions/{}", session["id"].as_str().unwrap()));
    assert_eq!(session["state"], "queued");
    assert_eq!((session["position"].clone(), session["device"].clone()), (json!(1), json!("board-7")));
    assert_eq!(session["asker"]["door"], "api");
    assert_eq!(session["file"]["command"][1], "$(touch x)");
    assert_eq!(server.get(&place).json(), session);
    assert_eq!(server.get("/api/v1/sessions?state=queued").json()["sessions"][0], session);
    assert_eq!(server.get("/api/v1/sessions?state=failed").json()["sessions"], json!([]));
    assert_eq!(server.get(&format!("{place}/log")).text(), "");
    let gone = server.request("DELETE", &place, "");
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(server.get(&place).json()["state"], "cancelled");
    server.request("DELETE", &place, "").problem(409);
    server
        .request("DELETE", &format!("/api/v1/sessions/{}", metier_types::SessionId::new()), "")
        .problem(404);
    // One that runs is told.
    let answer = server.post("/api/v1/sessions", JSON, &file.to_string());
    let place = answer.header("location").unwrap().to_string();
    let running = begin(&store);
    assert_eq!(server.request("DELETE", &place, "").status, 202);
    assert!(store.is_cancel_requested(running.id).unwrap());
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("metier_sessions{state=\"running\"} 1"), "{metrics}");
}

#[test]
fn what_is_wrong_with_a_run_file_is_told_by_field_and_line() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let problem = server.post("/api/v1/sessions", JSON, "{\n \"command\": [\"x\"\n").problem(422);
    assert!(problem["errors"][0]["line"].as_u64().is_some_and(|line| line >= 2), "{problem}");
    let faults = "{\"command\": [\"true\"],\n\"timeout\": \"soon\",\n\"colour\": 1}";
    let problem = server.post("/api/v1/sessions", JSON, faults).problem(422);
    let told: Vec<_> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["field"].as_str(), e["line"].as_u64()))
        .collect();
    assert!(told.contains(&(Some("colour"), Some(3))), "{problem}");
    let problem = server.post("/api/v1/sessions", JSON, "{}").problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("command"), "{problem}");
    for kind in
        ["", "Content-Type: text/plain\r\n", FORM, "Content-Type: multipart/form-data; boundary=x\r\n"]
    {
        let problem = server.post("/api/v1/sessions", kind, "{\"command\":[\"true\"]}").problem(415);
        assert_eq!(problem["errors"][0]["field"], "Content-Type");
    }
    let large = format!("{{\"command\":[\"{}\"]}}", "x".repeat(2 << 20));
    server.post("/api/v1/sessions", JSON, &large).problem(413);
    let address = server.address;
    // The length is not said: it is cut off while it is read.
    let mut chunked = format!(
        "POST /api/v1/sessions HTTP/1.1\r\nHost: {address}\r\n{JSON}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    for _ in 0..24 {
        chunked.push_str(&format!("10000\r\n{}\r\n", " ".repeat(0x10000)));
    }
    chunked.push_str("0\r\n\r\n");
    server.send(&chunked).problem(413);
    server.post("/api/v1/sessions?color=red", JSON, "{\"command\":[\"true\"]}").problem(400);
    assert_eq!(waiting(&store), 0);
}

#[test]
fn without_a_token_only_the_servers_user_on_this_machine_starts_runs() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let file = "{\"command\":[\"true\"]}";
    let ask = |headers: &str| server.post("/api/v1/sessions", &format!("{JSON}{headers}"), file);
    assert_eq!(ask("").status, 202, "over loopback, by the same user");
    assert_eq!(ask(&bearer()).status, 202);
    for bad in [
        "Authorization: Bearer wrong-wrong-wrong\r\n",
        BASIC,
        "X-Forwarded-For: 127.0.0.1\r\n",
        "Forwarded: for=127.0.0.1\r\n",
        "Via: 1.1 proxy\r\n",
    ] {
        let answer = ask(bad);
        let problem = answer.problem(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{bad}");
        assert!(!problem.to_string().contains(TOKEN));
    }
    // By way of a proxy, with the token.
    assert_eq!(ask(&format!("X-Forwarded-For: 10.0.0.9\r\n{}", bearer())).status, 202);
    // In an address it is refused, and would be logged.
    server.post(&format!("/api/v1/sessions?token={TOKEN}"), JSON, file).problem(400);
    assert_eq!(waiting(&store), 3);
}

#[test]
fn where_the_server_has_a_token_everyone_needs_it() {
    let (_folder, store) = store();
    let token = Some(AccessToken::new(TOKEN).unwrap());
    let server = Server::with(&store, HttpConfig { token, ..HttpConfig::default() });
    server.post("/api/v1/sessions", JSON, "{\"command\":[\"true\"]}").problem(401);
    server.post("/job/x/buildWithParameters", "", "").problem(401);
    assert_eq!(server.get("/job/x/api/json").header("www-authenticate"), Some("Basic realm=\"metier\""));
    let headers = format!("{JSON}{}", bearer());
    assert_eq!(server.post("/api/v1/sessions", &headers, "{\"command\":[\"true\"]}").status, 202);
    assert_eq!(server.request("GET", "/job/x/api/json", BASIC).json()["name"], "x");
    let refused = server.get("/job/x/api/json").problem(401);
    assert!(refused["detail"].as_str().unwrap().contains("basic authentication"), "{refused}");
    // Clients ask for a crumb first, and go on without one only where there is none.
    server.request("GET", "/crumbIssuer/api/json", BASIC).problem(404);
    server.get("/crumbIssuer/api/json").problem(401);
    server.request("GET", "/api/v1/sessions", BASIC).problem(401);
}

#[test]
fn a_page_of_another_site_starts_nothing() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let own = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", server.address);
    for foreign in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        for token in [String::new(), bearer(), BASIC.to_string()] {
            let headers = format!("{FORM}{foreign}{token}");
            server.post("/job/x/buildWithParameters", &headers, "app_name=busybox").problem(403);
        }
        for token in [String::new(), bearer()] {
            let headers = format!("{JSON}{foreign}{token}");
            server.post("/api/v1/sessions", &headers, "{\"command\":[\"true\"]}").problem(403);
        }
    }
    assert_eq!(waiting(&store), 0);
    let headers = format!("{JSON}{own}");
    assert_eq!(
        server.post("/api/v1/sessions", &headers, "{\"command\":[\"true\"]}").status,
        202,
        "our own page"
    );
    // What a browser asks before it sends what a page may not send by itself is not allowed.
    let before = format!("{own}Access-Control-Request-Method: DELETE\r\n");
    let answer = server.request("OPTIONS", "/api/v1/sessions", &before);
    answer.problem(405);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn too_many_that_wait_and_too_many_at_once_are_told_when_to_come_again() {
    let (_folder, store) = store();
    let limits = HttpLimits { starts: 5, ..HttpLimits::default() };
    let server = Server::with(&store, HttpConfig { limits, ..config() });
    let answers: Vec<Response> =
        (0..40).map(|_| server.post("/api/v1/sessions", JSON, "{\"command\":[\"true\"]}")).collect();
    let refused = answers.iter().find(|answer| answer.status != 202).expect("a limit");
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(answers.iter().filter(|answer| answer.status == 202).count() >= 5);

    let (_folder, store) = common::store();
    let server = Server::with(&store, config());
    for _ in 0..metier_session::queue::MAX_WAITING_SESSIONS {
        store.add_session(&new_session("x"), u64::MAX).unwrap();
    }
    let full = server.post("/api/v1/sessions", JSON, "{\"command\":[\"true\"]}");
    assert!(full.problem(429)["detail"].as_str().unwrap().contains("1000"));
    assert_eq!(full.header("retry-after"), Some("30"));
}

#[test]
fn a_build_goes_through_jenkins_queue_to_its_console() {
    let (_folder, store) = store();
    let server = Server::with(&store, config());
    let form = "app_name=lab%2Fapp%3A1&app_args=--rate+1+%27a+b%27&app_docker_args=-v+%2Fd%2Fx.json%3A%2Frun%2Fx.json%3Aro+--runtime+nvidia";
    // Waggle's own address ends with a slash.
    let answer = server.post("/job/nx-profiling/buildWithParameters/", &format!("{FORM}{BASIC}"), form);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let place = answer.header("location").unwrap().to_string();
    assert_eq!(place, format!("http://{}/queue/item/1/", server.address));
    let item = server.get("/queue/item/1/api/json").json();
    assert_eq!(
        (item["executable"].clone(), item["task"]["name"].as_str()),
        (Value::Null, Some("nx-profiling"))
    );
    assert!(item["why"].as_str().is_some() && item["cancelled"] == false);
    server.get("/job/nx-profiling/1/api/json").problem(404);
    server.get("/job/nx-profiling/lastBuild/api/json").problem(404);
    let session = begin(&store);
    assert_eq!(session.asker.user.as_deref(), Some("ci"));
    assert_eq!(session.file["image"], "lab/app:1");
    assert_eq!(session.file["arguments"], json!(["--rate", "1", "a b"]));
    assert_eq!(session.file["mounts"][0]["source"], "/d/x.json");
    assert_eq!(session.file["container"]["runtime"], "nvidia");
    let item = server.get("/queue/item/1/api/json?depth=0").json();
    assert_eq!(item["executable"]["number"], 1);
    assert_eq!(item["executable"]["url"], format!("http://{}/job/nx-profiling/1/", server.address));
    let build = server.get("/job/nx-profiling/1/api/json?depth=0").json();
    assert_eq!((build["building"].clone(), build["result"].clone()), (json!(true), Value::Null));
    assert_eq!(build["actions"][0]["parameters"][1]["value"], "--rate 1 'a b'", "as it was sent");
    store.append_session_log(session.id, 0, b"hello\n").unwrap();
    assert_eq!(server.get("/job/nx-profiling/1/consoleText").text(), "hello\n");
    server.get("/job/other/1/consoleText").problem(404);
    end(&store, &session, SessionState::Finished);
    let build = server.get("/job/nx-profiling/lastBuild/api/json").json();
    assert_eq!((build["building"].clone(), build["result"].as_str()), (json!(false), Some("SUCCESS")));
    assert!(
        build["timestamp"].as_i64().unwrap() > 1_700_000_000_000 && build["duration"].as_i64().unwrap() >= 0
    );
    let about = server.get("/job/nx-profiling/api/json").json();
    assert_eq!(about["lastBuild"]["number"], 1);

    // The parameters may stand in the address, too; and a build can be stopped, an item taken away.
    assert_eq!(server.post("/job/j/buildWithParameters?app_name=a", BASIC, "").status, 201);
    assert_eq!(
        server.post("/job/j/buildWithParameters", &format!("{FORM}{BASIC}"), "app_name=b").status,
        201
    );
    let running = begin(&store);
    assert_eq!(server.post("/job/j/2/stop", BASIC, "").status, 200);
    assert!(store.is_cancel_requested(running.id).unwrap());
    end(&store, &running, SessionState::Cancelled);
    assert_eq!(server.get("/job/j/2/api/json").json()["result"], "ABORTED");
    assert_eq!(server.post("/queue/cancelItem?id=3", BASIC, "").status, 204);
    let item = server.get("/queue/item/3/api/json").json();
    assert_eq!((item["cancelled"].clone(), item["executable"].clone()), (json!(true), Value::Null));
}

#[test]
fn the_jenkins_door_takes_its_three_fields_and_no_others() {
    let (_folder, store) = store();
    let jobs = vec!["known=board-7".parse::<JenkinsJobConfig>().unwrap()];
    let server = Server::with(&store, Config { jobs, ..config().into() });
    let ask = |body: &str| server.post("/job/known/buildWithParameters", &format!("{FORM}{BASIC}"), body);
    for (body, field) in [
        ("", "app_name"),
        ("app_name=", "app_name"),
        ("app_name=a&APP_NAME=b", "APP_NAME"),
        ("app_name=a&delay=0sec", "delay"),
        ("app_name=a&token=x", "token"),
        ("app_name=a&app_name=b", "app_name"),
        ("app_name=a&app_args=%27open", "app_args"),
        ("app_name=a&app_docker_args=--privileged", "app_docker_args"),
        ("app_name=a&app_docker_args=--env-file+%2Fetc%2Fshadow", "app_docker_args"),
    ] {
        let problem = ask(body).problem(400);
        assert_eq!(problem["errors"][0]["field"], field, "{body}: {problem}");
    }
    server.post("/job/unknown/buildWithParameters", &format!("{FORM}{BASIC}"), "app_name=a").problem(404);
    server.post("/job/..%2Fx/buildWithParameters", &format!("{FORM}{BASIC}"), "app_name=a").problem(400);
    server.post("/job/known/buildWithParameters?token=x", BASIC, "").problem(400);
    let wrong = "Authorization: Basic Y2k6d3Jvbmctd3Jvbmctd3Jvbmc=\r\n";
    let answer = server.post("/job/known/buildWithParameters", &format!("{FORM}{wrong}"), "app_name=a");
    answer.problem(401);
    assert_eq!(answer.header("www-authenticate"), Some("Basic realm=\"metier\""));
    assert_eq!(waiting(&store), 0);
    assert_eq!(ask("app_name=a&app_args=%24%28touch+x%29%3B+rm").status, 201);
    let session = begin(&store);
    assert_eq!(session.device.as_deref(), Some("board-7"), "the job's own");
    assert_eq!(session.file["arguments"], json!(["$(touch", "x);", "rm"]));
}

#[test]
fn a_job_has_what_its_run_file_says_and_else_a_time_limit() {
    let (_folder, store) = store();
    let mut board = "board=nobody-knows-it".parse::<JenkinsJobConfig>().unwrap();
    let own = json!({ "duration": "20s", "tags": ["waggle"], "container": { "network": "host", "runtime": "nvidia" },
        "environment": { "MODE": "fast" } });
    board.defaults = own.as_object().unwrap().clone();
    let jobs = vec![board, "plain".parse::<JenkinsJobConfig>().unwrap()];
    let server = Server::with(&store, Config { jobs, ..config().into() });
    let ask = |job: &str, body: &str| {
        server.post(&format!("/job/{job}/buildWithParameters"), &format!("{FORM}{BASIC}"), body)
    };
    assert_eq!(
        ask("plain", "app_name=+lab%2Fapp%3A1%0A&app_args=+&app_docker_args=--shm-size+64m").status,
        201
    );
    let session = begin(&store);
    assert_eq!(
        (session.file["image"].as_str(), session.file["timeout"].as_str()),
        (Some("lab/app:1"), Some("10m"))
    );
    assert_eq!(session.file["listen"], json!({ "socket": true, "pywaggle": true }));
    assert_eq!(session.file["container"]["shared_memory"], "64Mi");
    assert_eq!(session.asker.extra["parameters"]["app_name"], " lab/app:1\n", "as it was sent");
    assert_eq!(ask("board", "app_name=a&app_docker_args=--network+none+-e+A%3D1+-v+%2Fa%3A%2Fb").status, 201);
    let item = server.get("/queue/item/2/api/json").json();
    let why = item["why"].as_str().unwrap();
    assert!(why.contains("nobody-knows-it") && why.contains("is unknown here"), "{why}");
    let id = store.session_by_number(2).unwrap().unwrap();
    assert_eq!((id.file["duration"].as_str(), id.file.get("timeout")), (Some("20s"), None));
    assert_eq!(id.file["container"], json!({ "network": "none", "runtime": "nvidia" }));
    assert_eq!(id.file["environment"], json!({ "A": "1", "MODE": "fast" }));
    assert_eq!(id.file["tags"], json!(["waggle", "job:board"]));
    let problem = ask("plain", "app_name=two+words").problem(400);
    assert_eq!(problem["errors"][0]["field"], "app_name", "{problem}");
    let problem = ask("plain", "app_name=a&app_docker_args=-w+relative").problem(400);
    assert_eq!(problem["errors"][0]["field"], "app_docker_args", "{problem}");
}
