//! Shared parts of the tests: a real server on a free port over a real store, a plain HTTP client
//! that sends bytes unchanged, and synthetic runs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use metier_server::{Config, Error};
use metier_store::{RecordStore, StoreLocation};
use metier_types::schema::RecordSchema;
use metier_types::*;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Long enough for the slowest machine; only a test that fails waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a thread of its own; stopped when dropped.
pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Server {
    /// On a free loopback port.
    pub fn start(store: &RecordStore) -> Self {
        Self::with(store, Config::default())
    }

    /// With that configuration, on a free port of its address.
    pub fn with(store: &RecordStore, config: impl Into<Config>) -> Self {
        let mut config = config.into();
        config.http.listen.set_port(0);
        let store = store.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let shutdown = async move { drop(stopped.await) };
            let on_ready = move |address| ready.send(address).unwrap();
            let result = runtime.block_on(metier_server::serve(config, store, on_ready, shutdown));
            runtime.shutdown_timeout(Duration::from_secs(1));
            result
        });
        let address = is_ready.recv_timeout(PATIENCE).expect("the server gets ready");
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    /// Tells it to stop, and does not wait.
    pub fn tell_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits for its end.
    pub fn join(&mut self) -> Result<(), Error> {
        self.tell_to_stop();
        self.thread.take().expect("joined once").join().expect("the server does not panic")
    }

    /// GET with an ordinary Host header.
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path, "")
    }

    /// Any method; `headers` are whole lines, each with its line end.
    pub fn request(&self, method: &str, path: &str, headers: &str) -> Response {
        let address = self.reachable();
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n"
        ))
    }

    /// POST of a body; `headers` are whole lines, each with its line end.
    pub fn post(&self, path: &str, headers: &str, body: &str) -> Response {
        let length = body.len();
        let address = self.reachable();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
    }

    /// Sends that and reads until the server closes.
    pub fn send(&self, request: &str) -> Response {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        Response::read(&mut stream)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.reachable()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The address to connect to where it listens on all.
    fn reachable(&self) -> SocketAddr {
        match self.address.ip().is_unspecified() {
            true => SocketAddr::from(([127, 0, 0, 1], self.address.port())),
            false => self.address,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.join();
        }
    }
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A server that closes while we still send may reset the connection after its answer.
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no whole head in {:?}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_string()))
            .collect();
        Self { status, headers, body: bytes[end + 4..].to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The problem that it must be.
    pub fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], status);
        for field in ["type", "title", "detail"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {problem}");
        }
        assert!(problem["errors"].is_array());
        problem
    }
}

/// An SQLite store in a folder of its own.
pub fn store() -> (TempDir, RecordStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = RecordStore::open(&StoreLocation::Sqlite(folder.path().join("metier.db"))).unwrap();
    (folder, store)
}

pub fn device() -> Device {
    serde_json::from_value(serde_json::json!({
        "schema": "metier.device/1", "id": "board-7", "name": "board seven", "class": "board",
        "cpu": {"architecture": "aarch64", "threads": 4}, "seen": "2026-01-02T03:04:05Z",
    }))
    .unwrap()
}

pub fn workload(name: &str) -> Workload {
    serde_json::from_value(serde_json::json!({
        "schema": "metier.workload/1", "id": name, "name": name, "kind": "command",
        "command": ["/bin/true"], "first_seen": "2026-01-02T03:04:05Z",
    }))
    .unwrap()
}

