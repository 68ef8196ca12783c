//! The estimator's socket: one request a connection, one reply in one write, then the connection is
//! closed.
//!
//! A request has no length prefix. It is complete when its last non-blank byte is a brace and the
//! bytes parse as JSON. A few threads accept connections and answer requests that come at once.
//! Clients that are not ready wait together ([`super::pending_clients`]), so that they delay no
//! others. A large request is answered on a thread of its own. Connections, time, size and total
//! memory are bounded. The reply is one JSON object in every case, or nothing if the client is
//! gone.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::socket_file::SocketFile;
use metier_power::estimate::{PowerEstimator, is_whole};
use metier_types::LockUnpoisoned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pending_clients::{ClientProgress, PendingClient, PendingClients, PendingLimits, ReturnedClient};
use super::request_buffer::RequestBuffer;
use crate::error::Error;

/// Kepler's exporter expects the socket here.
pub const DEFAULT_SOCKET_PATH: &str = "/tmp/estimator.sock";

const ACCEPT_THREADS: usize = 4;
/// How long a thread waits for the request of a client that has just connected.
const QUICK_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// With more clients pending than this, no thread waits for a new one.
const MAX_QUICK_PENDING: usize = 8;
/// The bounds of a client that was not ready at once.
const PENDING_LIMITS: PendingLimits = PendingLimits {
    request_time: Duration::from_secs(10),
    incomplete_time: Duration::from_millis(200),
    read_bytes: 512 << 20,
};
/// Largest request of a quick client. Larger ones are answered one at a time, since their rows take
/// several times the memory of their text.
const MAX_QUICK_BYTES: usize = 128 << 10;
/// Parse attempts on a request that looks complete, before the client has to pause.
const MAX_PARSE_ATTEMPTS: usize = 64;

/// Counters of the socket.
#[derive(Debug, Default)]
pub struct EstimatorSocketCounters {
    /// Answered requests.
    pub answered: AtomicU64,
    /// Refused requests.
    pub refused: AtomicU64,
    /// Connections without a request.
    pub silent: AtomicU64,
}

/// The open socket; dropping it closes the socket and removes its file, not that of a successor.
pub struct EstimatorSocket {
    file: SocketFile,
    /// The listening socket, in a form that can be shut down.
    listening: UnixStream,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pending: Arc<PendingClients>,
    pub figures: Arc<EstimatorSocketCounters>,
}

impl std::fmt::Debug for EstimatorSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("path", &self.file.path())
            .field("figures", &self.figures)
            .finish_non_exhaustive()
    }
}

struct EstimatorSocketState {
    estimator: Arc<PowerEstimator>,
    figures: Arc<EstimatorSocketCounters>,
    pending: Arc<PendingClients>,
    /// One large request at a time.
    large: Mutex<()>,
}

