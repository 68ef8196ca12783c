//! Settings of the HTTP layer: addresses, tokens, open interfaces and limits.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::error::Error;
use crate::http::tls::TlsIdentity;

/// Interfaces that `open` may name; they respond without the token on an address that is not
/// loopback.
pub const OPEN_INTERFACES: [&str; 4] = ["metrics", "page", "soprano", "models"];

/// Settings of the HTTP layer.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Token of the API; needed on any address that is not loopback.
    pub token: Option<AccessToken>,
    /// Token for starting runs where `token` is not set; processes of the server's own user need
    /// none.
    pub start_token: Option<AccessToken>,
    /// Entries of [`OPEN_INTERFACES`] that need no token on an address that is not loopback.
    pub open: Vec<String>,
    /// Further names that the `Host` header may have on a loopback address, without a port; for a
    /// proxy that passes the outer name on.
    pub hosts: Vec<String>,
    /// Further addresses, by the name of the interface that they are for. An address in use is
    /// skipped with a warning.
    pub doors: Vec<(String, SocketAddr)>,
    /// TLS of the main address; further addresses are plain HTTP.
    pub tls: Option<TlsIdentity>,
    pub limits: HttpLimits,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7001)),
            token: None,
            start_token: None,
            open: Vec::new(),
            hosts: Vec::new(),
            doors: Vec::new(),
            tls: None,
            limits: HttpLimits::default(),
        }
    }
}

impl HttpConfig {
    /// Whether only this machine can reach the server.
    pub fn is_loopback(&self) -> bool {
        let all = self.doors.iter().map(|(_, address)| address).chain([&self.listen]);
        all.into_iter().all(|address| address.ip().to_canonical().is_loopback())
    }

    /// The addresses that other machines reach without encryption.
    pub fn plain_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let main = self.tls.is_none().then_some(&self.listen);
        let all = main.into_iter().chain(self.doors.iter().map(|(_, address)| address));
        all.filter(|address| !address.ip().to_canonical().is_loopback()).copied()
    }

    /// Whether that interface responds without the token.
    pub fn is_open(&self, door: &str) -> bool {
        self.is_loopback() || self.open.iter().any(|name| name == door)
    }

    /// Checks the settings before the start.
    pub fn check(&self) -> Result<(), Error> {
        self.check_open()?;
        let reachable = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        let all = [&self.listen].into_iter().chain(self.doors.iter().map(|(_, address)| address));
        match all.into_iter().find(reachable) {
            Some(address) if self.token.is_none() => return Err(Error::NoToken { address: *address }),
            _ => {}
        }
        Ok(())
    }

    /// Refuses names in `open` that no interface has.
    pub fn check_open(&self) -> Result<(), Error> {
        match self.open.iter().find(|name| !OPEN_INTERFACES.contains(&name.as_str())) {
            Some(got) => Err(Error::UnknownInterface { got: got.clone(), known: &OPEN_INTERFACES }),
            None => Ok(()),
        }
    }
}

/// The bounds of the server. The defaults are what `metier up` uses; tests shorten the times.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Connections at once; further ones wait in the kernel's queue. HTTP/1.1 has one request at a
    /// time on a connection, so this bounds requests too.
    pub connections: usize,
    /// Store calls at once.
    pub store_calls: usize,
    /// Requests that start or end runs: this many at once, and a fifth of that per second.
    pub starts: u32,
    pub body_bytes: u64,
    /// Largest upload of a graph.
    pub upload_bytes: u64,
    /// Time from a connection's readiness to the end of a request's head; also the idle time of a
    /// kept connection.
    pub header_time: Duration,
    /// Time from a request's head to its response.
    pub request_time: Duration,
    /// The same for the upload of a graph.
    pub upload_time: Duration,
    /// Additional time for a request that places a graph in a cluster.
    pub place_time: Duration,
    /// How long a client may leave a response unread before the connection is dropped.
    pub write_time: Duration,
    /// How long running requests may take after the server's stop was requested.
    pub drain_time: Duration,
    /// JSON of at least this size is compressed for clients on other machines that accept it. On
    /// loopback, compression would only take CPU time from the measured program.
    pub compress_from_bytes: usize,
    /// Compress for clients on this machine too.
    pub compress_on_loopback: bool,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            store_calls: 4,
            starts: 100,
            body_bytes: 1 << 20,
            upload_bytes: 256 << 20,
            header_time: Duration::from_secs(10),
            request_time: Duration::from_secs(10),
            upload_time: Duration::from_secs(60),
            // Connecting to the cluster, surveying it and writing to it have 30 s each; the wait
            // for availability has at most 60 s.
            place_time: Duration::from_secs(160),
            write_time: Duration::from_secs(30),
            drain_time: Duration::from_secs(5),
            compress_from_bytes: 32 << 10,
            compress_on_loopback: false,
        }
    }
}

