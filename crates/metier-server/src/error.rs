//! Why the server could not start or go on. What goes wrong within a request is a
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
        /// What was asked for.
        address: SocketAddr,
    },
    /// A port that this user may not have.
    #[error(
        "cannot listen on {address}: ports below 1024 need a privilege; choose a higher one with --listen {}:7001",
        host_text(.address)
    )]
    Privileged {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Any other failure to listen.
    #[error(
        "cannot listen on {address}: {source}; name an address of this machine with --listen ADDRESS:PORT"
    )]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A reachable address without a token.
    #[error(
        "refusing to listen on {address} without a token: anyone who reaches it could read every run; set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    NoToken {
        /// What was asked for.
        address: SocketAddr,
    },
    /// An agent at a reachable address that nobody opened.
    #[error(
        "refusing to listen on {address}: anyone who reaches it could see what runs here; say --open metrics, set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedMetrics {
        /// What was asked for.
        address: SocketAddr,
    },
    /// A model server at a reachable address that nobody opened.
    #[error(
        "refusing to listen on {address}: anyone who reaches it could ask for predictors; say --open models, set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedModels {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Metrics of an estimator at a reachable address that nobody opened.
    #[error(
        "refusing to show metrics to whoever reaches {address}: open them by name (--open metrics), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedEstimatorMetrics {
        /// What was asked for.
        address: SocketAddr,
    },
    /// A trainer at a reachable address without a token.
    #[error(
        "refusing to train for whoever reaches {address}: set a token (METIER_TOKEN or --token-file FILE), or listen on 127.0.0.1:{}",
        .address.port()
    )]
    ClosedTrainer {
        /// What was asked for.
        address: SocketAddr,
    },
    /// A unix socket that cannot be opened.
    #[error("cannot listen on {}: {why}", path.display())]
    Socket { path: std::path::PathBuf, why: String },
    /// The device has no identity and none can be kept.
    #[error("cannot tell which device this is: {reason}")]
    Device { reason: String },
    /// A token that could be guessed or not be sent.
    #[error(
        "the token {why}; want {} to {} printable ASCII characters without spaces, for example from `openssl rand -hex 32`",
        .shortest,
        .longest
    )]
    WeakToken {
        /// What is wrong with it.
        why: String,
        shortest: usize,
        longest: usize,
    },
    /// A word that names nothing that can be opened.
    #[error("cannot open {got:?}: no such door; want one of {}", .known.join(", "))]
    UnknownInterface { got: String, known: &'static [&'static str] },
    /// A job that cannot be one.
    #[error(
        "{got:?} is not a job; want NAME or NAME=DEVICE with 1 to 100 letters, digits, '-', '_' or '.' in its name"
    )]
    BadJob { got: String },
    /// A Prometheus that cannot be asked.
    #[error("{reason}")]
    Prometheus { reason: String },
    /// The runtime could not be built.
    #[error("cannot start the server's threads: {source}; a limit on processes or open files may be reached")]
    Runtime {
        /// What the system said.
        source: std::io::Error,
    },
    /// The signals that end the server could not be watched.
    #[error("cannot watch for INT and TERM: {source}")]
    Signals {
        /// What the system said.
        source: std::io::Error,
    },
}

fn host_text(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }
}
