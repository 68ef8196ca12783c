//! The host side of the gate (`crates/metier-launch/src/gate.rs`): a folder with the program and a
//! socket that is mounted into the container, and the protocol with the process that waits there.

use std::fs;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_linux::{KernelRoots, group_owner, packet_socket, wakeup};

/// The gate's program file, built by `build.rs`.
static GATE_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/metier-gate"));

/// The folder's path in the container.
pub(crate) const CONTAINER_FOLDER: &str = "/.metier";
/// The entrypoint of the container.
pub(crate) const ENTRYPOINT: [&str; 2] = ["/.metier/gate", "/.metier/socket"];
/// Time limit for the exec of the workload.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The mounted folder and its listening socket.
pub(crate) struct ContainerGate {
    pub folder: PathBuf,
    listener: OwnedFd,
}

impl ContainerGate {
    /// Creates the folder in the first place where programs may be executed and the socket's path
    /// fits.
    pub fn create_in(places: &[PathBuf], name: &str) -> io::Result<Self> {
        let mut reason = io::Error::other("no suitable folder");
        for place in places.iter().filter(|place| !is_noexec(place)) {
            let folder = place.join(name);
            match Self::create(&folder) {
                Ok(gate) => return Ok(gate),
                Err(error) => {
                    let _ = fs::remove_dir_all(&folder);
                    reason = error;
                }
            }
        }
        Err(reason)
    }

    fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        // The container may run as any user. The folder is only reachable through the mount or as
        // this user.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        let program = folder.join("gate");
        fs::write(&program, GATE_PROGRAM)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let socket = folder.join("socket");
        let listener = packet_socket::listen(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
        Ok(Self { folder: folder.into(), listener })
    }

    /// Files to remove at the end, before the folder.
    pub fn cleanup_paths(&self) -> [PathBuf; 2] {
        [self.folder.join("gate"), self.folder.join("socket")]
    }

    /// Readable when a process waits at the gate.
    pub fn descriptor(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// Accepts the process that waits at the gate.
    pub fn accept(&self) -> Option<GatedProcess> {
        let (socket, peer) = packet_socket::accept(self.listener.as_fd()).ok()?;
        let waiting = GatedProcess { socket, pid: peer.pid };
        (waiting.receive_packet().as_deref() == Some(b"R")).then_some(waiting)
    }
}

/// Removes the folders of a killed measuring process and its launcher.
pub(crate) fn remove_leftover_gates(roots: &KernelRoots, places: &[PathBuf]) {
    for entry in places.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten()) {
        let is_left = entry.file_name().to_str().is_some_and(|name| group_owner::has_dead_owner(roots, name));
        if is_left && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            for name in ["gate", "socket"] {
                let _ = fs::remove_file(entry.path().join(name));
            }
            // Fails unless the folder is empty.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Candidate parents of the folder, in addition to the session's private folder.
pub(crate) fn gate_folders(runtime_dir: &Path) -> [PathBuf; 4] {
    [runtime_dir.into(), std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into()]
}

/// A process that waits at the gate.
pub(crate) struct GatedProcess {
    socket: OwnedFd,
    /// Its PID on this host.
    pub pid: u32,
}

/// Why a process at the gate did not become the workload.
#[derive(Debug)]
pub(crate) enum GateError {
    /// It could not be executed.
    Exec(io::Error),
    Gone,
}

impl GatedProcess {
    /// Tells it to exec the workload; returns the time just before, by the monotonic clock.
    pub fn start_workload(self) -> Result<u64, GateError> {
        if !self.send_packet(b"G") {
            return Err(GateError::Gone);
        }
        let started = match self.receive_packet().as_deref() {
            Some([b'S', time @ ..]) => {
                time.try_into().map(u64::from_ne_bytes).map_err(|_| GateError::Gone)?
            }
            _ => return Err(GateError::Gone),
        };
        match self.receive_packet().as_deref() {
            // The exec closed the socket.
            None => Ok(started),
            Some([b'F', number @ ..]) => {
                let errno = number.try_into().map(i32::from_ne_bytes).unwrap_or(0);
                Err(GateError::Exec(io::Error::from_raw_os_error(errno)))
            }
            Some(_) => Err(GateError::Gone),
        }
    }

    fn send_packet(&self, packet: &[u8]) -> bool {
        // SAFETY: the packet is valid for its length.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), libc::MSG_NOSIGNAL)
        };
        sent == packet.len() as isize
    }

    /// The next packet, or `None` if the peer is gone or silent for too long.
    fn receive_packet(&self) -> Option<Vec<u8>> {
        if !wakeup::wait_readable([self.socket.as_raw_fd()], REPLY_TIMEOUT)[0] {
            return None;
        }
        let mut packet = [0u8; 16];
        // SAFETY: the buffer belongs to this function and its length is passed.
        let got = unsafe {
            libc::recv(self.socket.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), libc::MSG_DONTWAIT)
        };
        usize::try_from(got).ok().filter(|length| *length > 0).map(|length| packet[..length].to_vec())
    }
}

/// Whether the file system forbids execution there.
fn is_noexec(place: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(place.as_os_str().as_bytes()) else { return true };
    // SAFETY: the path ends with NUL and the structure is plain data that the call fills.
    unsafe {
        let mut about: libc::statvfs = zeroed();
        libc::statvfs(path.as_ptr(), &mut about) == 0 && about.f_flag & libc::ST_NOEXEC != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_the_gate(command: &[&str]) -> (tempfile::TempDir, std::process::Child, GatedProcess) {
        let folder = tempfile::tempdir().unwrap();
        let gate = ContainerGate::create_in(&[folder.path().into()], "g").unwrap();
        let [program, socket] = gate.cleanup_paths();
        let mut start = std::process::Command::new(program);
        let child = start.arg(socket).args(command).stdout(std::process::Stdio::piped()).spawn().unwrap();
        assert!(wakeup::wait_readable([gate.descriptor()], REPLY_TIMEOUT)[0]);
        let waiting = gate.accept().unwrap();
        (folder, child, waiting)
    }

    #[test]
    fn the_process_at_the_gate_becomes_the_program_in_place() {
        let (_folder, child, waiting) = at_the_gate(&["sh", "-c", "echo $$"]);
        assert_eq!(waiting.pid, child.id());
        let before = wakeup::monotonic_ns();
        let started = waiting.start_workload().unwrap();
        assert!(started >= before);
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), pid.to_string());
    }

    #[test]
    fn a_program_that_is_not_there_is_told_with_its_reason() {
        let (_folder, mut child, waiting) = at_the_gate(&["/no/such/program"]);
        assert!(
            matches!(waiting.start_workload(), Err(GateError::Exec(error)) if error.raw_os_error() == Some(libc::ENOENT))
        );
        assert_eq!(child.wait().unwrap().code(), Some(127));
    }

    #[test]
    fn a_gate_that_nobody_opens_ends() {
        let (_folder, mut child, waiting) = at_the_gate(&["true"]);
        drop(waiting);
        assert_eq!(child.wait().unwrap().code(), Some(125));
    }
}
