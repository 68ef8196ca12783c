//! System calls on descriptors that the standard library does not offer.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use metier_linux::packet_socket::SocketPeer;

/// Makes the kernel attach the sender's credentials to each datagram (`SO_PASSCRED`).
pub fn enable_peer_credentials(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is a valid int of the given size.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives the next datagram: its length and its sender's credentials.
pub fn receive_datagram(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<SocketPeer>)> {
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero header is valid; its pointers are set to buffers that outlive the call.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: as above; the call does not block.
    let got = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC)
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut sender = None;
    // SAFETY: the macros walk the control buffer within the length that the kernel wrote.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(&header);
        while !entry.is_null() {
            let (level, kind) = ((*entry).cmsg_level, (*entry).cmsg_type);
            if level == libc::SOL_SOCKET && kind == libc::SCM_CREDENTIALS {
                let credentials = libc::CMSG_DATA(entry).cast::<libc::ucred>().read_unaligned();
                sender = Some(SocketPeer { pid: credentials.pid.max(0) as u32, uid: credentials.uid });
            } else if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
                // Close descriptors sent along (`SCM_RIGHTS`): they are not used and would pile up.
                let bytes = (*entry).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let fds = libc::CMSG_DATA(entry).cast::<RawFd>();
                for at in 0..bytes / size_of::<RawFd>() {
                    libc::close(fds.add(at).read_unaligned());
                }
            }
            entry = libc::CMSG_NXTHDR(&header, entry);
        }
    }
    Ok((got as usize, sender))
}

/// Reads the available bytes; `WouldBlock` if there are none.
pub fn read_available(from: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer belongs to the caller and its size is passed.
    let got = unsafe { libc::read(from.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// Waits until at least one descriptor is readable and returns a flag for each. `None` waits
/// without limit.
pub fn wait_readable(fds: &[RawFd], longest: Option<Duration>) -> Vec<bool> {
    let mut entries: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    let time = longest.map_or(-1, |time| time.as_millis().min(60_000) as libc::c_int);
    // SAFETY: the entries are valid for their number.
    let found = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, time) };
    if found <= 0 {
        return vec![false; fds.len()];
    }
    entries.iter().map(|entry| entry.revents != 0).collect()
}

/// Makes a FIFO that all users with access to its folder may write to.
pub fn make_fifo(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated.
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o622) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above; chmod because the process's umask may have removed the write permission.
    unsafe { libc::chmod(name.as_ptr(), 0o622) };
    Ok(())
}

/// Opens a FIFO for reading. It is opened read-write, so the last writer's exit causes no end of
/// file.
pub fn open_fifo(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated; the new descriptor has no other owner.
    unsafe {
        let fd = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Enlarges a pipe if the system allows it; returns its capacity.
pub fn grow_pipe(pipe: BorrowedFd<'_>, bytes: usize) -> Option<usize> {
    // SAFETY: plain numbers on an open descriptor.
    let got = unsafe {
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes as libc::c_int);
        libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ)
    };
    (got > 0).then_some(got as usize)
}

/// Moves the calling thread into the network namespace behind an open descriptor.
pub fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a plain call on an open descriptor; it changes the calling thread only.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises the calling thread's scheduling priority if the system allows it.
pub fn raise_thread_priority() {
    // SAFETY: plain numbers; on Linux this affects the calling thread only. A refusal changes
    // nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Whether this is the user of this process.
pub fn is_own_user(uid: u32) -> bool {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() == uid }
}

/// Nanoseconds since 1970.
pub fn unix_time_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as i64)
}
