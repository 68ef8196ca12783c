//! Listener for the messages of an application in a remote pod. It runs in a separate container
//! beside the run's, so that its own use is not counted as the run's. The two containers share one
//! folder.
//!
//! Started as `metier-launch --ears FOLDER WAYS LIMIT_MS`. WAYS are letters: `s` for the stream and
//! datagram sockets, `l` for the line FIFO, `p` for pywaggle's log folder. All input is written
//! uninterpreted to [`MESSAGE_FILE`] with its arrival time. [`READY_FILE`] is created when all
//! sockets are bound. A client of [`CONTROL_SOCKET`] gets a byte as soon as no input is pending.
//! The listener ends on a signal, when the run's launcher closes its connection to
//! [`LAUNCHER_SOCKET`], or after LIMIT_MS (0: never).
//!
//! The file begins with `metier-heard-1\n`, a zero byte, and the number of dropped messages (eight
//! bytes; all numbers are little-endian). Records follow: a letter (`s` bytes of a connection, `e`
//! its end, `g` a datagram, `l` bytes of the FIFO), the number of the connection (4), nanoseconds
//! since 1970 (8), a length (4), and that many bytes. The file has at most
//! [`MAX_MESSAGE_FILE_BYTES`] bytes. Further messages are counted and dropped, so the application
//! never blocks.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sys;

pub const MESSAGE_FILE: &str = "heard";
pub const READY_FILE: &str = "ready";
/// Socket that reports when no input is pending.
pub const CONTROL_SOCKET: &str = "control";
/// Socket to which the run's launcher stays connected.
pub const LAUNCHER_SOCKET: &str = "life";
pub const PYWAGGLE_FOLDER: &str = "pywaggle";
const STREAM_SOCKET: &str = "live_metrics.sock";
const DATAGRAM_SOCKET: &str = "live_metrics.dgram";
const LINE_FIFO: &str = "lines";
const FILE_HEADER: &[u8; 16] = b"metier-heard-1\n\0";
/// Largest size of the message file.
const MAX_MESSAGE_FILE_BYTES: u64 = 64 << 20;
/// Largest number of connections; more wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 256;
const O_NONBLOCK: i32 = 0o4000;

/// Listens until a signal or a limit ends it; returns the exit code.
pub fn listen_to_app(arguments: &[&CStr]) -> i32 {
    let [_, _, folder, ways, limit] = arguments else { return 125 };
    let Some(limit_ms) = limit.to_str().ok().and_then(|text| text.parse::<u64>().ok()) else { return 125 };
    let signals = sys::SignalState::take_over(0, true);
    let folder = PathBuf::from(OsStr::from_bytes(folder.to_bytes()));
    let Ok(mut ears) = AppMessageListener::open(&folder, ways.to_bytes()) else { return 1 };
    let end = if limit_ms == 0 { u64::MAX } else { sys::now_ns().saturating_add(limit_ms * 1_000_000) };
    loop {
        let left_ms = (end.saturating_sub(sys::now_ns()) / 1_000_000).min(60_000) as i32;
        let is_told = ears.poll_once(signals.descriptor(), left_ms)
            && signals.take_pending().iter().any(|signal| matches!(*signal, sys::SIGTERM | sys::SIGINT));
        if is_told || ears.is_over || sys::now_ns() >= end {
            return 0;
        }
    }
}

struct AppMessageListener {
    spool: MessageSpool,
    control: UnixListener,
    life_door: UnixListener,
    life: Option<UnixStream>,
    /// Whether the run's launcher has disconnected.
    is_over: bool,
    stream: Option<UnixListener>,
    datagrams: Option<UnixDatagram>,
    lines: Option<File>,
    callers: Vec<(u32, UnixStream)>,
    /// Clients that wait until no input is pending.
    asking: Vec<UnixStream>,
    next: u32,
    buffer: Vec<u8>,
}

impl AppMessageListener {
    fn open(folder: &Path, ways: &[u8]) -> io::Result<Self> {
        let all = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
        let listen = |name: &str| {
            let path = folder.join(name);
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            all(&path).map(|()| listener)
        };
        let (mut stream, mut datagrams, mut lines) = (None, None, None);
        if ways.contains(&b's') {
            stream = Some(listen(STREAM_SOCKET)?);
            let path = folder.join(DATAGRAM_SOCKET);
            let socket = UnixDatagram::bind(&path)?;
            socket.set_nonblocking(true)?;
            all(&path)?;
            datagrams = Some(socket);
        }
        if ways.contains(&b'l') {
            let path = folder.join(LINE_FIFO);
            sys::make_fifo(&path)?;
            all(&path)?;
            // Opened for writing too, so that reading never reaches the end.
            lines = Some(OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(&path)?);
        }
        if ways.contains(&b'p') {
            fs::create_dir_all(folder.join(PYWAGGLE_FOLDER))?;
            all(&folder.join(PYWAGGLE_FOLDER))?;
        }
        let spool = MessageSpool::open(&folder.join(MESSAGE_FILE))?;
        let (control, life_door) = (listen(CONTROL_SOCKET)?, listen(LAUNCHER_SOCKET)?);
        File::create(folder.join(READY_FILE))?;
        let (callers, asking) = (Vec::new(), Vec::new());
        Ok(Self {
            spool,
            control,
            life_door,
            life: None,
            is_over: false,
            stream,
            datagrams,
            lines,
            callers,
            asking,
            next: 0,
            buffer: vec![0; 65536],
        })
    }

