//! The state of the HTTP layer.

use std::net::SocketAddr;
use std::sync::Arc;

use super::blocking_lanes::BlockingLanes;
use super::config::HttpConfig;
use super::rate_limiter::RateLimiter;
use super::request_metrics::RequestMetrics;

/// What all requests of a server share below its handlers.
pub struct HttpState {
    pub config: HttpConfig,
    /// Where the server listens, with the port it got.
    pub listen: SocketAddr,
    pub lanes: BlockingLanes,
    pub requests: RequestMetrics,
    /// How often runs may be started.
    pub starts: RateLimiter,
}

impl HttpState {
    pub fn new(config: HttpConfig, listen: SocketAddr) -> Self {
        let starts = f64::from(config.limits.starts);
        Self {
            listen,
            lanes: BlockingLanes::new(config.limits.store_calls),
            requests: RequestMetrics::default(),
            starts: RateLimiter::new(starts, starts / 5.0),
            config,
        }
    }
}

/// The state that a server's handlers are given.
pub trait ServerState: Send + Sync + 'static {
    fn http(&self) -> &Arc<HttpState>;
}