impl HttpLimits {
    /// Largest body of a request to a path.
    pub fn max_body_bytes(&self, path: &str) -> u64 {
        if UPLOAD_PATHS.contains(&path) { self.upload_bytes } else { self.body_bytes }
    }

    /// Time limit of a request to a path, without a placement.
    pub fn max_request_time(&self, path: &str) -> Duration {
        if UPLOAD_PATHS.contains(&path) { self.upload_time } else { self.request_time }
    }

    /// Time limit of any request to a path.
    pub fn max_total_time(&self, path: &str) -> Duration {
        self.max_request_time(path)
            + if PLACEMENT_PATHS.contains(&path) { self.place_time } else { Duration::ZERO }
    }
}

/// Paths of graph uploads.
const UPLOAD_PATHS: [&str; 2] = ["/upload", "/api/v1/graphs"];
/// Paths that can place graphs.
const PLACEMENT_PATHS: [&str; 2] = ["/upload", "/api/profiling"];

/// The access token. Only its digest is stored, and it is never printed.
#[derive(Clone)]
pub struct AccessToken([u8; 32]);

impl AccessToken {
    pub const MIN_LENGTH: usize = 16;
    /// Most characters; longer tokens do not fit a header well.
    pub const MAX_LENGTH: usize = 512;

    /// Checks that a token can be sent in a header and is not easily guessed.
    pub fn new(token: &str) -> Result<Self, Error> {
        let weak = |why: String| {
            Err(Error::WeakToken { why, shortest: Self::MIN_LENGTH, longest: Self::MAX_LENGTH })
        };
        match token.len() {
            0 => return weak("is empty".to_string()),
            n if n < Self::MIN_LENGTH => return weak(format!("has only {n} characters")),
            n if n > Self::MAX_LENGTH => return weak(format!("has {n} characters")),
            _ => {}
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return weak("has characters that a header cannot carry".to_string());
        }
        Ok(Self(Sha256::digest(token.as_bytes()).into()))
    }

    /// Compares in a time that does not depend on the number of matching bytes.
    pub fn matches(&self, shown: &[u8]) -> bool {
        let shown: [u8; 32] = Sha256::digest(shown).into();
        self.0.ct_eq(&shown).into()
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(listen: &str) -> HttpConfig {
        HttpConfig { listen: listen.parse().unwrap(), ..HttpConfig::default() }
    }

    #[test]
    fn only_loopback_may_go_without_a_token() {
        for loopback in ["127.0.0.1:7001", "127.9.9.9:1", "[::1]:7001", "[::ffff:127.0.0.1]:7001"] {
            at(loopback).check().unwrap();
        }
        for reachable in ["0.0.0.0:7001", "[::]:7001", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
            let error = at(reachable).check().unwrap_err().to_string();
            assert!(error.contains("without a token") && error.contains("METIER_TOKEN"), "{error}");
            let token = Some(AccessToken::new("0123456789abcdef").unwrap());
            HttpConfig { token, ..at(reachable) }.check().unwrap();
        }
    }

    #[test]
    fn a_weak_token_is_refused_and_none_is_printed() {
        for weak in ["", "short", "has spaces in the middle", "ümlautümlautümlaut", &"x".repeat(513)] {
            assert!(AccessToken::new(weak).is_err(), "{weak}");
        }
        let secret = AccessToken::new("correct-horse-battery").unwrap();
        assert!(!format!("{secret:?}").contains("horse"));
        assert!(secret.matches(b"correct-horse-battery"));
        assert!(!secret.matches(b"correct-horse-batterx"));
        assert!(!secret.matches(b""));
    }

    #[test]
    fn an_unknown_door_is_refused_by_name() {
        let config = HttpConfig { open: vec!["metric".into()], ..HttpConfig::default() };
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains("\"metric\"") && error.contains("metrics, page"), "{error}");
    }
}
