//! The thread that drains sockets and pipes, so that an application never waits for metier.
//!
//! It reads, splits into messages and pushes them to the [`MessageQueue`]. It does not parse, and
//! holds no lock for longer than a push. Connections are accepted only after the reader is opened,
//! when the members of the run are known; until then they wait in the kernel. The thread raises its
//! priority where the system allows it, because the kernel buffers only about 280 small messages of
//! a stream socket before the sender blocks. Under load it lets messages gather for a moment, which
//! saves a wake-up for each on the measured machine.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::packet_socket::{self, SocketPeer};
use metier_types::{LockUnpoisoned, StageSource};

use super::descriptor::{self, unix_time_ns};
use super::message_framer::{FrameFormat, MessageFramer, MessageFrames};
use super::message_queue::{MessageBlock, MessageQueue};

const MAX_CONNECTIONS: usize = 256;
/// Bytes per read.
const READ_BYTES: usize = 64 * 1024;
/// Consecutive reads from one descriptor before the next descriptor is served.
const MAX_READS_PER_TURN: usize = 16;
/// How long messages may gather: a stream socket buffers about 280 small messages, a pipe of 1 MiB
/// far more.
const GATHER_SOCKET: Duration = Duration::from_micros(300);
const GATHER_PIPE: Duration = Duration::from_millis(2);
/// Pause when a ready descriptor cannot be served.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Time limit of the final read: everything sent is in the kernel by then, but a foreign sender may
/// continue for ever.
const FINAL_READ_LIMIT: Duration = Duration::from_secs(5);

/// Maps a connecting peer to its sender; `None` if the peer does not belong to the run.
pub type PeerAuthorizer<K> = Box<dyn Fn(SocketPeer) -> Option<K> + Send>;

/// A descriptor to read from.
#[derive(Debug)]
pub enum MessageInput<K> {
    Stream(UnixListener),
    Datagrams(UnixDatagram),
    /// A pipe with a known sender.
    Pipe(OwnedFd, K),
}

/// Counts of rejected connections and datagrams.
#[derive(Debug, Default)]
pub struct RejectionCounts {
    /// Connections and datagrams of processes that do not belong to the run.
    pub strangers: AtomicU64,
    /// Connections beyond the limit of simultaneous connections.
    pub refused: AtomicU64,
}

struct SharedReaderState<K> {
    queue: Arc<MessageQueue<K>>,
    door: Mutex<Option<PeerAuthorizer<K>>>,
    doorstep: Arc<RejectionCounts>,
}

pub struct MessageReader<K> {
    shared: Arc<SharedReaderState<K>>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl<K: Clone + PartialEq + Send + 'static> MessageReader<K> {
    /// Starts to read pipes; sockets wait until the reader is opened.
    pub fn start(ports: Vec<MessageInput<K>>, queue: Arc<MessageQueue<K>>) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(SharedReaderState {
            queue,
            door: Mutex::new(None),
            doorstep: Arc::new(RejectionCounts::default()),
        });
        let mut room = ReaderLoop { shared: shared.clone(), ports, callers: Vec::new(), is_open: false };
        let thread =
            std::thread::Builder::new().name("metier-intake".into()).spawn(move || room.run(&woken))?;
        Ok(Self { shared, wake, thread: Some(thread) })
    }

    pub fn admit_peers(&self, door: PeerAuthorizer<K>) {
        *self.shared.door.lock_unpoisoned() = Some(door);
        self.wake_thread(b'o');
    }

    /// Counts of rejected connections and datagrams.
    pub fn rejections(&self) -> Arc<RejectionCounts> {
        self.shared.doorstep.clone()
    }

    /// Reads the remaining messages, then ends and closes the queue.
    pub fn stop(&mut self) {
        self.wake_thread(b's');
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.queue.close();
    }

    fn wake_thread(&self, word: u8) {
        // If the thread has ended, the wake-up is not needed.
        let _ = io::Write::write(&mut &self.wake, &[word]);
    }
}

