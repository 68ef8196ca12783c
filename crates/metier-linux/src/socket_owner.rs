//! The user whose process holds a TCP socket of this machine.
//!
//! The kernel is asked for one socket by its two addresses (`NETLINK_SOCK_DIAG`): 20 µs. The table
//! of all sockets in `/proc/net` takes 10 ms on a machine with 24 GB, because the kernel walks its
//! whole hash table. It is read only where that interface is absent.
//!
//! A socket whose process has closed it has no owner. Many kernels report user 0 for it;
//! hence the check of its inode.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::netlink::{NetlinkSocket, u32_at};

const NETLINK_SOCK_DIAG: libc::c_int = 4;
/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`: kind of request and answer.
const DIAG_BY_FAMILY: u16 = 20;
/// Offsets in `struct inet_diag_msg`.
const DIAG_UID: usize = 64;
const DIAG_INODE: usize = 68;
/// Largest part of the table that is read: some ten thousand sockets.
const MAX_TABLE_BYTES: u64 = 16 << 20;

/// The user of a TCP socket, by its own address and that of its peer; `None` if no process holds
/// such a socket.
pub fn tcp_socket_user(proc: &Path, own: SocketAddr, peer: SocketAddr) -> Option<u32> {
    let (own, peer) = (canonical_address(own), canonical_address(peer));
    if let Some(row) = query_socket(own, peer) {
        return row.user();
    }
    // The kernel answers "no such entry" both for an unknown socket and without this interface.
    // The peer's end exists in any case, so that it tells one from the other.
    if query_socket(peer, own).is_some() {
        return None;
    }
    let files = ["net/tcp", "net/tcp6"].map(|name| proc.join(name));
    files.iter().find_map(|path| {
        let lines = BufReader::new(File::open(path).ok()?.take(MAX_TABLE_BYTES)).lines();
        lines.map_while(Result::ok).find_map(|line| table_row(&line, own, peer)?.user())
    })
}

/// User and inode of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketOwner {
    user: u32,
    /// 0 if no process holds it.
    inode: u32,
}

impl SocketOwner {
    fn user(self) -> Option<u32> {
        (self.inode != 0).then_some(self.user)
    }
}

/// Asks the kernel for one socket.
fn query_socket(own: SocketAddr, peer: SocketAddr) -> Option<SocketOwner> {
    let mut socket = NetlinkSocket::open(NETLINK_SOCK_DIAG, 0).ok()?;
    // NLM_F_REQUEST without NLM_F_DUMP: exactly this socket.
    socket.send(DIAG_BY_FAMILY, 1, &diag_request(own, peer)?).ok()?;
    let mut found = None;
    let take = |kind, answer: &[u8]| {
        if kind == DIAG_BY_FAMILY
            && let (Some(user), Some(inode)) = (u32_at(answer, DIAG_UID), u32_at(answer, DIAG_INODE))
        {
            found = Some(SocketOwner { user, inode });
        }
    };
    socket.receive_answer(take).ok()?;
    found
}

/// `struct inet_diag_req_v2`; `None` for addresses of two families.
fn diag_request(own: SocketAddr, peer: SocketAddr) -> Option<Vec<u8>> {
    let family = match (own, peer) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => libc::AF_INET,
        (SocketAddr::V6(_), SocketAddr::V6(_)) => libc::AF_INET6,
        _ => return None,
    };
    let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes()); // Any state.
    request.extend(own.port().to_be_bytes());
    request.extend(peer.port().to_be_bytes());
    for address in [own.ip(), peer.ip()] {
        let mut bytes = [0; 16];
        match address {
            IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => bytes = v6.octets(),
        }
        request.extend(bytes);
    }
    request.extend(0u32.to_ne_bytes()); // Any interface.
    request.extend([u8::MAX; 8]); // No cookie.
    Some(request)
}

/// A row of `/proc/net/tcp`, if it is that socket.
fn table_row(row: &str, own: SocketAddr, peer: SocketAddr) -> Option<SocketOwner> {
    let mut fields = row.split_ascii_whitespace().skip(1);
    if parse_address(fields.next()?)? != own || parse_address(fields.next()?)? != peer {
        return None;
    }
    Some(SocketOwner { user: fields.nth(4)?.parse().ok()?, inode: fields.nth(1)?.parse().ok()? })
}

/// `0100007F:1B59`: each 4 bytes as a number in this machine's byte order, the port as a number.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..ip.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(canonical_address(SocketAddr::new(ip, port)))
}

/// Without the IPv6 form of an IPv4 address.
fn canonical_address(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    const PROC: &str = "/proc";

    fn ours() -> u32 {
        // SAFETY: has no arguments and cannot fail.
        unsafe { libc::geteuid() }
    }

    #[test]
    fn a_connection_of_our_own_is_ours_until_it_is_closed() {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if listen.starts_with("[::1]") { "[::1]" } else { "127.0.0.1" };
            let client = TcpStream::connect(format!("{to}:{port}")).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            let user = || tcp_socket_user(Path::new(PROC), peer, local);
            assert_eq!(user(), Some(ours()), "{listen}");
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(user(), Some(ours()), "half closed");
            drop(client);
            assert_eq!(user(), None, "{listen}: a closed socket has no owner, not user 0");
            let mut other = local;
            other.set_port(1);
            assert_eq!(tcp_socket_user(Path::new(PROC), peer, other), None);
        }
    }

    #[test]
    fn the_table_gives_the_same_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let find = || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            table.lines().find_map(|row| table_row(row, own, peer))
        };
        assert_eq!(find(), query_socket(own, peer));
        assert_eq!(find().and_then(SocketOwner::user), Some(ours()));
        drop(client);
        assert_eq!(find().and_then(SocketOwner::user), None, "a closed socket has no owner");
    }

    #[test]
    fn odd_rows_have_no_owner() {
        let row =
            "   0: 0100007F:9C40 0100007F:1B59 01 00000000:00000000 00:00000000 00000000  1000        0 77 3";
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (own, peer) = (at("127.0.0.1:40000"), at("127.0.0.1:7001"));
        assert_eq!(table_row(row, own, peer).and_then(SocketOwner::user), Some(1000));
        let orphan = row.replace(" 77 ", " 0 ");
        assert_eq!(table_row(&orphan, own, peer).and_then(SocketOwner::user), None);
        for odd in ["", "x", "0: zz:1 1:1 01", "0: 0100007F:9C40", &row[..70]] {
            assert_eq!(table_row(odd, own, peer), None, "{odd}");
        }
        assert_eq!(diag_request(own, at("[::1]:1")), None);
    }
}
