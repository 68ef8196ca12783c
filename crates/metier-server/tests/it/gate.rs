//! One gate for all listeners: names and origins, order of the checks, slow clients, memory of
//! bodies. Each test uses real connections over loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::common::*;
use metier_power::catalog::PipelineCatalog;
use metier_server::agent::AgentConfig;
use metier_server::config::DoctorCallback;
use metier_server::kepler::{BackgroundServices, KeplerServices};
use metier_server::{AccessToken, Config, HttpConfig, HttpLimits};

const TOKEN: &str = "a-token-that-is-long";
const JSON: &str = "Content-Type: application/json\r\n";

/// Model server and trainer on free ports of this address.
fn kepler(listen: &str, token: Option<&str>, limits: HttpLimits) -> (BackgroundServices, [SocketAddr; 2]) {
    let (shelf, _) = PipelineCatalog::open(Vec::new(), None).unwrap();
    let services = KeplerServices {
        models: Some(listen.parse().unwrap()),
        trainer: Some(listen.parse().unwrap()),
        is_open: true,
        token: token.map(|token| AccessToken::new(token).unwrap()),
        http: HttpConfig { limits, ..HttpConfig::default() },
        ..KeplerServices::new(Arc::new(shelf))
    };
    let serving = services.run_in_background().unwrap();
    let opened = [serving.opened.models.unwrap(), serving.opened.trainer.unwrap()];
    let addresses = opened.map(|address| SocketAddr::from(([127, 0, 0, 1], address.port())));
    (serving, addresses)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn send(address: SocketAddr, request: &str) -> Response {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    Response::read(&mut stream)
}

/// A request with that `Host`; `headers` are whole lines.
fn ask(address: SocketAddr, line: &str, host: &str, headers: &str, body: &str) -> Response {
    let length = body.len();
    send(
        address,
        &format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
    )
}

/// Repeats until that holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The agent on a free loopback port, while `test` runs.
fn with_agent(test: impl FnOnce(SocketAddr)) {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let server = HttpConfig { listen: "127.0.0.1:0".parse().unwrap(), ..HttpConfig::default() };
        let config = AgentConfig { server, sockets: Vec::new(), ..AgentConfig::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let until = async move { drop(stopped.await) };
        let on_ready = move |address| ready.send(address).unwrap();
        runtime.block_on(metier_server::agent::serve(config, on_ready, until)).unwrap();
    });
    test(is_ready.recv_timeout(PATIENCE).unwrap());
    stop.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn every_listener_refuses_a_foreign_host_on_loopback() {
    let (_folder, store) = store();
    let server = Server::start(&store);
    let (_serving, [models, trainer]) = kepler("127.0.0.1:0", None, HttpLimits::default());
    with_agent(|agent| {
        for (address, path) in
            [(server.address, "/api/v1/runs"), (models, "/models"), (trainer, "/jobs"), (agent, "/metrics")]
        {
            assert_eq!(ask(address, &format!("GET {path}"), "localhost", "", "").status, 200, "{path}");
            for host in ["evil.example", "models", "models.kepler.svc.cluster.local"] {
                let problem = ask(address, &format!("GET {path}"), host, "", "").problem(421);
                assert_eq!(problem["errors"][0]["field"], "Host", "{path}");
            }
        }
    });
}

#[test]
fn names_of_a_cluster_pass_where_other_machines_reach_the_service() {
    let (_serving, [models, trainer]) = kepler("0.0.0.0:0", Some(TOKEN), HttpLimits::default());
    for host in ["models", "models.kepler.svc", "models.kepler.svc.cluster.local:8100", "10.1.2.3:8100"] {
        assert_eq!(ask(models, "GET /models", host, "", "").status, 200, "{host}");
    }
    ask(models, "GET /models", "evil.example", "", "").problem(421);
    let shown = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(models, "GET /models", "lab.example", &shown, "").status, 200, "no page has the token");
    assert_eq!(ask(models, "GET /healthz", "lab.example", "", "").status, 200);
    ask(trainer, "GET /jobs", "trainer.kepler.svc", "", "").problem(401);
}

#[test]
fn a_page_of_another_origin_starts_no_training() {
    let (_serving, [models, trainer]) = kepler("127.0.0.1:0", None, HttpLimits::default());
    for origin in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        for (address, line) in [
            (trainer, "POST /train"),
            (trainer, "DELETE /jobs/1"),
            (models, "POST /model"),
            (models, "POST /reload"),
        ] {
            let headers = format!("{origin}Content-Type: text/plain\r\n");
            ask(address, line, "localhost", &headers, "{}").problem(403);
        }
    }
    let problem = ask(trainer, "POST /train", "localhost", "Content-Type: text/plain\r\n", "{}").problem(415);
    assert_eq!(problem["errors"][0]["want"], "application/json");
    // Without a page it is this user's own process, as with starting a run.
    assert_eq!(ask(trainer, "POST /train", "localhost", JSON, "{}").status, 400);
    let forwarded = format!("{JSON}X-Forwarded-For: 192.0.2.7\r\n");
    ask(trainer, "POST /train", "localhost", &forwarded, "{}").problem(401);
}

#[test]
fn credentials_are_asked_for_before_the_origin() {
    let (_serving, [_, trainer]) = kepler("0.0.0.0:0", Some(TOKEN), HttpLimits::default());
    let foreign = format!("Origin: http://evil.example\r\n{JSON}");
    let problem = ask(trainer, "POST /train", "localhost", &foreign, "{}").problem(401);
    let detail = problem["detail"].as_str().unwrap();
    assert!(!detail.contains("--open"), "a trainer cannot be opened by name: {detail}");
    let shown = format!("Authorization: Bearer {TOKEN}\r\n{foreign}");
    ask(trainer, "POST /train", "localhost", &shown, "{}").problem(403);
    let own = format!("Authorization: Bearer {TOKEN}\r\n{JSON}");
    assert_eq!(ask(trainer, "POST /train", "localhost", &own, "{}").status, 400);
}

