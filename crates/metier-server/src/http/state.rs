//! The state of the HTTP layer.

use std::net::SocketAddr;
use std::sync::Arc;

use super::config::HttpConfig;
use super::lanes::BlockingLanes;
use super::metrics::Requests;
use super::rate::Rate;

/// What all requests of a server share below its handlers.
pub struct HttpState {
    pub config: HttpConfig,
    /// Where the server listens, with the port it got.
    pub listen: SocketAddr,
    pub lanes: BlockingLanes,
    pub requests: Requests,
    /// How often runs may be started.
    pub starts: Rate,
}

impl HttpState {
    pub fn new(config: HttpConfig, listen: SocketAddr) -> Self {
        let starts = f64::from(config.limits.starts);
        Self {
            listen,
            lanes: BlockingLanes::new(config.limits.store_calls),
            requests: Requests::default(),
            starts: Rate::new(starts, starts / 5.0),
            config,
        }
    }
}

/// The state that a server's handlers are given.
pub trait ServerState: Send + Sync + 'static {
    fn http(&self) -> &Arc<HttpState>;
}
