//! Looks whether a run is ready, from a thread of its own: something listens, something answers, a file is there, or a
//! container has printed a text.
//!
//! All of it as this machine sees it. The time until then becomes the phase `start-up` of the record; the figures still
//! cover the whole run.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::cgroup::Group;
use metier_linux::wake::monotonic_ns;
use metier_measure::observer::Started;
use metier_measure::spec::Awaited;
use metier_measure::{Keep, Observer};
use metier_types::{Missing, Run, RunId};

use super::log::{Happened, Line};
use super::member::{Membership, start_up};
use crate::runfile::{Readiness, Sign};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(25);
/// How long one look may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Looks on at a run until it is ready.
pub struct ReadinessProbe<'a> {
    readiness: &'a Readiness,
    awaited: Option<Awaited>,
    membership: Option<&'a Membership>,
    name: String,
    from_ns: u64,
    ready_ns: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<(JoinHandle<()>, mpsc::Sender<()>)>,
}

impl<'a> ReadinessProbe<'a> {
    /// For a run that people call so; others of its company are told. What it has to print is seen by whoever reads it.
    pub fn new(
        readiness: &'a Readiness,
        awaited: Option<Awaited>,
        membership: Option<&'a Membership>,
        name: String,
    ) -> Self {
        Self {
            readiness,
            awaited,
            membership,
            name,
            from_ns: 0,
            ready_ns: Arc::default(),
            is_over: Arc::default(),
            thread: None,
        }
    }

    fn tell(&self, run: RunId) -> impl Fn(u64) + Send + 'static {
        let line = self.membership.map(|membership| (membership.log.clone(), membership.part));
        let name = self.name.clone();
        move |at_ns| {
            if let Some((log, part)) = &line {
                // Who waits for it gives up in time, with a reason.
                let _ =
                    log.say(&Line { run, name: name.clone(), part: *part, event: Happened::Ready, at_ns });
            }
        }
    }

    fn end(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some((thread, wake)) = self.thread.take() {
            drop(wake);
            let _ = thread.join();
        }
    }
}

impl Observer for ReadinessProbe<'_> {
    fn started(&mut self, started: Started<'_>) {
        self.from_ns = started.started_ns;
        let (sign, within) = (self.readiness.sign.clone(), self.readiness.within);
        let awaited = self.awaited.clone();
        let (ready_ns, is_over, tell) = (self.ready_ns.clone(), self.is_over.clone(), self.tell(started.run));
        let (wake, woken) = mpsc::channel::<()>();
        let began = Instant::now();
        let work = move || {
            while !is_over.load(Ordering::Relaxed) && began.elapsed() < within {
                let seen = awaited.as_ref().and_then(Awaited::seen_ns);
                if let Some(at) = seen.or_else(|| shows(&sign).then(monotonic_ns)) {
                    ready_ns.store(at, Ordering::Relaxed);
                    tell(at);
                    return;
                }
                // The end of the run wakes it up.
                if let Err(mpsc::RecvTimeoutError::Disconnected) = woken.recv_timeout(LOOK) {
                    return;
                }
            }
        };
        if let Ok(thread) = std::thread::Builder::new().name("readiness".into()).spawn(work) {
            self.thread = Some((thread, wake));
        }
    }

    fn ended(&mut self, _: Option<&Group>) {
        self.end();
    }

    fn finish(&mut self, run: &mut Run, _: &mut Keep<'_>) {
        // It may have ended between two looks.
        let seen = self.awaited.as_ref().and_then(Awaited::seen_ns);
        let limit = self.from_ns.saturating_add(self.readiness.within.as_nanos() as u64);
        if let Some(at) = seen.filter(|at| *at <= limit) {
            self.ready_ns.store(at, Ordering::Relaxed);
        }
        match self.ready_ns.load(Ordering::Relaxed) {
            0 => {
                let within = crate::runfile::quantity::duration_text(self.readiness.within);
                let text = format!(
                    "it was not ready before its end or within {within}: {}",
                    describe_sign(&self.readiness.sign)
                );
                run.missing.insert("context.phases".into(), Missing::because(text));
            }
            ready => run.context.phases.push(start_up(ready.saturating_sub(self.from_ns))),
        }
    }
}

impl Drop for ReadinessProbe<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// What was looked for, in words.
pub fn describe_sign(sign: &Sign) -> String {
    match sign {
        Sign::Port(host, port) => format!("nothing listened on {host}:{port}"),
        Sign::Http(address) => format!("{} did not answer well", crate::runfile::without_secrets(address)),
        Sign::File(path) => format!("{} was not there", path.display()),
        Sign::Output(text) => format!("it printed no line with {text:?}"),
    }
}

/// Whether the sign is there now.
fn shows(sign: &Sign) -> bool {
    match sign {
        Sign::Port(host, port) => connect(host, *port).is_some(),
        Sign::File(path) => PathBuf::from(path).exists(),
        Sign::Http(address) => answers(address).is_some_and(|status| status < 400),
        // Whoever reads the output sees it.
        Sign::Output(_) => false,
    }
}

fn connect(host: &str, port: u16) -> Option<TcpStream> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses = (host, port).to_socket_addrs().ok()?;
    addresses.find_map(|address| TcpStream::connect_timeout(&address, PATIENCE).ok())
}

/// The status that an address answers with.
fn answers(address: &str) -> Option<u16> {
    let Some(rest) = address.strip_prefix("http://") else { return answers_safely(address) };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()?),
        None => (host, 80),
    };
    let mut stream = connect(name, port)?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let path = path.split('#').next().unwrap_or_default();
    let request =
        format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: metier\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).ok()?;
    std::str::from_utf8(&start).ok()?.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

/// The same over TLS, with everything that this takes.
fn answers_safely(address: &str) -> Option<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let client = metier_fetch::client_builder()
        .redirect(reqwest::redirect::Policy::default())
        .timeout(PATIENCE * 4)
        .build()
        .ok()?;
    runtime
        .block_on(async { client.get(address).send().await.ok().map(|response| response.status().as_u16()) })
}
