//! The user behind a request: the owner of the peer's end of a loopback connection.

use std::net::SocketAddr;
use std::path::Path;

use metier_linux::socket_owner;

/// Both ends of a request's connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionEnds {
    pub peer: SocketAddr,
    pub local: SocketAddr,
    /// Whether TLS protects it.
    pub is_encrypted: bool,
}

/// The user that owns the peer's end; `None` if the peer is on another machine, or has closed its
/// socket.
pub fn peer_user(line: &ConnectionEnds) -> Option<u32> {
    if !line.peer.ip().to_canonical().is_loopback() {
        return None;
    }
    socket_owner::tcp_socket_user(Path::new("/proc"), line.peer, line.local)
}
