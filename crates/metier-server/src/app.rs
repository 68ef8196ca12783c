//! The state that all handlers share.

use std::sync::Arc;
use std::time::SystemTime;

use crate::config::Config;
use crate::http::{HttpState, ServerState};
use crate::placement_cache::PlacementCache;
use crate::power::Sampler;
use crate::storage::Storage;

/// What all requests share.
pub struct Server {
    /// What the server was told.
    pub config: Config,
    pub http: Arc<HttpState>,
    pub storage: Arc<Storage>,
    /// Nodes and predictors for the SOPRANO profiler's interface.
    pub soprano: Arc<PlacementCache>,
    /// The sampler of this node's power.
    pub power: Option<Sampler>,
    pub started: SystemTime,
}

/// What all requests share.
pub type App = Arc<Server>;

impl ServerState for Server {
    fn http(&self) -> &Arc<HttpState> {
        &self.http
    }
}
