//! Clients of the estimator whose request is not complete yet.
//!
//! One thread waits for all of them with epoll, so that a client that sends nothing costs no thread
//! and delays no other client. When there are too many, the oldest is refused. Each wait is
//! bounded: by the time for a request, and by a pause after what looks complete and does not parse.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier_types::LockUnpoisoned;
use rustix::event::{Timespec, epoll};

use super::request_buffer::RequestBuffer;

/// Most clients whose request is not complete.
const MAX_PENDING: usize = 256;
/// How often deadlines are looked at while there are clients.
const SWEEP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Most pieces that are read from one client in turn.
const MAX_READS: usize = 16;
/// Events taken from the kernel at once.
const MAX_EVENTS: usize = 64;

/// The bounds of a pending client.
#[derive(Debug, Clone, Copy)]
pub struct PendingLimits {
    /// From the connection to the whole request.
    pub request_time: Duration,
    /// How long to wait for more where a request looks complete and does not parse.
    pub incomplete_time: Duration,
    /// Largest request that is read.
    pub read_bytes: usize,
}

/// A client whose request is not complete yet. Its stream does not block.
pub struct PendingClient {
    pub stream: UnixStream,
    pub buffer: RequestBuffer,
    /// Attempts at a request that looked complete.
    pub attempts: usize,
    begun: Instant,
    latest: Instant,
}

/// What became of a client.
pub enum ClientProgress {
    /// It has paused; what it sent may be complete.
    Paused,
    /// It closed its side, or its time within a request that looks complete is up.
    Ended,
    /// It is too slow or sends too much.
    Exceeded,
    Gone,
}

/// All pending clients.
pub struct PendingClients {
    epoll: OwnedFd,
    limits: PendingLimits,
    clients: Mutex<BTreeMap<u64, PendingClient>>,
    next: AtomicU64,
    /// Wakes the thread: a byte is there once clients are, or the end has come.
    wake: UnixStream,
    woken: UnixStream,
    pub buffered: Arc<AtomicUsize>,
}

/// The event of the wake-up itself; clients count from 1.
const WAKE_ID: u64 = 0;

impl PendingClient {
    /// A client that has sent these bytes since `begun`.
    pub fn new(stream: UnixStream, buffer: RequestBuffer, begun: Instant) -> Self {
        Self { stream, buffer, attempts: 0, begun, latest: Instant::now() }
    }

    /// Reads what is there.
    fn read_available(&mut self, limits: &PendingLimits) -> Option<ClientProgress> {
        let mut piece = [0u8; 16 << 10];
        for _ in 0..MAX_READS {
            match self.stream.read(&mut piece) {
                Ok(0) => return Some(ClientProgress::Ended),
                Ok(count) => {
                    self.buffer.add(&piece[..count]);
                    self.latest = Instant::now();
                    if self.buffer.read > limits.read_bytes {
                        return Some(ClientProgress::Exceeded);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.buffer.ends_with_brace().then_some(ClientProgress::Paused);
                }
                Err(_) => return Some(ClientProgress::Gone),
            }
        }
        None
    }

    /// What its deadlines say.
    fn check_deadlines(&self, limits: &PendingLimits, now: Instant) -> Option<ClientProgress> {
        if self.buffer.ends_with_brace() && now.duration_since(self.latest) >= limits.incomplete_time {
            return Some(ClientProgress::Ended);
        }
        (now.duration_since(self.begun) >= limits.request_time).then_some(ClientProgress::Exceeded)
    }
}

impl PendingClients {
    pub fn new(limits: PendingLimits) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        epoll::add(&epoll, &woken, epoll::EventData::new_u64(WAKE_ID), epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            limits,
            clients: Mutex::default(),
            next: AtomicU64::new(WAKE_ID + 1),
            wake,
            woken,
            buffered: Arc::default(),
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.clients.lock_unpoisoned().len()
    }

    /// Adds a client. Returns the oldest one if there are too many, to be refused.
    pub fn add(&self, client: PendingClient) -> Option<PendingClient> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut clients = self.clients.lock_unpoisoned();
        let data = epoll::EventData::new_u64(id);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        if epoll::add(&self.epoll, &client.stream, data, flags).is_err() {
            return Some(client);
        }
        if clients.is_empty() {
            self.wake();
        }
        clients.insert(id, client);
        if clients.len() > MAX_PENDING { clients.pop_first().map(|(_, oldest)| oldest) } else { None }
    }

    /// Puts back a client whose request was not complete after all.
    fn put_back(&self, id: u64, client: PendingClient) {
        let data = epoll::EventData::new_u64(id);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let mut clients = self.clients.lock_unpoisoned();
        if epoll::modify(&self.epoll, &client.stream, data, flags).is_ok() {
            if clients.is_empty() {
                self.wake();
            }
            clients.insert(id, client);
        }
    }

    /// Wakes the thread that serves them.
    pub fn wake(&self) {
        // A full pipe has woken it already.
        let _ = (&self.wake).write(&[1]);
    }

    /// Serves all clients until `is_stopped`. `handle` takes each client that made progress, and
    /// gives it back with [`ReturnedClient::wait`] where more is to come.
    pub fn serve(
        self: &Arc<Self>,
        is_stopped: impl Fn() -> bool,
        mut handle: impl FnMut(ReturnedClient, ClientProgress),
    ) {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        while !is_stopped() {
            let timeout = (self.count() > 0).then_some(&SWEEP_INTERVAL);
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "clients of the estimator cannot be waited for");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    WAKE_ID => while matches!((&self.woken).read(&mut [0; 64]), Ok(1..)) {},
                    id => {
                        let Some(mut client) = self.clients.lock_unpoisoned().remove(&id) else { continue };
                        let progress = client.read_available(&self.limits);
                        let returned = ReturnedClient { id, client, pending: self.clone() };
                        match progress {
                            Some(progress) => handle(returned, progress),
                            None => returned.wait(),
                        }
                    }
                }
            }
            for (id, client, progress) in self.take_overdue() {
                handle(ReturnedClient { id, client, pending: self.clone() }, progress);
            }
        }
        self.clients.lock_unpoisoned().clear();
    }

    fn take_overdue(&self) -> Vec<(u64, PendingClient, ClientProgress)> {
        let now = Instant::now();
        let mut clients = self.clients.lock_unpoisoned();
        let overdue: Vec<(u64, ClientProgress)> = clients
            .iter()
            .filter_map(|(id, client)| Some((*id, client.check_deadlines(&self.limits, now)?)))
            .collect();
        overdue.into_iter().filter_map(|(id, progress)| Some((id, clients.remove(&id)?, progress))).collect()
    }
}

/// A client that is looked at; dropping it closes its connection.
pub struct ReturnedClient {
    id: u64,
    pub client: PendingClient,
    pending: Arc<PendingClients>,
}

impl ReturnedClient {
    /// Waits for more from it.
    pub fn wait(self) {
        self.pending.put_back(self.id, self.client);
    }
}
