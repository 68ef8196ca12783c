//! The thread that always empties sockets and pipes, so that an application never waits for us.
//!
//! It reads, cuts into messages and puts them into the [`Queue`]; it understands nothing and takes no lock for longer
//! than a push. Connections are taken only when the door is open (before that it is not known who belongs to the
//! run): until then they wait in the kernel. Where the system allows it the thread goes before others (it needs little), because
//! the kernel keeps only some 280 small messages of a stream socket before the sender waits. While messages come fast it lets them gather for a moment, which saves
//! the measured machine a wake-up for each.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::packet_socket::{self, Peer};
use metier_types::{LockUnpoisoned, StageSource};

use super::descriptor::{self, now_ns};
use super::frame::{Form, Framer, Frames};
use super::queue::{Block, Queue};

const CONNECTIONS: usize = 256;
/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Reads from one descriptor before the others get their turn.
const TURNS: usize = 16;
/// How long messages may gather: a stream socket holds some 280 small messages, a pipe of 1 MiB far more.
const GATHER_SOCKET: Duration = Duration::from_micros(300);
const GATHER_PIPE: Duration = Duration::from_millis(2);
/// How long to rest when what is ready cannot be had.
const REST: Duration = Duration::from_millis(10);
/// Longest that is read after the end: what was sent is in the kernel by then, a stranger may go on for ever.
const LAST_READ: Duration = Duration::from_secs(5);

/// Says who somebody is that connects, or that he does not belong here.
pub type Door<K> = Box<dyn Fn(Peer) -> Option<K> + Send>;

/// What is read from.
#[derive(Debug)]
pub enum Port<K> {
    Stream(UnixListener),
    Datagrams(UnixDatagram),
    /// A pipe whose writers are known.
    Pipe(OwnedFd, K),
}

/// What happened at the door.
#[derive(Debug, Default)]
pub struct Doorstep {
    /// Connections and datagrams of processes that do not belong here.
    pub strangers: AtomicU64,
    /// Connections beyond the number that is served at once.
    pub refused: AtomicU64,
}

struct Shared<K> {
    queue: Arc<Queue<K>>,
    door: Mutex<Option<Door<K>>>,
    doorstep: Arc<Doorstep>,
}

pub struct Pump<K> {
    shared: Arc<Shared<K>>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl<K: Clone + PartialEq + Send + 'static> Pump<K> {
    /// Starts to empty pipes; sockets wait until the door is opened.
    pub fn start(ports: Vec<Port<K>>, queue: Arc<Queue<K>>) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let shared =
            Arc::new(Shared { queue, door: Mutex::new(None), doorstep: Arc::new(Doorstep::default()) });
        let mut room = Room { shared: shared.clone(), ports, callers: Vec::new(), is_open: false };
        let thread =
            std::thread::Builder::new().name("metier-intake".into()).spawn(move || room.run(&woken))?;
        Ok(Self { shared, wake, thread: Some(thread) })
    }

    pub fn open(&self, door: Door<K>) {
        *self.shared.door.lock_unpoisoned() = Some(door);
        self.tell(b'o');
    }

    /// What happened at the door.
    pub fn doorstep(&self) -> Arc<Doorstep> {
        self.shared.doorstep.clone()
    }

    /// Reads what is there still, then ends and closes the queue.
    pub fn stop(&mut self) {
        self.tell(b's');
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.queue.close();
    }

    fn tell(&self, word: u8) {
        // A thread that is gone needs no telling.
        let _ = io::Write::write(&mut &self.wake, &[word]);
    }
}

impl<K> Drop for Pump<K> {
    fn drop(&mut self) {
        let _ = io::Write::write(&mut &self.wake, b"s");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Caller<K> {
    stream: UnixStream,
    framer: Framer,
    who: K,
}

/// How a read went.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Came {
    Nothing,
    Some,
    /// As much as one turn may take: there is more.
    More,
    /// The other end is closed.
    End,
}

struct Room<K> {
    shared: Arc<Shared<K>>,
    ports: Vec<Port<K>>,
    callers: Vec<Caller<K>>,
    is_open: bool,
}

impl<K: Clone + PartialEq> Room<K> {
    fn run(&mut self, woken: &UnixStream) {
        descriptor::hurry();
        let mut buffer = vec![0; READ_BYTES];
        // Framers of pipes live as long as the pipes do.
        let mut framers: Vec<Framer> = self.ports.iter().map(|_| Framer::new(Form::Lines)).collect();
        loop {
            let mut fds: Vec<RawFd> = vec![woken.as_raw_fd()];
            fds.extend(self.ports.iter().map(|port| match port {
                Port::Pipe(pipe, _) => pipe.as_raw_fd(),
                // A negative descriptor is passed over.
                Port::Stream(door) if self.is_open => door.as_raw_fd(),
                Port::Datagrams(door) if self.is_open => door.as_raw_fd(),
                _ => -1,
            }));
            fds.extend(self.callers.iter().map(|caller| caller.stream.as_raw_fd()));
            let ready = descriptor::wait(&fds, None);
            let mut words = [0; 8];
            let told = if ready[0] { io::Read::read(&mut &*woken, &mut words).unwrap_or(0) } else { 0 };
            let told = &words[..told];
            self.is_open |= told.contains(&b'o');
            if told.contains(&b's') {
                return self.last(&mut buffer, &mut framers);
            }
            let (ports, callers) = ready[1..].split_at(self.ports.len());
            match self.turn(&mut buffer, &mut framers, ports, callers) {
                Came::Some if self.callers.is_empty() => std::thread::sleep(GATHER_PIPE),
                Came::Some => std::thread::sleep(GATHER_SOCKET),
                // Something is ready but cannot be had, such as a connection when descriptors have run out.
                Came::Nothing if ready[1..].contains(&true) => std::thread::sleep(REST),
                _ => {}
            }
        }
    }