impl EstimatorSocket {
    /// Opens the socket, for its user and group only. A stale socket without a listener is
    /// replaced.
    pub fn open(path: &Path, estimator: Arc<PowerEstimator>) -> Result<Self, Error> {
        let wrong = |why: String| Error::Socket { path: path.to_path_buf(), why };
        remove_stale_socket(path).map_err(wrong)?;
        // The mode is set before the socket gets its public name.
        let aside = path.with_extension(format!("new-{}", std::process::id()));
        let _ = std::fs::remove_file(&aside);
        let listener = UnixListener::bind(&aside).map_err(|error| wrong(error.to_string()))?;
        let placed = std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o660))
            .and_then(|()| std::fs::rename(&aside, path))
            .and_then(|()| SocketFile::new(path));
        let file = placed.map_err(|error| {
            let _ = std::fs::remove_file(&aside);
            wrong(error.to_string())
        })?;
        let figures = Arc::new(EstimatorSocketCounters::default());
        let shared = Arc::new(EstimatorSocketState {
            estimator,
            figures: figures.clone(),
            pending: Arc::new(PendingClients::new(PENDING_LIMITS).map_err(|error| wrong(error.to_string()))?),
            large: Mutex::new(()),
        });
        let stop = Arc::new(AtomicBool::new(false));
        let listening = listener.try_clone().map_err(|error| wrong(error.to_string()))?;
        let listening = UnixStream::from(OwnedFd::from(listening));
        let mut threads = Vec::new();
        for number in 0..ACCEPT_THREADS {
            let listener = listener.try_clone().map_err(|error| wrong(error.to_string()))?;
            let (shared, stop) = (shared.clone(), stop.clone());
            let thread = std::thread::Builder::new()
                .name(format!("metier-watts-{number}"))
                .stack_size(512 << 10)
                .spawn(move || accept_clients(&listener, &shared, &stop));
            threads.push(thread.map_err(|error| wrong(error.to_string()))?);
        }
        let (inner, until) = (shared.clone(), stop.clone());
        let serve_pending = move || {
            let handle = |client, progress| serve_pending_client(&inner, client, progress);
            inner.pending.serve(|| until.load(Ordering::SeqCst), handle);
        };
        let thread = std::thread::Builder::new().name("metier-pending".to_string()).spawn(serve_pending);
        threads.push(thread.map_err(|error| wrong(error.to_string()))?);
        Ok(Self { file, listening, stop, threads, pending: shared.pending.clone(), figures })
    }
}

impl Drop for EstimatorSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes all threads that wait in accept, also where the socket's file is gone.
        let _ = self.listening.shutdown(std::net::Shutdown::Both);
        self.pending.wake();
        self.file.remove();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Removes a socket without a listener; any other file stays.
fn remove_stale_socket(path: &Path) -> Result<(), String> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if !kind.is_socket() {
        return Err("is there and is no socket; want a path of its own".to_string());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err("another program listens there already; stop it, or name another --socket".to_string()),
        Err(_) => std::fs::remove_file(path).map_err(|error| error.to_string()),
    }
}