/// A finished run; `number` spreads runs over time and figures.
pub fn run(name: &str, batch: BatchId, number: u32) -> Run {
    let started: UtcTimestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    let started = started + Duration::from_secs(u64::from(number));
    Run {
        schema: RecordSchema::new(),
        id: RunId::new(),
        batch,
        workload: WorkloadRef { id: name.parse().unwrap(), name: name.into(), extra: ExtraFields::new() },
        device: device().reference(),
        state: RunState::Finished,
        started,
        ended: Some(started + Duration::from_secs(1)),
        verdict: None,
        exit: Some(
            serde_json::from_value(serde_json::json!({"code": 0, "signal": null, "cause": "exited"}))
                .unwrap(),
        ),
        context: serde_json::from_value(serde_json::json!({
            "command": ["/bin/sleep", "1"], "measured_by": "metier 0.1.0", "method": "cgroup-v2",
            "repetition": 1, "repetitions": 1,
        }))
        .unwrap(),
        tags: vec![if number.is_multiple_of(2) { "even".into() } else { "odd".into() }],
        summary: RunSummary {
            wall_seconds: Some(Seconds(1.0 + f64::from(number % 7) / 1000.0)),
            cpu_seconds: Some(Seconds(0.5)),
            peak_memory_bytes: Some(Bytes(1 << 20)),
            ..RunSummary::default()
        },
        cpu: Default::default(),
        memory: Default::default(),
        io: Default::default(),
        network: None,
        pressure: Default::default(),
        energy: Default::default(),
        gpus: Vec::new(),
        stages: Vec::new(),
        intake: None,
        host: Default::default(),
        overhead: Default::default(),
        quality: Default::default(),
        missing: Default::default(),
        warnings: Vec::new(),
        artefacts: Vec::new(),
        extra: ExtraFields::new(),
    }
}

/// A time line at 100 Hz: a counter, a gauge, and a float gauge with holes.
pub fn series(run: RunId, rows: usize) -> Vec<Series> {
    let mut series = Series::new(run, "use");
    series.times = (0..rows as i64).map(|row| row * 10_000_000 + row % 3).collect();
    let column = |name: &str, kind, unit, values| SeriesColumn {
        name: name.into(),
        kind,
        unit,
        values,
        absent: vec![],
    };
    let counter = (0..rows as i64).map(|row| row * 4_000_000).collect();
    let gauge = (0..rows as i64).map(|row| (row * 7919) % 1_000_003).collect();
    series.columns.push(column(
        "cpu",
        ColumnKind::Counter,
        ColumnUnit::Nanoseconds,
        ColumnValues::Integer(counter),
    ));
    series.columns.push(column("memory", ColumnKind::Gauge, ColumnUnit::Bytes, ColumnValues::Integer(gauge)));
    let mut host = Series::new(run, "host");
    host.times = (0..rows as i64 / 100).map(|row| row * 1_000_000_000).collect();
    let mut loads: Vec<f64> = host.times.iter().map(|time| *time as f64 / 1e10).collect();
    if let Some(first) = loads.first_mut() {
        *first = f64::NAN;
    }
    host.columns.push(column("load1", ColumnKind::Gauge, ColumnUnit::Count, ColumnValues::Float(loads)));
    vec![series, host]
}

pub fn new_session(name: &str) -> metier_store::NewSession {
    metier_store::NewSession {
        id: SessionId::new(),
        name: name.to_string(),
        asker: serde_json::from_value(serde_json::json!({"door": "api", "user": null})).unwrap(),
        job: None,
        device: None,
        file: serde_json::json!({"command": ["true"]}),
        folder: None,
    }
}

/// A store with a device, two workloads and so many runs.
pub fn fill(store: &RecordStore, runs: u32) -> Vec<Run> {
    store.put_device(&device()).unwrap();
    store.put_workload(&workload("alpha")).unwrap();
    store.put_workload(&workload("beta")).unwrap();
    let (first, second) = (BatchId::new(), BatchId::new());
    (0..runs)
        .map(|number| {
            let (name, batch) = if number.is_multiple_of(3) { ("beta", second) } else { ("alpha", first) };
            let run = run(name, batch, number);
            assert!(store.put_run(&run, &[]).unwrap());
            run
        })
        .collect()
}

/// The value is a JSON string of that text.
pub fn is(value: &Value, text: &str) -> bool {
    value.as_str() == Some(text)
}
