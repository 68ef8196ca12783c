//! Tests the query client against a real Prometheus (the lab's, and one with TLS and a password)
//! and against servers that hang, send too much, fail or send wrong data.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier_prom::query::{
    BlockingClient, PromClient, PromCredentials, PromEndpoint, QueryError, QueryFailure, QueryRange,
    QueryResponse,
};
use metier_types::UtcTimestamp;

/// The lab's Prometheus, or the reason why there is none.
fn lab() -> Option<BlockingClient> {
    let Ok(address) = std::env::var("METIER_LAB_PROMETHEUS") else {
        eprintln!("SKIP: needs the lab's Prometheus because METIER_LAB_PROMETHEUS is not set");
        return None;
    };
    Some(BlockingClient::new(address.parse().unwrap()).unwrap())
}

fn instant(client: &BlockingClient, expression: &str) -> Result<QueryResponse, QueryError> {
    client.block_on(async |client| client.query_instant(expression, None).await)
}

fn trouble(error: &QueryError) -> &QueryFailure {
    error.failure().unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn instant_answers_of_a_real_prometheus_are_typed() {
    let Some(client) = lab() else { return };
    let up = instant(&client, "up").unwrap();
    let up = up.as_vector().unwrap();
    assert!(up.len() >= 2 && up.iter().all(|one| one.metric.name() == Some("up")), "{up:?}");
    assert!(up.iter().any(|one| one.metric.label("job") == Some("node") && one.point.value == 1.0), "{up:?}");
    assert_eq!(instant(&client, "scalar(vector(0.1))").unwrap().as_number(), Some(0.1));
    assert_eq!(instant(&client, "1/0").unwrap().as_number(), Some(f64::INFINITY));
    assert_eq!(instant(&client, "vector(-1)/0").unwrap().as_number(), Some(f64::NEG_INFINITY));
    assert!(instant(&client, "0/0").unwrap().as_number().unwrap().is_nan());
    assert!(instant(&client, "no_such_series_at_all").unwrap().as_vector().unwrap().is_empty());
    let matrix = instant(&client, "up{job=\"node\"}[10s]").unwrap();
    assert!(matrix.as_matrix().unwrap().iter().all(|series| !series.points.is_empty()), "{matrix:?}");
    // The raw payload is available and parses again.
    let again = QueryResponse::parse(matrix.raw.clone()).unwrap();
    assert_eq!(again.values, matrix.values);
    assert!(matrix.raw.starts_with(b"{\"status\":\"success\""));
}

#[test]
fn range_answers_have_the_steps_that_were_asked_for() {
    let Some(client) = lab() else { return };
    let end = UtcTimestamp::from_second(UtcTimestamp::now().as_second() - 1).unwrap();
    let start = UtcTimestamp::from_second(end.as_second() - 10).unwrap();
    let step = Duration::from_millis(2500);
    let answer = client
        .block_on(async |client| client.query_range("vector(7)", QueryRange { start, end, step }).await)
        .unwrap();
    let [series] = answer.as_matrix().unwrap() else { panic!("{answer:?}") };
    let times: Vec<i64> =
        series.points.iter().map(|point| point.at.as_millisecond() - start.as_millisecond()).collect();
    assert_eq!(times, [0, 2500, 5000, 7500, 10_000]);
    for wrong in [
        QueryRange { start: end, end: start, step },
        QueryRange { start, end, step: Duration::ZERO },
        QueryRange { start, end, step: Duration::from_micros(500) },
    ] {
        let error = client.block_on(async |client| client.query_range("up", wrong).await).unwrap_err();
        assert!(matches!(error, QueryError::BadRange { .. }), "{error}");
    }
}

#[test]
fn series_and_label_values_are_listed() {
    let Some(client) = lab() else { return };
    let now = UtcTimestamp::now();
    let before = UtcTimestamp::from_second(now.as_second() - 60).unwrap();
    let series =
        client.block_on(async |client| client.find_series("up{job=\"node\"}", before, now).await).unwrap();
    assert!(series.iter().any(|metric| metric.label("job") == Some("node")), "{series:?}");
    let names = client.block_on(async |client| client.label_values("__name__").await).unwrap();
    assert!(names.iter().any(|name| name == "node_cpu_seconds_total"));
    let error =
        client.block_on(async |client| client.label_values("../query").await).unwrap_err().to_string();
    assert!(error.contains("letters, digits and underscores"), "{error}");
}

#[test]
fn a_wrong_expression_is_refused_in_prometheus_own_words_and_not_tried_again() {
    let Some(client) = lab() else { return };
    let error = instant(&client, "rate(up").unwrap_err();
    let QueryFailure::Refused { status: 400, answer, tries: 1 } = trouble(&error) else { panic!("{error}") };
    assert!(answer.contains("bad_data") && answer.contains("unclosed left parenthesis"), "{answer}");
    assert!(error.to_string().contains("\"rate(up\"") && !error.is_retryable(), "{error}");
    // HTTP 422: the expression is valid but cannot be evaluated.
    let error = instant(&client, "up * on() up").unwrap_err();
    assert!(matches!(trouble(&error), QueryFailure::Refused { status: 422, .. }), "{error}");
    // A long query is sent as a form.
    let long = format!("vector(1) + {}", vec!["0"; 5000].join(" + "));
    assert_eq!(instant(&client, &long).unwrap().as_number(), Some(1.0));
}

/// A server that passes each connection's request to a function.
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: impl Fn(usize, &str, &mut dyn Write) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let head = head(&mut stream);
                if !head.is_empty() {
                    let number = {
                        let mut seen = kept.lock().unwrap();
                        seen.push(head.clone());
                        seen.len()
                    };
                    answer(number, &head, &mut stream);
                }
            }
        });
        Self { address, seen }
    }

    fn endpoint(&self) -> PromEndpoint {
        let mut endpoint: PromEndpoint = self.address.to_string().parse().unwrap();
        endpoint.bounds.pause = Duration::from_millis(1);
        endpoint
    }

    fn client(&self) -> BlockingClient {
        BlockingClient::new(self.endpoint()).unwrap()
    }
}