#[test]
fn token_and_media_type_are_checked_before_the_body_is_sent() {
    let (_folder, store) = store();
    let (_serving, [models, trainer]) = kepler("127.0.0.1:0", Some(TOKEN), HttpLimits::default());
    let config = HttpConfig { token: Some(AccessToken::new(TOKEN).unwrap()), ..HttpConfig::default() };
    let server = Server::with(&store, config);
    let shown = format!("Authorization: Bearer {TOKEN}\r\n");
    let text = "Content-Type: text/plain\r\n";
    for (address, path, headers, status) in [
        (trainer, "/train", JSON.to_string(), 401),
        (trainer, "/train", format!("{shown}{text}"), 415),
        (models, "/models", JSON.to_string(), 401),
        (models, "/model", text.to_string(), 415),
        (server.address, "/api/v1/sessions", JSON.to_string(), 401),
        (server.address, "/api/v1/sessions", format!("{shown}{text}"), 415),
        (server.address, "/upload", text.to_string(), 401),
        (server.address, "/upload", format!("{shown}{text}"), 415),
    ] {
        // The body never comes, so an answer was given without it.
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 1000\r\n\r\n");
        send(address, &head).problem(status);
    }
}

#[test]
fn slow_clients_do_not_keep_others_out() {
    let (_folder, store) = store();
    let limits = || HttpLimits { connections: 32, ..HttpLimits::default() };
    let server = Server::with(&store, HttpConfig { limits: limits(), ..HttpConfig::default() });
    let (_serving, [models, trainer]) = kepler("127.0.0.1:0", None, limits());
    for (address, body) in [(server.address, "/api/v1/graphs"), (models, "/model"), (trainer, "/train")] {
        let body = format!("POST {body} HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: 1000\r\n\r\n{{");
        let unread = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
        let mut slow = Vec::new();
        for sent in ["", "GET / HTTP/1.1\r\nHost: loc", &body, &unread] {
            for _ in 0..40 {
                let mut stream = connect(address);
                let _ = stream.write_all(sent.as_bytes());
                slow.push(stream);
            }
            for _ in 0..8 {
                assert_eq!(
                    ask(address, "GET /healthz", "localhost", "", "").status,
                    200,
                    "{address} {sent:.20}"
                );
            }
        }
        assert_eq!(
            ask(models, "POST /model", "localhost", JSON, "{}").status,
            400,
            "a good request, answered"
        );
        drop(slow);
    }
}

#[test]
fn a_body_that_pauses_loses_its_place() {
    let limits = HttpLimits { pause_time: Duration::from_millis(100), ..HttpLimits::default() };
    let (_serving, [_, trainer]) = kepler("127.0.0.1:0", None, limits);
    let head = format!("POST /train HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: 1000\r\n\r\n{{");
    let problem = send(trainer, &head).problem(408);
    assert!(problem["detail"].as_str().unwrap().contains("paused"), "{problem}");
}

#[test]
fn all_bodies_together_have_one_budget_of_memory() {
    const LARGE: usize = 24 << 20;
    let (_folder, store) = store();
    let limits = HttpLimits {
        bodies_bytes: 1 << 20,
        pause_time: PATIENCE,
        upload_time: PATIENCE,
        ..HttpLimits::default()
    };
    let server = Server::with(&store, HttpConfig { limits, ..HttpConfig::default() });
    let head = format!(
        "POST /api/v1/graphs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        LARGE + 1
    );
    let upload = || {
        let mut stream = connect(server.address);
        stream.write_all(head.as_bytes()).unwrap();
        // More than the kernel holds: the server has read far beyond the common budget.
        let sent = stream.write_all(&vec![0; LARGE]);
        (stream, sent)
    };
    let (first, sent) = upload();
    sent.unwrap();
    let refused = || {
        let (mut stream, _) = upload();
        let mut reply = Vec::new();
        let _ = stream.write_all(b"0");
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    };
    // The refusal may be lost, since the connection is closed while the client still sends.
    until("refused", || refused().contains("memory for request bodies is used up"));
    let small = "{}";
    assert_eq!(server.post("/api/v1/graphs", "", small).status, 422, "a small body needs no large one's end");
    drop(first);
    until("given back", || refused().starts_with("HTTP/1.1 422"));
}

#[test]
fn too_much_work_is_refused_and_health_is_not() {
    let (_folder, store) = store();
    let (answer, may_answer) = mpsc::channel::<()>();
    let may_answer = Mutex::new(may_answer);
    let doctor: DoctorCallback = Arc::new(move || {
        let _ = may_answer.lock().unwrap().recv_timeout(PATIENCE);
        Vec::new()
    });
    let limits = HttpLimits { connections: 16, request_time: PATIENCE, ..HttpLimits::default() };
    let http = HttpConfig { limits, ..HttpConfig::default() };
    let server = Server::with(&store, Config { doctor: Some(doctor), ..http.into() });
    let waiting: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /api/v1/doctor HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    until("all places of this address are taken", || server.get("/api/v1/runs").status == 503);
    let problem = server.get("/api/v1/runs").problem(503);
    assert!(problem["detail"].as_str().unwrap().contains("too many requests"), "{problem}");
    assert_eq!(server.get("/healthz").status, 200);
    (0..3).for_each(|_| answer.send(()).unwrap());
    until("free again", || server.get("/api/v1/runs").status == 200);
    drop(waiting);
}