    /// Everything that is there, once all writers are gone or at least done.
    fn last(&mut self, buffer: &mut [u8], framers: &mut [Framer]) {
        let until = Instant::now() + LAST_READ;
        loop {
            let all = (vec![true; self.ports.len()], vec![true; self.callers.len()]);
            let came = self.turn(buffer, framers, &all.0, &all.1);
            if came == Came::Nothing || Instant::now() > until {
                break;
            }
        }
        for caller in &mut self.callers {
            let mut frames = Frames::default();
            caller.framer.end(&mut frames);
            hand_on(&self.shared.queue, &caller.who, StageSource::Socket, frames);
        }
        self.callers.clear();
        for (port, framer) in self.ports.iter().zip(framers) {
            if let Port::Pipe(_, who) = port {
                let mut frames = Frames::default();
                framer.end(&mut frames);
                hand_on(&self.shared.queue, who, StageSource::Lines, frames);
            }
        }
    }

    /// One turn over everything that is ready.
    fn turn(&mut self, buffer: &mut [u8], framers: &mut [Framer], ports: &[bool], callers: &[bool]) -> Came {
        let queue = self.shared.queue.clone();
        let mut busiest = Came::Nothing;
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
                let Caller { stream, framer, who } = caller;
                let came = drain(stream.as_fd(), framer, buffer, &queue, who, StageSource::Socket);
                busiest = busier(busiest, came);
                came == Came::End
            })
            .collect();
        let mut ended = ended.into_iter();
        self.callers.retain(|_| !ended.next().unwrap_or_default());
        for (at, is_ready) in ports.iter().enumerate().take(self.ports.len()) {
            if !is_ready {
                continue;
            }
            let came = match &self.ports[at] {
                Port::Pipe(pipe, who) => {
                    drain(pipe.as_fd(), &mut framers[at], buffer, &queue, who, StageSource::Lines)
                }
                Port::Stream(_) if self.is_open => self.welcome(at),
                Port::Datagrams(socket) if self.is_open => self.receive(socket, buffer),
                _ => Came::Nothing,
            };
            busiest = busier(busiest, came);
        }
        busiest
    }

    /// Lets in those who belong here.
    fn welcome(&mut self, at: usize) -> Came {
        let mut came = Came::Nothing;
        for _ in 0..CONNECTIONS {
            let Some(Port::Stream(door)) = self.ports.get(at) else { break };
            let Ok((stream, _)) = door.accept() else { break };
            came = Came::More;
            let doorstep = &self.shared.doorstep;
            if self.callers.len() >= CONNECTIONS {
                doorstep.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let who = packet_socket::peer(stream.as_fd()).ok().and_then(|peer| self.who(peer));
            match who {
                Some(who) if stream.set_nonblocking(true).is_ok() => {
                    self.callers.push(Caller { stream, framer: Framer::new(Form::Json), who });
                }
                _ => {
                    doorstep.strangers.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        came
    }

    fn receive(&self, socket: &UnixDatagram, buffer: &mut [u8]) -> Came {
        let mut came = Came::Nothing;
        for _ in 0..TURNS * 16 {
            let Ok((length, peer)) = descriptor::receive(socket.as_fd(), buffer) else { return came };
            came = Came::Some;
            let Some(who) = peer.and_then(|peer| self.who(peer)) else {
                self.shared.doorstep.strangers.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let (mut framer, mut frames) = (Framer::new(Form::Json), Frames::default());
            framer.push(&buffer[..length], &mut frames);
            framer.end(&mut frames);
            hand_on(&self.shared.queue, &who, StageSource::Socket, frames);
        }
        Came::More
    }

    fn who(&self, peer: Peer) -> Option<K> {
        let door = self.shared.door.lock_unpoisoned();
        door.as_ref().and_then(|door| door(peer))
    }
}

fn busier(one: Came, other: Came) -> Came {
    match (one, other) {
        (Came::More, _) | (_, Came::More) | (_, Came::End) | (Came::End, _) => Came::More,
        (Came::Some, _) | (_, Came::Some) => Came::Some,
        _ => Came::Nothing,
    }
}

fn hand_on<K: Clone + PartialEq>(queue: &Queue<K>, who: &K, source: StageSource, frames: Frames) {
    if frames.count() > 0 {
        queue.push(Block { who: who.clone(), source, read_ns: now_ns(), frames });
    }
}

/// Reads what is there, at most a turn of it.
fn drain<K: Clone + PartialEq>(
    from: BorrowedFd<'_>,
    framer: &mut Framer,
    buffer: &mut [u8],
    queue: &Queue<K>,
    who: &K,
    source: StageSource,
) -> Came {
    let mut frames = Frames::default();
    let mut came = Came::Nothing;
    let mut read = 0;
    for turn in 1..=TURNS {
        match descriptor::read(from, buffer) {
            Ok(0) => {
                framer.end(&mut frames);
                came = Came::End;
                break;
            }
            Ok(got) => {
                framer.push(&buffer[..got], &mut frames);
                came = Came::Some;
                read += got;
                if turn == TURNS || read >= 4 * READ_BYTES {
                    came = Came::More;
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => {
                framer.end(&mut frames);
                came = Came::End;
                break;
            }
        }
    }
    hand_on(queue, who, source, frames);
    came
}