fn head(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    let mut lines = BufReader::new(stream);
    while lines.read_line(&mut head).is_ok_and(|read| read > 2) {}
    head
}

fn say(out: &mut dyn Write, status: &str, body: &str) {
    let length = body.len();
    let _ = write!(out, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    let _ = out.flush();
}

const ONE: &str = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#;

#[test]
fn what_may_pass_is_tried_again_and_what_will_not_is_not() {
    let wobbly = Server::start(|number, _, out| match number {
        1 => {
            say(out, "503 Unavailable", r#"{"status":"error","errorType":"unavailable","error":"starting"}"#)
        }
        2 => say(out, "429 Too Many Requests", "slow down"),
        _ => say(out, "200 OK", ONE),
    });
    assert_eq!(instant(&wobbly.client(), "up").unwrap().as_number(), Some(1.0));
    assert_eq!(wobbly.seen.lock().unwrap().len(), 3);
    let broken = Server::start(|_, _, out| say(out, "500 Oh", "panic: at the disco\nsecond line"));
    let error = instant(&broken.client(), "up").unwrap_err();
    assert_eq!(
        trouble(&error),
        &QueryFailure::Refused { status: 500, answer: "panic: at the disco".into(), tries: 4 },
        "{error}"
    );
    assert!(error.is_retryable());
    for status in ["400 Bad", "401 Unauthorized", "404 Not Found", "501 No"] {
        let strict = Server::start(move |_, _, out| say(out, status, ""));
        instant(&strict.client(), "up").unwrap_err();
        assert_eq!(strict.seen.lock().unwrap().len(), 1, "{status}");
    }
    // A requested delay beyond the time limit means no second attempt.
    let busy = Server::start(|_, _, out| {
        let _ = write!(
            out,
            "HTTP/1.1 503 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    });
    let error = instant(&busy.client(), "up").unwrap_err();
    assert!(matches!(trouble(&error), QueryFailure::Refused { status: 503, tries: 1, .. }), "{error}");
}

#[test]
fn nobody_listening_is_said_after_the_tries() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut endpoint: PromEndpoint = format!("http://me:hunter2@{free}/x").parse().unwrap();
    endpoint.bounds.tries = 2;
    endpoint.bounds.pause = Duration::from_millis(1);
    let error = instant(&BlockingClient::new(endpoint).unwrap(), "up").unwrap_err();
    assert!(matches!(trouble(&error), QueryFailure::Unreachable { tries: 2, .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("http://{free}/x")) && text.contains("refused") && !text.contains("hunter2"),
        "{text}"
    );
}

#[test]
fn a_server_that_hangs_costs_no_more_than_the_bound() {
    // The kernel accepts the connection, but no process answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut endpoint: PromEndpoint = silent.local_addr().unwrap().to_string().parse().unwrap();
    endpoint.bounds.time = Duration::from_millis(200);
    let error = instant(&BlockingClient::new(endpoint).unwrap(), "up").unwrap_err();
    assert_eq!(trouble(&error), &QueryFailure::TimedOut { after: Duration::from_millis(200) }, "{error}");
    // A server that begins a response and then stops.
    let slow = Server::start(|_, _, out| {
        let _ = out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{").and_then(|()| out.flush());
        std::thread::park();
    });
    let mut endpoint = slow.endpoint();
    endpoint.bounds.time = Duration::from_millis(200);
    let error = instant(&BlockingClient::new(endpoint).unwrap(), "up").unwrap_err();
    assert!(matches!(trouble(&error), QueryFailure::TimedOut { .. }), "{error}");
}

#[test]
fn a_huge_answer_is_not_taken_whether_it_is_announced_or_not() {
    let announced = Server::start(|_, _, out| {
        let _ = out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{");
    });
    let endless = Server::start(|_, _, out| {
        let _ = out.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        while out.write_all(&[b' '; 4096]).is_ok() {}
    });
    for server in [announced, endless] {
        let mut endpoint = server.endpoint();
        endpoint.bounds.body_bytes = 100_000;
        let error = instant(&BlockingClient::new(endpoint).unwrap(), "up").unwrap_err();
        assert_eq!(trouble(&error), &QueryFailure::TooLarge { most: 100_000 }, "{error}");
    }
}

#[test]
fn something_else_than_prometheus_is_told_apart() {
    let page = Server::start(|_, _, out| say(out, "200 OK", "<html>hello</html>"));
    let error = instant(&page.client(), "up").unwrap_err();
    assert!(matches!(trouble(&error), QueryFailure::Malformed { .. }), "{error}");
    let login = Server::start(|_, _, out| {
        let _ = out.write_all(
            b"HTTP/1.1 302 Found\r\nLocation: https://login.example/start?secret=1\r\nContent-Length: 0\r\n\r\n",
        );
    });
    let text = instant(&login.client(), "up").unwrap_err().to_string();
    assert!(text.contains("https://login.example/start;") && !text.contains("secret"), "{text}");
}

#[test]
fn the_token_and_headers_are_sent_and_never_said() {
    let guarded = Server::start(|_, head, out| {
        let head = head.to_ascii_lowercase();
        match head.contains("authorization: bearer hunter2") && head.contains("x-scope-orgid: hunter3") {
            true => say(out, "200 OK", ONE),
            false => say(out, "401 Unauthorized", "who are you?"),
        }
    });
    let error = instant(&guarded.client(), "up").unwrap_err();
    assert!(matches!(trouble(&error), QueryFailure::Refused { status: 401, .. }), "{error}");
    let mut endpoint = guarded.endpoint();
    endpoint.credentials = PromCredentials::Bearer("hunter2".into());
    endpoint.headers.push(("X-Scope-OrgID".into(), "hunter3".into()));
    let client = BlockingClient::new(endpoint.clone()).unwrap();
    assert_eq!(instant(&client, "up").unwrap().as_number(), Some(1.0));
    assert!(!format!("{client:?}").contains("hunter"), "{client:?}");
    endpoint.credentials = PromCredentials::Bearer("two\nlines".into());
    let error = BlockingClient::new(endpoint).unwrap_err().to_string();
    assert!(error.contains("a header cannot carry") && !error.contains("lines"), "{error}");
}

#[test]
fn the_same_client_serves_tasks_and_the_waiting_one_refuses_to_block_them() {
    let server = Server::start(|_, _, out| say(out, "200 OK", ONE));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = PromClient::new(server.endpoint()).unwrap();
    let waiting = server.client();
    runtime.block_on(async {
        assert_eq!(client.query_instant("up", None).await.unwrap().as_number(), Some(1.0));
        let error = instant(&waiting, "up").unwrap_err().to_string();
        assert!(error.contains("use `PromClient`"), "{error}");
    });
}

/// A certificate authority and a certificate for this host, in PEM.
struct Papers {
    authority: String,
    certificate: String,
    key: String,
}

impl Papers {
    fn make() -> Self {
        let mut of_authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
        of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let authority = of_authority.self_signed(&authority_key).unwrap();
        let issuer = rcgen::Issuer::new(of_authority, authority_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_string(), "localhost".to_string()];
        let certificate = rcgen::CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        Self { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A process that is killed on drop by its id.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_prometheus_with_tls_and_a_password_answers_those_who_trust_its_authority() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        eprintln!("SKIP: needs prometheus because TLS is tried against the real one");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let papers = Papers::make();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("authority.pem", &papers.authority);
    write("other.pem", &Papers::make().authority);
    write("certificate.pem", &papers.certificate);
    write("key.pem", &papers.key);
    write("prometheus.yml", "");
    // The password is "hunter2".
    write(
        "web.yml",
        "tls_server_config: {cert_file: certificate.pem, key_file: key.pem}\n\
         basic_auth_users: {metier: \"$2b$04$metierpromquerytestsaebVTwtbP.ZeLF3yznN9hiMPKRM/fHo0q\"}\n",
    );
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _running = Running(
        Command::new("prometheus")
            .current_dir(folder.path())
            .args(["--config.file=prometheus.yml", "--web.config.file=web.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut endpoint: PromEndpoint = format!("https://metier:hunter2@127.0.0.1:{port}").parse().unwrap();
    endpoint.authority = Some(folder.path().join("authority.pem"));
    let client = BlockingClient::new(endpoint.clone()).unwrap();
    let began = Instant::now();
    let answer = loop {
        match instant(&client, "vector(42)") {
            Err(error) if error.is_retryable() && began.elapsed() < Duration::from_secs(60) => {}
            other => break other,
        }
    };
    assert_eq!(answer.unwrap().as_number(), Some(42.0));

    let mut nobody = endpoint.clone();
    nobody.credentials = PromCredentials::None;
    let error = instant(&BlockingClient::new(nobody).unwrap(), "up").unwrap_err();
    assert!(matches!(trouble(&error), QueryFailure::Refused { status: 401, .. }), "{error}");

    let mut unknown = endpoint.clone();
    unknown.authority = None;
    let mut other = endpoint.clone();
    other.authority = Some(folder.path().join("other.pem"));
    for untrusting in [&unknown, &other] {
        let error = instant(&BlockingClient::new(untrusting.clone()).unwrap(), "up").unwrap_err();
        assert!(matches!(trouble(&error), QueryFailure::Untrusted { .. }), "{error}");
    }
    unknown.accept_any_certificate = true;
    assert_eq!(instant(&BlockingClient::new(unknown).unwrap(), "1").unwrap().as_number(), Some(1.0));

    for (name, said) in [("key.pem", "no certificate"), ("nowhere.pem", "No such file")] {
        let mut wrong = endpoint.clone();
        wrong.authority = Some(folder.path().join(name));
        let error = BlockingClient::new(wrong).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(said), "{error}");
    }
}
