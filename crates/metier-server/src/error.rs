//! Why the server could not start or go on. A failure within a request is a
//! [`ProblemDetails`](crate::ProblemDetails) to its client instead.

use std::net::SocketAddr;

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another program has the port.
    #[error(
        "cannot listen on {address}: the port is taken, perhaps by another metier; stop that, or choose another with --listen {}:PORT (port 0 picks a free one)",
        host_text(.address)
    )]
    AddressInUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// A port that needs a privilege.
    #[error(
        "cannot listen on {address}: ports below 1024 need a privilege; choose a higher one with --listen {}:7001",
        host_text(.address)
    )]
    Privileged {
        /// The requested address.
        address: SocketAddr,
    },
    /// Any other failure to listen.
    #[error(
        "cannot listen on {address}: {source}; name an address of this machine with --listen ADDRESS:PORT"
    )]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A certificate or key that cannot be used.
    #[error(
        "the TLS file {path} cannot be used: {why}; name PEM files with --tls-cert FILE and --tls-key FILE"
    )]
    TlsFile {
        /// The certificate or the key.
        path: std::path::PathBuf,
        /// Why not.
        why: String,
    },
    /// A reachable address without a token.
    #[error(
        "refusing to listen on {address} without a token: every client could read every run; set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    NoToken {
        /// The requested address.
        address: SocketAddr,
    },
    /// An agent at a reachable address without a token and not opened.
    #[error(
        "refusing to listen on {address}: every client could see the programs of this node; use --open metrics, set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedMetrics {
        /// The requested address.
        address: SocketAddr,
    },
    /// A model server at a reachable address without a token and not opened.
    #[error(
        "refusing to listen on {address}: every client could fetch predictors; use --open models, set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedModels {
        /// The requested address.
        address: SocketAddr,
    },
    /// Metrics of an estimator at a reachable address, not opened.
    #[error(
        "refusing to serve metrics at {address} without --open metrics: every client could read them; open them, or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedEstimatorMetrics {
        /// The requested address.
        address: SocketAddr,
    },
    /// A trainer at a reachable address without a token.
    #[error(
        "refusing to train at {address} without a token: every client could start trainings; set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedTrainer {
        /// The requested address.
        address: SocketAddr,
    },
    /// A unix socket that cannot be opened.
    #[error("cannot listen on {}: {why}", path.display())]
    Socket { path: std::path::PathBuf, why: String },
    /// The device has no identity, and none can be stored.
    #[error("cannot tell which device this is: {reason}")]
    Device { reason: String },
    /// A token that is easily guessed, or cannot be sent.
    #[error(
        "the token {why}; want {} to {} printable ASCII characters without spaces, for example from `openssl rand -hex 32`",
        .shortest,
        .longest
    )]
    WeakToken {
        /// The fault of the token.
        why: String,
        shortest: usize,
        longest: usize,
    },
    /// An unknown name of an interface.
    #[error("cannot open {got:?}: no such interface; want one of {}", .known.join(", "))]
    UnknownInterface { got: String, known: &'static [&'static str] },
    /// An invalid job.
    #[error(
        "{got:?} is not a job; want NAME or NAME=DEVICE with 1 to 100 letters, digits, '-', '_' or '.' in its name"
    )]
    BadJob { got: String },
    /// A Prometheus that cannot be queried.
    #[error("{reason}")]
    Prometheus { reason: String },
    /// The runtime could not be built.
    #[error("cannot start the server's threads: {source}; a limit on processes or open files may be reached")]
    Runtime {
        /// The error of the system.
        source: std::io::Error,
    },
    /// The handlers of INT and TERM could not be installed.
    #[error("cannot watch for INT and TERM: {source}")]
    Signals {
        /// The error of the system.
        source: std::io::Error,
    },
}

fn host_text(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }
}