    /// Waits for input and stores it. Returns whether a signal is pending.
    fn poll_once(&mut self, signals: RawFd, longest_ms: i32) -> bool {
        let fd = |socket: Option<&dyn AsRawFd>| socket.map_or(-1, |socket| socket.as_raw_fd());
        let stream = self.stream.as_ref().filter(|_| self.callers.len() < MAX_CONNECTIONS);
        let mut fds = vec![
            signals,
            self.control.as_raw_fd(),
            fd(stream.map(|s| s as &dyn AsRawFd)),
            fd(self.datagrams.as_ref().map(|s| s as &dyn AsRawFd)),
            fd(self.lines.as_ref().map(|s| s as &dyn AsRawFd)),
            self.life_door.as_raw_fd(),
            fd(self.life.as_ref().map(|s| s as &dyn AsRawFd)),
        ];
        fds.extend(self.callers.iter().map(|(_, stream)| stream.as_raw_fd()));
        // A waiting client is answered when no input is pending.
        let wait_ms = if self.asking.is_empty() { longest_ms } else { 0 };
        let ready = sys::wait_for_any(&fds, wait_ms);
        if !ready.contains(&true) {
            for mut stream in std::mem::take(&mut self.asking) {
                let _ = stream.write_all(b"k");
            }
            return false;
        }
        if ready[1]
            && let Ok((unix_stream, _)) = self.control.accept()
        {
            self.asking.push(unix_stream);
        }
        if ready[2]
            && let Some(Ok((stream, _))) = self.stream.as_ref().map(UnixListener::accept)
            && stream.set_nonblocking(true).is_ok()
        {
            self.next = self.next.wrapping_add(1);
            self.callers.push((self.next, stream));
        }
        if ready[3]
            && let Some(socket) = &self.datagrams
            && let Ok(length) = socket.recv(&mut self.buffer)
        {
            self.spool.append(b'g', 0, &self.buffer[..length]);
        }
        if ready[4]
            && let Some(lines) = &mut self.lines
            && let Ok(length) = lines.read(&mut self.buffer)
        {
            self.spool.append(b'l', 0, &self.buffer[..length]);
        }
        if ready[5]
            && let Ok((stream, _)) = self.life_door.accept()
        {
            self.life = Some(stream);
        }
        // The launcher never sends anything, so readability means end of file.
        self.is_over |= ready[6];
        let (spool, buffer) = (&mut self.spool, &mut self.buffer);
        let mut at = 7;
        self.callers.retain_mut(|(number, stream)| {
            let is_ready = ready.get(at).copied().unwrap_or(false);
            at += 1;
            if !is_ready {
                return true;
            }
            match stream.read(buffer) {
                Ok(length) if length > 0 => spool.append(b's', *number, &buffer[..length]),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                _ => {
                    spool.append(b'e', *number, b"");
                    return false;
                }
            }
            true
        });
        ready[0]
    }
}

/// The message file.
struct MessageSpool {
    file: File,
    length: u64,
    dropped: u64,
}

impl MessageSpool {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(FILE_HEADER)?;
        file.write_all(&0u64.to_le_bytes())?;
        Ok(Self { file, length: 24, dropped: 0 })
    }

    fn append(&mut self, kind: u8, number: u32, bytes: &[u8]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let mut record = Vec::with_capacity(17 + bytes.len());
        record.push(kind);
        record.extend_from_slice(&number.to_le_bytes());
        record.extend_from_slice(&now.to_le_bytes());
        record.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        record.extend_from_slice(bytes);
        let fits = self.length + record.len() as u64 <= MAX_MESSAGE_FILE_BYTES;
        if fits && self.file.write_all_at(&record, self.length).is_ok() {
            self.length += record.len() as u64;
            return;
        }
        // Counts non-empty lines, because messages end with one newline or two.
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        self.dropped += lines as u64;
        let _ = self.file.write_all_at(&self.dropped.to_le_bytes(), FILE_HEADER.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_said_is_there_when_the_answer_comes() {
        let folder = std::env::temp_dir().join(format!("metier-ears-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut ears = AppMessageListener::open(&folder, b"slp").unwrap();
        let mut stream = UnixStream::connect(folder.join(STREAM_SOCKET)).unwrap();
        stream.write_all(b"{\"a\":1}\n\n").unwrap();
        drop(stream);
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"{\"b\":2}", folder.join(DATAGRAM_SOCKET)).unwrap();
        OpenOptions::new().write(true).open(folder.join(LINE_FIFO)).unwrap().write_all(b"c 3\n").unwrap();
        let mut asking = UnixStream::connect(folder.join(CONTROL_SOCKET)).unwrap();
        asking.set_nonblocking(true).unwrap();
        let mut turns = 0;
        while asking.read(&mut [0]).is_err() {
            ears.poll_once(-1, 1000);
            turns += 1;
            assert!(turns < 100);
        }
        let bytes = fs::read(folder.join(MESSAGE_FILE)).unwrap();
        assert!(bytes.starts_with(FILE_HEADER) && bytes[16..24] == [0; 8]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for part in ["{\"a\":1}\n\n", "{\"b\":2}", "c 3\n"] {
            assert!(text.contains(part), "{text:?}");
        }
        let life = UnixStream::connect(folder.join(LAUNCHER_SOCKET)).unwrap();
        ears.poll_once(-1, 1000);
        assert!(ears.life.is_some() && !ears.is_over);
        drop(life);
        ears.poll_once(-1, 1000);
        assert!(ears.is_over, "the launcher has disconnected");
        ears.spool.length = MAX_MESSAGE_FILE_BYTES;
        ears.spool.append(b'l', 0, b"x 1\ny 2\n");
        assert_eq!(fs::read(folder.join(MESSAGE_FILE)).unwrap()[16..24], 2u64.to_le_bytes());
        fs::remove_dir_all(&folder).unwrap();
    }
}
