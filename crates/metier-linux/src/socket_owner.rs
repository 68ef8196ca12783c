//! Finds the user that owns a connected TCP socket, by one lookup of the kernel's socket
//! diagnostics (`sock_diag(7)`) instead of a walk through its table of sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::netlink::{NetlinkSocket, u32_at};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NO_COOKIE: u32 = u32::MAX;
/// Connected, or closed on one side; sockets in later states have no owner.
const OWNED_STATES: [u8; 4] = [1, 4, 5, 8];
/// Length of `struct inet_diag_msg`: four bytes, the socket's id of 48, and five numbers.
const ANSWER_BYTES: usize = 72;

/// The user that owns the connected socket with these addresses of its own and of its peer; `None`
/// if there is none in this network namespace.
pub fn find_socket_owner(own: SocketAddr, peer: SocketAddr) -> io::Result<Option<u32>> {
    let mut socket = NetlinkSocket::open(libc::NETLINK_SOCK_DIAG, 0)?;
    let request = encode_request(own, peer);
    socket.send(SOCK_DIAG_BY_FAMILY, libc::NLM_F_REQUEST as u16, &request)?;
    let mut answer = Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not known"));
    socket.receive_answer(|kind, payload| {
        answer = match kind {
            SOCK_DIAG_BY_FAMILY => Ok(owner_in_answer(payload, &request)),
            _ => match u32_at(payload, 0).map(|number| (number as i32).wrapping_neg()) {
                Some(libc::ENOENT) => Ok(None),
                Some(number) => Err(io::Error::from_raw_os_error(number)),
                None => return,
            },
        };
    })?;
    answer
}

/// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states, id.
fn encode_request(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let (own_ip, peer_ip) = (own.ip().to_canonical(), peer.ip().to_canonical());
    let family = if own_ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(own.port().to_be_bytes());
    request.extend(peer.port().to_be_bytes());
    for ip in [own_ip, peer_ip] {
        let mut bytes = [0; 16];
        match ip {
            IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => bytes = v6.octets(),
        }
        request.extend(bytes);
    }
    request.extend(0u32.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    request
}

/// The user in the answer, if it is about a connected socket with the requested addresses: the
/// kernel may answer with a listening socket.
fn owner_in_answer(answer: &[u8], request: &[u8]) -> Option<u32> {
    // The ports and addresses are 36 bytes, after 8 bytes in the request and 4 in the answer.
    let is_same = answer.len() >= ANSWER_BYTES && answer.get(4..8) == request.get(8..12);
    let is_owned = answer.get(1).is_some_and(|state| OWNED_STATES.contains(state));
    let inode = u32_at(answer, 68)?;
    (is_same && is_owned && inode != 0).then(|| u32_at(answer, 64))?
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_our_own_is_ours_until_it_is_closed() {
        // SAFETY: has no arguments and cannot fail.
        let ours = unsafe { libc::geteuid() };
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if listen.starts_with("[::1]") { "[::1]" } else { "127.0.0.1" };
            let client = TcpStream::connect(format!("{to}:{port}")).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            assert_eq!(find_socket_owner(peer, local).unwrap(), Some(ours), "{listen}");
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(find_socket_owner(peer, local).unwrap(), Some(ours), "half closed");
            drop(client);
            assert_eq!(find_socket_owner(peer, local).unwrap(), None, "closed");
            drop(server);
            let own = listener.local_addr().unwrap();
            assert_eq!(find_socket_owner(own, peer).unwrap_or(None), None, "a listening socket");
        }
    }

    #[test]
    fn an_answer_about_another_socket_has_no_owner() {
        let request = encode_request("127.0.0.1:7".parse().unwrap(), "127.0.0.1:9".parse().unwrap());
        assert_eq!(request.len(), 56);
        let mut answer = vec![0u8; ANSWER_BYTES];
        answer[1] = 1;
        answer[4..8].copy_from_slice(&request[8..12]);
        answer[64..68].copy_from_slice(&1000u32.to_ne_bytes());
        answer[68..].copy_from_slice(&5u32.to_ne_bytes());
        assert_eq!(owner_in_answer(&answer, &request), Some(1000));
        for (at, value) in [(1, 10), (4, 200), (68, 0)] {
            let mut other = answer.clone();
            other[at] = value;
            assert_eq!(owner_in_answer(&other, &request), None, "{at}");
        }
        assert_eq!(owner_in_answer(&answer[..60], &request), None);
    }
}
