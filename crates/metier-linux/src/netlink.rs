//! Netlink sockets: opening, sending one message, receiving many at once.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Receive buffer for events between two reads; a burst beyond it is counted as lost.
static RECEIVE_BUFFER_BYTES: libc::c_int = 32 << 20;
/// Messages received with one system call.
const MESSAGES_PER_CALL: usize = 64;
const MESSAGE_BYTES: usize = 1024;

/// A non-blocking netlink socket.
pub struct NetlinkSocket {
    fd: OwnedFd,
    buffers: Box<[[u8; MESSAGE_BYTES]; MESSAGES_PER_CALL]>,
    /// Number of times the kernel reported dropped messages.
    pub overruns: u64,
}

impl NetlinkSocket {
    /// Opens a socket of a family and joins multicast groups.
    pub fn open(family: libc::c_int, groups: u32) -> io::Result<Self> {
        // SAFETY: passes plain numbers; the result is checked before it is owned.
        let fd = unsafe {
            let fd = libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                family,
            );
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: sockaddr_nl is plain data; all zero is a valid value, and its size is passed.
        unsafe {
            for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
                let room = (&raw const RECEIVE_BUFFER_BYTES).cast();
                if libc::setsockopt(
                    fd.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    room,
                    size_of_val(&RECEIVE_BUFFER_BYTES) as u32,
                ) == 0
                {
                    break;
                }
            }
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as u16;
            address.nl_groups = groups;
            let size = size_of::<libc::sockaddr_nl>() as u32;
            if libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { fd, buffers: Box::new([[0; MESSAGE_BYTES]; MESSAGES_PER_CALL]), overruns: 0 })
    }

    /// Sends one message: header fields and a payload.
    pub fn send(&self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(16 + payload.len());
        message.extend(((16 + payload.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(1u32.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(payload);
        // SAFETY: the message is valid for its length.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        if sent == message.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits up to a second for the answer to a request, and passes it to `take`.
    pub fn receive_answer(&mut self, mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        if unsafe { libc::poll(&mut poll, 1, 1000) } <= 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel did not answer"));
        }
        self.drain(&mut take);
        Ok(())
    }

    /// Passes the type and payload of every pending message to `take`.
    pub fn drain(&mut self, take: &mut impl FnMut(u16, &[u8])) {
        loop {
            let mut lengths = [0usize; MESSAGES_PER_CALL];
            let count = match self.receive(&mut lengths) {
                Ok(count) => count,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.overruns += 1;
                    continue;
                }
                Err(_) => return,
            };
            for (buffer, length) in self.buffers.iter().zip(lengths).take(count) {
                for_each_message(&buffer[..length.min(MESSAGE_BYTES)], take);
            }
            if count < MESSAGES_PER_CALL {
                return;
            }
        }
    }

    fn receive(&mut self, lengths: &mut [usize; MESSAGES_PER_CALL]) -> io::Result<usize> {
        // SAFETY: all headers are zeroed, then point to buffers that outlive the call.
        unsafe {
            let mut parts: [libc::iovec; MESSAGES_PER_CALL] = std::mem::zeroed();
            let mut headers: [libc::mmsghdr; MESSAGES_PER_CALL] = std::mem::zeroed();
            for ((part, header), buffer) in parts.iter_mut().zip(&mut headers).zip(self.buffers.iter_mut()) {
                part.iov_base = buffer.as_mut_ptr().cast();
                part.iov_len = MESSAGE_BYTES;
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
            }
            let flags = libc::MSG_DONTWAIT as _;
            let got = libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                MESSAGES_PER_CALL as u32,
                flags,
                std::ptr::null_mut(),
            );
            if got < 0 {
                return Err(io::Error::last_os_error());
            }
            for (length, header) in lengths.iter_mut().zip(&headers) {
                *length = header.msg_len as usize;
            }
            Ok(got as usize)
        }
    }
}

/// Iterates over the netlink messages of one datagram.
fn for_each_message(mut bytes: &[u8], take: &mut impl FnMut(u16, &[u8])) {
    while bytes.len() >= 16 {
        let Some(length) = u32_at(bytes, 0).map(|l| l as usize).filter(|l| (16..=bytes.len()).contains(l))
        else {
            return;
        };
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        take(kind, &bytes[16..length]);
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
}

/// Iterates over netlink attributes: type and payload.
pub fn for_each_attribute(mut bytes: &[u8], take: &mut impl FnMut(u16, &[u8])) {
    while bytes.len() >= 4 {
        let length = u16::from_ne_bytes([bytes[0], bytes[1]]) as usize;
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x3fff;
        if !(4..=bytes.len()).contains(&length) {
            return;
        }
        take(kind, &bytes[4..length]);
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
}

/// Reads an unsigned integer at an offset, in native byte order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Reads an unsigned integer at an offset, in native byte order.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_the_walkers_panic_or_loop(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for_each_message(&bytes, &mut |_, payload| for_each_attribute(payload, &mut |_, _| {}));
            for_each_attribute(&bytes, &mut |_, payload| for_each_attribute(payload, &mut |_, _| {}));
        }
    }
}
