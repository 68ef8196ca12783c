//! State of the HTTP layer.

use std::net::SocketAddr;
use std::sync::Arc;

use super::blocking_lanes::BlockingLanes;
use super::config::HttpConfig;
use super::host_names::HostNames;
use super::rate_limiter::RateLimiter;
use super::request_metrics::RequestMetrics;
use super::server_bounds::ServerBounds;

/// State of the HTTP layer that all requests of a server share.
pub struct HttpState {
    pub config: HttpConfig,
    /// The names by which requests may address it.
    pub hosts: HostNames,
    pub bounds: Arc<ServerBounds>,
    pub lanes: BlockingLanes,
    pub requests: RequestMetrics,
    /// Rate limit for starting runs.
    pub starts: RateLimiter,
}

impl HttpState {
    pub fn new(config: HttpConfig, listen: SocketAddr) -> Self {
        let starts = f64::from(config.limits.starts);
        Self {
            hosts: HostNames::discover(&config, listen),
            bounds: config.bounds.clone().unwrap_or_else(|| ServerBounds::new(&config.limits)),
            lanes: BlockingLanes::new(config.limits.store_calls),
            requests: RequestMetrics::default(),
            starts: RateLimiter::new(starts, starts / 5.0),
            config,
        }
    }
}

/// The state that a server passes to its handlers.
pub trait ServerState: Send + Sync + 'static {
    fn http(&self) -> &Arc<HttpState>;
}
