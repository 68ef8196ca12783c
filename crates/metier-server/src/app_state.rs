//! The state that all handlers share.

use std::sync::Arc;
use std::time::SystemTime;

use crate::config::Config;
use crate::http::{HttpState, ServerState};
use crate::placement_cache::PlacementCache;
use crate::power::PowerSampler;
use crate::storage::StoreHandle;

/// What all requests share.
pub struct AppState {
    /// What the server was told.
    pub config: Config,
    pub http: Arc<HttpState>,
    pub storage: Arc<StoreHandle>,
    /// Nodes and predictors for the SOPRANO profiler's interface.
    pub soprano: Arc<PlacementCache>,
    /// The sampler of this node's power.
    pub power: Option<PowerSampler>,
    pub started: SystemTime,
}

/// What all requests share.
pub type SharedAppState = Arc<AppState>;

impl ServerState for AppState {
    fn http(&self) -> &Arc<HttpState> {
        &self.http
    }
}