impl<K> Drop for MessageReader<K> {
    fn drop(&mut self) {
        let _ = io::Write::write(&mut &self.wake, b"s");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct StreamConnection<K> {
    stream: UnixStream,
    framer: MessageFramer,
    sender: K,
}

/// Outcome of a read.
#[derive(PartialEq, Eq, Clone, Copy)]
enum ReadProgress {
    NoData,
    Some,
    /// The limit of one pass was reached: more is available.
    MoreAvailable,
    /// The peer has closed the connection.
    StreamClosed,
}

struct ReaderLoop<K> {
    shared: Arc<SharedReaderState<K>>,
    ports: Vec<MessageInput<K>>,
    callers: Vec<StreamConnection<K>>,
    is_open: bool,
}

impl<K: Clone + PartialEq> ReaderLoop<K> {
    fn run(&mut self, woken: &UnixStream) {
        descriptor::raise_thread_priority();
        let mut buffer = vec![0; READ_BYTES];
        // Framers of pipes live as long as the pipes do.
        let mut framers: Vec<MessageFramer> =
            self.ports.iter().map(|_| MessageFramer::new(FrameFormat::Lines)).collect();
        loop {
            let mut fds: Vec<RawFd> = vec![woken.as_raw_fd()];
            fds.extend(self.ports.iter().map(|port| match port {
                MessageInput::Pipe(pipe, _) => pipe.as_raw_fd(),
                // `poll` ignores negative descriptors.
                MessageInput::Stream(door) if self.is_open => door.as_raw_fd(),
                MessageInput::Datagrams(door) if self.is_open => door.as_raw_fd(),
                _ => -1,
            }));
            fds.extend(self.callers.iter().map(|caller| caller.stream.as_raw_fd()));
            let ready = descriptor::wait_readable(&fds, None);
            let mut words = [0; 8];
            let number = if ready[0] { io::Read::read(&mut &*woken, &mut words).unwrap_or(0) } else { 0 };
            let bytes = &words[..number];
            self.is_open |= bytes.contains(&b'o');
            if bytes.contains(&b's') {
                return self.drain_all(&mut buffer, &mut framers);
            }
            let (ports, callers) = ready[1..].split_at(self.ports.len());
            match self.read_ready(&mut buffer, &mut framers, ports, callers) {
                ReadProgress::Some if self.callers.is_empty() => std::thread::sleep(GATHER_PIPE),
                ReadProgress::Some => std::thread::sleep(GATHER_SOCKET),
                // A descriptor is ready but cannot be served: for example no descriptors are left
                // for a connection.
                ReadProgress::NoData if ready[1..].contains(&true) => std::thread::sleep(RETRY_PAUSE),
                _ => {}
            }
        }
    }

    /// Reads the remaining messages after all writers have ended or finished.
    fn drain_all(&mut self, buffer: &mut [u8], framers: &mut [MessageFramer]) {
        let until = Instant::now() + FINAL_READ_LIMIT;
        loop {
            let all = (vec![true; self.ports.len()], vec![true; self.callers.len()]);
            let came = self.read_ready(buffer, framers, &all.0, &all.1);
            if came == ReadProgress::NoData || Instant::now() > until {
                break;
            }
        }
        for caller in &mut self.callers {
            let mut frames = MessageFrames::default();
            caller.framer.finish(&mut frames);
            enqueue_frames(&self.shared.queue, &caller.sender, StageSource::Socket, frames);
        }
        self.callers.clear();
        for (port, framer) in self.ports.iter().zip(framers) {
            if let MessageInput::Pipe(_, sender) = port {
                let mut frames = MessageFrames::default();
                framer.finish(&mut frames);
                enqueue_frames(&self.shared.queue, sender, StageSource::Lines, frames);
            }
        }
    }

    /// One pass over all ready descriptors.
    fn read_ready(
        &mut self,
        buffer: &mut [u8],
        framers: &mut [MessageFramer],
        ports: &[bool],
        callers: &[bool],
    ) -> ReadProgress {
        let queue = self.shared.queue.clone();
        let mut busiest = ReadProgress::NoData;
        let mut at = 0;
        let ended: Vec<bool> = self
            .callers
            .iter_mut()
            .map(|caller| {
                let is_ready = callers.get(at).copied().unwrap_or_default();
                at += 1;
                if !is_ready {
                    return false;
                }
                let StreamConnection { stream, framer, sender } = caller;
                let came =
                    drain_descriptor(stream.as_fd(), framer, buffer, &queue, sender, StageSource::Socket);
                busiest = furthest_progress(busiest, came);
                came == ReadProgress::StreamClosed
            })
            .collect();
        let mut ended = ended.into_iter();
        self.callers.retain(|_| !ended.next().unwrap_or_default());
        for (at, is_ready) in ports.iter().enumerate().take(self.ports.len()) {
            if !is_ready {
                continue;
            }
            let came = match &self.ports[at] {
                MessageInput::Pipe(pipe, sender) => drain_descriptor(
                    pipe.as_fd(),
                    &mut framers[at],
                    buffer,
                    &queue,
                    sender,
                    StageSource::Lines,
                ),
                MessageInput::Stream(_) if self.is_open => self.accept_connections(at),
                MessageInput::Datagrams(socket) if self.is_open => self.receive_datagrams(socket, buffer),
                _ => ReadProgress::NoData,
            };
            busiest = furthest_progress(busiest, came);
        }
        busiest
    }

    /// Accepts connections of authorised peers.
    fn accept_connections(&mut self, at: usize) -> ReadProgress {
        let mut came = ReadProgress::NoData;
        for _ in 0..MAX_CONNECTIONS {
            let Some(MessageInput::Stream(door)) = self.ports.get(at) else { break };
            let Ok((stream, _)) = door.accept() else { break };
            came = ReadProgress::MoreAvailable;
            let doorstep = &self.shared.doorstep;
            if self.callers.len() >= MAX_CONNECTIONS {
                doorstep.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let sender =
                packet_socket::peer_credentials(stream.as_fd()).ok().and_then(|peer| self.authorize(peer));
            match sender {
                Some(sender) if stream.set_nonblocking(true).is_ok() => {
                    self.callers.push(StreamConnection {
                        stream,
                        framer: MessageFramer::new(FrameFormat::Json),
                        sender,
                    });
                }
                _ => {
                    doorstep.strangers.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        came
    }

    fn receive_datagrams(&self, socket: &UnixDatagram, buffer: &mut [u8]) -> ReadProgress {
        let mut came = ReadProgress::NoData;
        for _ in 0..MAX_READS_PER_TURN * 16 {
            let Ok((length, peer)) = descriptor::receive_datagram(socket.as_fd(), buffer) else {
                return came;
            };
            came = ReadProgress::Some;
            let Some(sender) = peer.and_then(|peer| self.authorize(peer)) else {
                self.shared.doorstep.strangers.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let (mut framer, mut frames) = (MessageFramer::new(FrameFormat::Json), MessageFrames::default());
            framer.push(&buffer[..length], &mut frames);
            framer.finish(&mut frames);
            enqueue_frames(&self.shared.queue, &sender, StageSource::Socket, frames);
        }
        ReadProgress::MoreAvailable
    }

    fn authorize(&self, peer: SocketPeer) -> Option<K> {
        let door = self.shared.door.lock_unpoisoned();
        door.as_ref().and_then(|door| door(peer))
    }
}

fn furthest_progress(progress: ReadProgress, other: ReadProgress) -> ReadProgress {
    match (progress, other) {
        (ReadProgress::MoreAvailable, _)
        | (_, ReadProgress::MoreAvailable)
        | (_, ReadProgress::StreamClosed)
        | (ReadProgress::StreamClosed, _) => ReadProgress::MoreAvailable,
        (ReadProgress::Some, _) | (_, ReadProgress::Some) => ReadProgress::Some,
        _ => ReadProgress::NoData,
    }
}

fn enqueue_frames<K: Clone + PartialEq>(
    queue: &MessageQueue<K>,
    sender: &K,
    source: StageSource,
    frames: MessageFrames,
) {
    if frames.count() > 0 {
        queue.push(MessageBlock { sender: sender.clone(), source, read_ns: unix_time_ns(), frames });
    }
}

/// Reads available bytes, at most the limit of one pass.
fn drain_descriptor<K: Clone + PartialEq>(
    from: BorrowedFd<'_>,
    framer: &mut MessageFramer,
    buffer: &mut [u8],
    queue: &MessageQueue<K>,
    sender: &K,
    source: StageSource,
) -> ReadProgress {
    let mut frames = MessageFrames::default();
    let mut came = ReadProgress::NoData;
    let mut read = 0;
    for turn in 1..=MAX_READS_PER_TURN {
        match descriptor::read_available(from, buffer) {
            Ok(0) => {
                framer.finish(&mut frames);
                came = ReadProgress::StreamClosed;
                break;
            }
            Ok(got) => {
                framer.push(&buffer[..got], &mut frames);
                came = ReadProgress::Some;
                read += got;
                if turn == MAX_READS_PER_TURN || read >= 4 * READ_BYTES {
                    came = ReadProgress::MoreAvailable;
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => {
                framer.finish(&mut frames);
                came = ReadProgress::StreamClosed;
                break;
            }
        }
    }
    enqueue_frames(queue, sender, source, frames);
    came
}
