//! The few calls on descriptors that the standard library does not have.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use metier_linux::packet_socket::SocketPeer;

/// Asks the kernel to say with each datagram who sent it.
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

/// Takes the next datagram: its length and who sent it.
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
    // SAFETY: as above; nothing waits.
    let got = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC)
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut who = None;
    // SAFETY: the macros walk the control buffer within the length that the kernel wrote.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(&header);
        while !entry.is_null() {
            let (level, kind) = ((*entry).cmsg_level, (*entry).cmsg_type);
            if level == libc::SOL_SOCKET && kind == libc::SCM_CREDENTIALS {
                let sender = libc::CMSG_DATA(entry).cast::<libc::ucred>().read_unaligned();
                who = Some(SocketPeer { pid: sender.pid.max(0) as u32, uid: sender.uid });
            } else if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
                // Descriptors that somebody sent along are not wanted and must not pile up.
                let bytes = (*entry).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let fds = libc::CMSG_DATA(entry).cast::<RawFd>();
                for at in 0..bytes / size_of::<RawFd>() {
                    libc::close(fds.add(at).read_unaligned());
                }
            }
            entry = libc::CMSG_NXTHDR(&header, entry);
        }
    }
    Ok((got as usize, who))
}

/// Reads what is there; `WouldBlock` where nothing is.
pub fn read_available(from: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is ours and its size is passed.
    let got = unsafe { libc::read(from.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// Waits until one of them can be read; says which. `None` waits without end.
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

/// Makes a FIFO that anybody who sees its folder may write to.
pub fn make_fifo(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated.
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o622) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above; the mask of the process must not take the right to write away.
    unsafe { libc::chmod(name.as_ptr(), 0o622) };
    Ok(())
}

/// Opens a FIFO for reading; opened for both ways it never ends when the last writer goes.
pub fn open_fifo(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated; the descriptor is ours alone.
    unsafe {
        let fd = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Makes a pipe hold more, where the system allows it; says how much it holds.
pub fn grow_pipe(pipe: BorrowedFd<'_>, bytes: usize) -> Option<usize> {
    // SAFETY: plain numbers on a descriptor that is open.
    let got = unsafe {
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes as libc::c_int);
        libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ)
    };
    (got > 0).then_some(got as usize)
}

/// Puts the calling thread into the network namespace behind an open file of it.
pub fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a plain call on an open descriptor; it changes the calling thread only.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the calling thread go before others, where the system allows it.
pub fn raise_thread_priority() {
    // SAFETY: plain numbers; on Linux this is the calling thread alone. Refused is as before.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Whether this is the user that we run as.
pub fn is_own_user(uid: u32) -> bool {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() == uid }
}

/// Nanoseconds since 1970.
pub fn unix_time_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as i64)
}
