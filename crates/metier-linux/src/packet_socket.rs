//! Unix packet sockets (`SOCK_SEQPACKET`), which the standard library lacks, and credentials of
//! their peers.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Number of connections that may wait to be accepted.
const BACKLOG: libc::c_int = 4;

/// The process at the other end of a unix socket, as reported by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketPeer {
    /// Process id in this namespace; 0 if the process is not visible from it.
    pub pid: u32,
    pub uid: u32,
}

/// Credentials of the connected process.
pub fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<SocketPeer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its size are valid and fit the option.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut size,
        )
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(SocketPeer { pid: credentials.pid.max(0) as u32, uid: credentials.uid })
}

/// Opens a listening socket at a path; accepting from it does not block.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: the address is plain data filled within its bounds; the descriptor is checked before
    // it is owned.
    unsafe {
        let mut address: libc::sockaddr_un = zeroed();
        if bytes.len() >= address.sun_path.len() {
            let text = format!("{} is too long for a socket path", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = libc::socket(libc::AF_UNIX, kind, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        if libc::bind(fd, (&raw const address).cast(), size) != 0 || libc::listen(fd, BACKLOG) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }
}

/// Accepts the next connection, and reads the credentials of its peer.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketPeer)> {
    let none = std::ptr::null_mut();
    // SAFETY: requests no address; the descriptor is checked before it is owned.
    let socket = unsafe {
        let fd = libc::accept4(listener.as_raw_fd(), none, none.cast(), libc::SOCK_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let peer = peer_credentials(std::os::fd::AsFd::as_fd(&socket))?;
    Ok((socket, peer))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn nothing_waits_and_a_path_that_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let listener = listen(&folder.path().join("socket")).unwrap();
        assert_eq!(accept(listener.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let error = listen(&folder.path().join("x".repeat(120))).unwrap_err().to_string();
        assert!(error.ends_with(" is too long for a socket path"), "{error}");
    }
}