fn accept_clients(listener: &UnixListener, shared: &Arc<EstimatorSocketState>, stop: &AtomicBool) {
    let (mut request, mut reply) = (Vec::with_capacity(16 << 10), Vec::with_capacity(4 << 10));
    loop {
        let accepted = listener.accept();
        if stop.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                request.clear();
                serve_client(stream, shared, &mut request, &mut reply);
            }
            Err(error) => {
                // Out of file descriptors, or a client that went away: neither ends the service.
                tracing::warn!(%error, "a client of the estimator could not be accepted");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Answers a client whose request comes at once; any other waits with the pending ones.
fn serve_client(
    mut stream: UnixStream,
    shared: &Arc<EstimatorSocketState>,
    request: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) {
    let begun = Instant::now();
    let mut piece = [0u8; 16 << 10];
    let mut has_waited = shared.pending.count() > MAX_QUICK_PENDING;
    if stream.set_nonblocking(true).is_err() {
        return;
    }
    while request.len() <= MAX_QUICK_BYTES {
        match stream.read(&mut piece) {
            Ok(0) => return answer_last_bytes(&mut stream, shared, request, reply),
            Ok(count) => {
                request.extend_from_slice(&piece[..count]);
                if is_whole(request) && try_answer(&mut stream, shared, request, reply) {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // One wait for the whole request: sending byte by byte is as slow as sending nothing.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !has_waited => {
                has_waited = true;
                let _ = poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&QUICK_TIMEOUT));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => return,
        }
    }
    let buffer = RequestBuffer::new(request, &shared.pending.buffered);
    if let Some(mut oldest) = shared.pending.add(PendingClient::new(stream, buffer, begun)) {
        refuse_client(shared, &mut oldest.stream, "too many clients take their time; try again");
    }
}

/// Answers a client that was not ready at once, as far as it is now.
fn serve_pending_client(
    shared: &Arc<EstimatorSocketState>,
    mut returned: ReturnedClient,
    progress: ClientProgress,
) {
    let client = &mut returned.client;
    match progress {
        ClientProgress::Gone => return,
        ClientProgress::Exceeded => {
            let why = "failed to handle request: it did not come to its end in time";
            return refuse_client(shared, &mut client.stream, why);
        }
        ClientProgress::Paused if client.buffer.discard_reason().is_some() => return returned.wait(),
        // After too many closing braces, parse only when the client pauses for long, since each
        // attempt reads the whole buffer.
        ClientProgress::Paused if client.attempts >= MAX_PARSE_ATTEMPTS => return returned.wait(),
        ClientProgress::Paused => client.attempts += 1,
        ClientProgress::Ended => {
            if let Some(thrown) = client.buffer.discard_reason() {
                return refuse_client(shared, &mut client.stream, &thrown.message());
            }
        }
    }
    let is_large = client.buffer.bytes().len() > MAX_QUICK_BYTES;
    let inner = shared.clone();
    let work = move || answer_pending_client(&inner, returned, &progress);
    if !is_large {
        return work();
    }
    // At most as many threads as large requests fit into the memory that all share.
    let thread = std::thread::Builder::new().name("metier-large".into()).stack_size(512 << 10).spawn(work);
    if let Err(error) = thread {
        tracing::warn!(%error, "a large request to the estimator could not be answered");
    }
}

fn answer_pending_client(
    shared: &EstimatorSocketState,
    mut returned: ReturnedClient,
    progress: &ClientProgress,
) {
    let PendingClient { stream, buffer, .. } = &mut returned.client;
    let mut reply = Vec::new();
    let one = lock_large_request(shared, buffer.bytes());
    let is_answered = match progress {
        ClientProgress::Paused => try_answer(stream, shared, buffer.bytes(), &mut reply),
        _ => {
            answer_last_bytes(stream, shared, buffer.bytes(), &mut reply);
            true
        }
    };
    drop(one);
    if !is_answered {
        returned.wait();
    }
}

/// Lock that serialises large requests.
fn lock_large_request<'a>(
    shared: &'a EstimatorSocketState,
    request: &[u8],
) -> Option<std::sync::MutexGuard<'a, ()>> {
    (request.len() > MAX_QUICK_BYTES).then(|| shared.large.lock_unpoisoned())
}

/// Answers a request that looks complete. `false` if the brace was in the middle and more is to
/// come.
fn try_answer(
    stream: &mut UnixStream,
    shared: &EstimatorSocketState,
    request: &[u8],
    reply: &mut Vec<u8>,
) -> bool {
    let is_good = shared.estimator.answer(request, reply);
    if !is_good && is_truncated_json(request) {
        return false;
    }
    let figure = if is_good { &shared.figures.answered } else { &shared.figures.refused };
    figure.fetch_add(1, Ordering::Relaxed);
    let _ = stream.write_all(reply);
    true
}

/// Whether the JSON is truncated.
fn is_truncated_json(request: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(request).is_err_and(|error| error.is_eof())
}

/// The client closed its side: answer its request, if it sent any.
fn answer_last_bytes(
    stream: &mut UnixStream,
    shared: &EstimatorSocketState,
    request: &[u8],
    reply: &mut Vec<u8>,
) {
    if request.iter().all(u8::is_ascii_whitespace) {
        shared.figures.silent.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let is_good = shared.estimator.answer(request, reply);
    let figure = if is_good { &shared.figures.answered } else { &shared.figures.refused };
    figure.fetch_add(1, Ordering::Relaxed);
    let _ = stream.write_all(reply);
}

/// Refuses a client. A reply has at most 4096 bytes and fits into the kernel's buffer, so that
/// sending it to a client that does not read waits for nothing.
fn refuse_client(shared: &EstimatorSocketState, stream: &mut UnixStream, why: &str) {
    shared.figures.refused.fetch_add(1, Ordering::Relaxed);
    let reply = serde_json::json!({ "powers": {}, "msg": why }).to_string();
    let _ = stream.write_all(reply.as_bytes());
}
