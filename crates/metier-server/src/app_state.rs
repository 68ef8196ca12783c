//! State that all handlers share.

use std::sync::Arc;
use std::time::SystemTime;

use metier_stats::ChangeMemo;

use crate::config::Config;
use crate::http::{HttpState, ServerState};
use crate::placement_cache::PlacementCache;
use crate::power::PowerSampler;
use crate::storage::StoreHandle;

/// State that all requests share.
pub struct AppState {
    /// The configuration of the server.
    pub config: Config,
    pub http: Arc<HttpState>,
    pub storage: Arc<StoreHandle>,
    /// Nodes and predictors for the SOPRANO profiler's interface.
    pub soprano: Arc<PlacementCache>,
    /// Sampler of this node's power.
    pub power: Option<PowerSampler>,
    /// Changes of the histories that were shown last.
    pub changes: ChangeMemo,
    pub started: SystemTime,
}

/// Shared handle to the state.
pub type SharedAppState = Arc<AppState>;

impl ServerState for AppState {
    fn http(&self) -> &Arc<HttpState> {
        &self.http
    }
}
