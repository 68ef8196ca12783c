//! Finds the user whose process owns the peer end of a loopback connection: by one lookup of the
//! kernel, and in its table of sockets where it has no lookups. With thousands of connections
//! reading the table takes tens of milliseconds.
//!
//! Only loopback connections are looked up, so both ends are in this table. A client that has
//! closed its socket has no owner left, and gets no permission from its user.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest part of the table that is read: some ten thousand sockets.
const MAX_TABLE_BYTES: u64 = 16 << 20;

/// The user that owns the peer end; `None` if the peer is on another machine or has no owner.
pub fn peer_user(proc: &Path, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    // Kernels without lookups say that there is no such socket, as for a socket that is gone.
    static HAS_LOOKUPS: AtomicBool = AtomicBool::new(false);
    match metier_linux::socket_owner::find_socket_owner(peer, local) {
        Ok(Some(user)) => {
            HAS_LOOKUPS.store(true, Ordering::Relaxed);
            return Some(user);
        }
        Ok(None) if HAS_LOOKUPS.load(Ordering::Relaxed) => return None,
        Ok(None) | Err(_) => {}
    }
    user_in_table(proc, peer, local)
}

fn user_in_table(proc: &Path, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let files = ["net/tcp", "net/tcp6"].map(|name| proc.join(name));
    files.iter().find_map(|path| {
        let lines = BufReader::new(File::open(path).ok()?.take(MAX_TABLE_BYTES)).lines();
        lines.map_while(Result::ok).find_map(|line| user_in_row(&line, peer, local))
    })
}

/// The user in a row of the table, if the row belongs to the peer.
fn user_in_row(row: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let mut fields = row.split_ascii_whitespace().skip(1);
    let (own, other, state) = (fields.next()?, fields.next()?, fields.next()?);
    // Established, or closed on one side; sockets in later states have no owner.
    if !matches!(state, "01" | "04" | "05" | "08") {
        return None;
    }
    if parse_address(own)? != canonical_address(peer) || parse_address(other)? != canonical_address(local) {
        return None;
    }
    fields.nth(3)?.parse().ok()
}

fn canonical_address(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// `0100007F:1B59`: each 4 bytes as a number in this machine's byte order, the port as a number.
fn parse_address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..ip.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
        _ => return None,
    };
    Some((ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn ours() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_connection_of_our_own_is_ours() {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if listen.starts_with("[::1]") { "[::1]" } else { "127.0.0.1" };
            let client = TcpStream::connect(format!("{to}:{port}")).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            assert_eq!(peer_user(Path::new("/proc"), peer, local), Some(ours()), "{listen}");
            assert_eq!(user_in_table(Path::new("/proc"), peer, local), Some(ours()), "{listen}");
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(peer_user(Path::new("/proc"), peer, local), Some(ours()), "half closed");
            drop(client);
            drop(server);
            let mut other = local;
            other.set_port(1);
            assert_eq!(peer_user(Path::new("/proc"), peer, other), None);
        }
    }

    #[test]
    fn nobody_elsewhere_is_anyone_here() {
        let local = "192.0.2.1:80".parse().unwrap();
        assert_eq!(peer_user(Path::new("/proc"), "192.0.2.7:4000".parse().unwrap(), local), None);
        let row =
            "   0: 0100007F:9C40 0100007F:1B59 06 00000000:00000000 00:00000000 00000000     0        0 0 3";
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(
            user_in_row(row, at("127.0.0.1:40000"), at("127.0.0.1:7001")),
            None,
            "a waiting socket has no owner"
        );
        assert_eq!(
            user_in_row(&row.replace(" 06 ", " 01 "), at("127.0.0.1:40000"), at("127.0.0.1:7001")),
            Some(0)
        );
        for odd in ["", "x", "0: zz:1 1:1 01", "0: 0100007F:9C40"] {
            assert_eq!(user_in_row(odd, local, local), None);
        }
    }
}
