//! The estimator's socket: one request a connection, one reply in one write, then the connection is
//! closed.
//!
//! A request has no length prefix. It is complete when its last non-blank byte is a brace and the
//! bytes parse as JSON. A few threads accept connections. Slow or large requests move to a thread
//! of their own, so that they do not block the others. Connections, time, size and total memory are
//! bounded. The reply is one JSON object in every case, or nothing if the client is gone.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::socket_file::SocketFile;
use metier_power::estimate::{PowerEstimator, is_whole};
use metier_types::LockUnpoisoned;

use super::request_buffer::RequestBuffer;
use crate::error::Error;

/// Kepler's exporter expects the socket here.
pub const DEFAULT_SOCKET_PATH: &str = "/tmp/estimator.sock";

const ACCEPT_THREADS: usize = 4;
/// Most slow clients at once.
const MAX_SLOW_CLIENTS: usize = 64;
/// Time limit of a quick client, from connection to the whole request.
const QUICK_TIMEOUT: Duration = Duration::from_millis(20);
/// Time limit from connection to the whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for more where a request looks complete and does not parse.
const INCOMPLETE_TIMEOUT: Duration = Duration::from_millis(200);
/// Largest request of a quick client. Larger ones are answered one at a time, since their rows take
/// several times the memory of their text.
const MAX_QUICK_BYTES: usize = 128 << 10;
/// Parse attempts on a request that looks complete, before the client has to pause.
const MAX_PARSE_ATTEMPTS: usize = 64;
/// Largest request that is read.
const MAX_READ_BYTES: usize = 512 << 20;

/// Counters of the socket.
#[derive(Debug, Default)]
pub struct EstimatorStats {
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
    pub figures: Arc<EstimatorStats>,
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
    figures: Arc<EstimatorStats>,
    slow: AtomicUsize,
    /// Bytes that all slow clients hold.
    together: AtomicUsize,
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
        let figures = Arc::new(EstimatorStats::default());
        let shared = Arc::new(EstimatorSocketState {
            estimator,
            figures: figures.clone(),
            slow: AtomicUsize::new(0),
            together: AtomicUsize::new(0),
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
        Ok(Self { file, listening, stop, threads, figures })
    }
}

impl Drop for EstimatorSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes all threads that wait in accept, also where the socket's file is gone.
        let _ = self.listening.shutdown(std::net::Shutdown::Both);
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

/// Answers a quick client; a slow one moves to a thread of its own.
fn serve_client(
    mut stream: UnixStream,
    shared: &Arc<EstimatorSocketState>,
    request: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) {
    let begun = Instant::now();
    let mut piece = [0u8; 16 << 10];
    let _ = stream.set_read_timeout(Some(QUICK_TIMEOUT));
    let _ = stream.set_write_timeout(Some(REQUEST_TIMEOUT));
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return answer_last_request(stream, shared, request, reply),
            Ok(count) => {
                request.extend_from_slice(&piece[..count]);
                if is_whole(request) && try_answer(&mut stream, shared, request, reply) {
                    return;
                }
                // The limit holds for the whole request: sending byte by byte is as slow as sending
                // nothing.
                if request.len() > MAX_QUICK_BYTES || begun.elapsed() >= QUICK_TIMEOUT {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => break,
            Err(_) => return,
        }
    }
    if shared.slow.fetch_add(1, Ordering::SeqCst) >= MAX_SLOW_CLIENTS {
        shared.slow.fetch_sub(1, Ordering::SeqCst);
        shared.figures.refused.fetch_add(1, Ordering::Relaxed);
        send_message(&mut stream, "too many clients take their time; try again");
        return;
    }
    let (inner, request) = (shared.clone(), std::mem::take(request));
    let work = move || {
        serve_slow_client(stream, &inner, request, begun);
        inner.slow.fetch_sub(1, Ordering::SeqCst);
    };
    let thread = std::thread::Builder::new().name("metier-slow".into()).stack_size(512 << 10).spawn(work);
    if thread.is_err() {
        shared.slow.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers a slow client, within limits.
fn serve_slow_client(mut stream: UnixStream, shared: &EstimatorSocketState, came: Vec<u8>, begun: Instant) {
    let (mut piece, mut reply) = ([0u8; 16 << 10], Vec::new());
    let mut buffer = RequestBuffer::new(&came, &shared.together);
    drop(came);
    let mut looks = 0;
    loop {
        let left = REQUEST_TIMEOUT.saturating_sub(begun.elapsed());
        let wait = if buffer.ends_with_brace() { left.min(INCOMPLETE_TIMEOUT) } else { left };
        if wait.is_zero() || buffer.read > MAX_READ_BYTES {
            shared.figures.refused.fetch_add(1, Ordering::Relaxed);
            send_message(&mut stream, "failed to handle request: it did not come to its end in time");
            break;
        }
        let _ = stream.set_read_timeout(Some(wait));
        match stream.read(&mut piece) {
            Ok(0) => {
                finish_slow_client(stream, shared, &buffer, &mut reply);
                break;
            }
            Ok(count) => {
                buffer.add(&piece[..count]);
                // After too many closing braces, parse only when the client pauses, since each
                // attempt reads the whole buffer.
                if buffer.ends_with_brace() && buffer.discard_reason().is_none() && looks < MAX_PARSE_ATTEMPTS
                {
                    looks += 1;
                    if answer_exclusively(&mut stream, shared, buffer.bytes(), &mut reply) {
                        break;
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => {
                finish_slow_client(stream, shared, &buffer, &mut reply);
                break;
            }
            Err(_) => break,
        }
    }
}

/// Answers a slow client after its last byte.
fn finish_slow_client(
    mut stream: UnixStream,
    shared: &EstimatorSocketState,
    buffer: &RequestBuffer<'_>,
    reply: &mut Vec<u8>,
) {
    match buffer.discard_reason() {
        Some(thrown) => {
            shared.figures.refused.fetch_add(1, Ordering::Relaxed);
            send_message(&mut stream, &thrown.message());
        }
        None => {
            let _one = lock_large_request(shared, buffer.bytes());
            answer_last_request(stream, shared, buffer.bytes(), reply);
        }
    }
}

/// Lock that serialises large requests.
fn lock_large_request<'a>(
    shared: &'a EstimatorSocketState,
    request: &[u8],
) -> Option<std::sync::MutexGuard<'a, ()>> {
    (request.len() > MAX_QUICK_BYTES).then(|| shared.large.lock_unpoisoned())
}

fn answer_exclusively(
    stream: &mut UnixStream,
    shared: &EstimatorSocketState,
    request: &[u8],
    reply: &mut Vec<u8>,
) -> bool {
    let _one = lock_large_request(shared, request);
    try_answer(stream, shared, request, reply)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
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
fn answer_last_request(
    mut stream: UnixStream,
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

fn send_message(stream: &mut UnixStream, why: &str) {
    let reply = serde_json::json!({ "powers": {}, "msg": why }).to_string();
    let _ = stream.write_all(reply.as_bytes());
}
