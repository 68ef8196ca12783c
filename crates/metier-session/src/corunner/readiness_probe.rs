//! Probes from a thread whether a run is ready: a port listens, an address answers, a file exists,
//! or a container has printed a text.
//!
//! All probes run on this machine. The time until readiness becomes the phase `start-up` of the
//! record; the metrics still cover the whole run.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::cgroup::RunCgroup;
use metier_linux::wakeup::monotonic_ns;
use metier_measure::observer::StartedRun;
use metier_measure::spec::AwaitedOutput;
use metier_measure::{ArtefactKeeper, RunObserver};
use metier_types::{MissingReason, Run, RunId};

use super::corun_observer::{CoRunMembership, start_up_phase};
use super::log::{CoRunEvent, CoRunLogLine};
use crate::runfile::{ReadinessRule, ReadinessSign};

/// Interval between probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(25);
/// Timeout of one probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// Observes a run until it is ready.
pub struct ReadinessObserver<'a> {
    readiness: &'a ReadinessRule,
    awaited: Option<AwaitedOutput>,
    membership: Option<&'a CoRunMembership>,
    name: String,
    from_ns: u64,
    ready_ns: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<(JoinHandle<()>, mpsc::Sender<()>)>,
}

impl<'a> ReadinessObserver<'a> {
    /// `name` is the display name of the run. `membership` is the group whose log gets the event.
    /// `awaited` detects the output sign of a container.
    pub fn new(
        readiness: &'a ReadinessRule,
        awaited: Option<AwaitedOutput>,
        membership: Option<&'a CoRunMembership>,
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

    fn ready_notifier(&self, run: RunId) -> impl Fn(u64) + Send + 'static {
        let line = self.membership.map(|membership| (membership.log.clone(), membership.part));
        let name = self.name.clone();
        move |at_ns| {
            if let Some((log, part)) = &line {
                // On an error the waiting run ends by its own timeout, with a reason.
                let _ = log.append_line(&CoRunLogLine {
                    run,
                    name: name.clone(),
                    part: *part,
                    event: CoRunEvent::Ready,
                    at_ns,
                });
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

impl RunObserver for ReadinessObserver<'_> {
    fn on_started(&mut self, started: StartedRun<'_>) {
        self.from_ns = started.started_ns;
        let (sign, within) = (self.readiness.sign.clone(), self.readiness.within);
        let awaited = self.awaited.clone();
        let (ready_ns, is_over, tell) =
            (self.ready_ns.clone(), self.is_over.clone(), self.ready_notifier(started.run));
        let (wake, woken) = mpsc::channel::<()>();
        let began = Instant::now();
        let work = move || {
            while !is_over.load(Ordering::Relaxed) && began.elapsed() < within {
                let seen = awaited.as_ref().and_then(AwaitedOutput::seen_ns);
                if let Some(at) = seen.or_else(|| is_sign_present(&sign).then(monotonic_ns)) {
                    ready_ns.store(at, Ordering::Relaxed);
                    tell(at);
                    return;
                }
                // The end of the run disconnects the channel.
                if let Err(mpsc::RecvTimeoutError::Disconnected) = woken.recv_timeout(PROBE_INTERVAL) {
                    return;
                }
            }
        };
        if let Ok(thread) = std::thread::Builder::new().name("readiness".into()).spawn(work) {
            self.thread = Some((thread, wake));
        }
    }

    fn on_ended(&mut self, _: Option<&RunCgroup>) {
        self.end();
    }

    fn on_finish(&mut self, run: &mut Run, _: &mut ArtefactKeeper<'_>) {
        // The output may have come between the last probe and the end of the run.
        let seen = self.awaited.as_ref().and_then(AwaitedOutput::seen_ns);
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
                run.missing.insert("context.phases".into(), MissingReason::without_fix(text));
            }
            ready => run.context.phases.push(start_up_phase(ready.saturating_sub(self.from_ns))),
        }
    }
}

impl Drop for ReadinessObserver<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Message for a sign that did not appear.
pub fn describe_sign(sign: &ReadinessSign) -> String {
    match sign {
        ReadinessSign::Port(host, port) => format!("nothing listened on {host}:{port}"),
        ReadinessSign::Http(address) => {
            format!("{} did not answer well", crate::runfile::without_secrets(address))
        }
        ReadinessSign::File(path) => format!("{} was not there", path.display()),
        ReadinessSign::Output(text) => format!("it printed no line with {text:?}"),
    }
}

/// Whether the sign is present now.
fn is_sign_present(sign: &ReadinessSign) -> bool {
    match sign {
        ReadinessSign::Port(host, port) => connect(host, *port).is_some(),
        ReadinessSign::File(path) => PathBuf::from(path).exists(),
        ReadinessSign::Http(address) => http_status(address).is_some_and(|status| status < 400),
        // The reader of the output detects this sign.
        ReadinessSign::Output(_) => false,
    }
}

fn connect(host: &str, port: u16) -> Option<TcpStream> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses = (host, port).to_socket_addrs().ok()?;
    addresses.find_map(|address| TcpStream::connect_timeout(&address, PROBE_TIMEOUT).ok())
}

/// HTTP status of the response from an address.
fn http_status(address: &str) -> Option<u16> {
    let Some(rest) = address.strip_prefix("http://") else { return https_status(address) };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()?),
        None => (host, 80),
    };
    let mut stream = connect(name, port)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT)).ok()?;
    let path = path.split('#').next().unwrap_or_default();
    let request =
        format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: metier\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).ok()?;
    std::str::from_utf8(&start).ok()?.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

/// The same over TLS, with the full HTTP client.
fn https_status(address: &str) -> Option<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let client = metier_fetch::client_builder()
        .redirect(reqwest::redirect::Policy::default())
        .timeout(PROBE_TIMEOUT * 4)
        .build()
        .ok()?;
    runtime
        .block_on(async { client.get(address).send().await.ok().map(|response| response.status().as_u16()) })
}
