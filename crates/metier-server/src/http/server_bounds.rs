//! Bounds that all listeners of a process share: places of connections, and memory of bodies.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use super::body_budget::BodyBudget;
use super::config::HttpLimits;
use super::connection_places::ConnectionPlaces;

/// Of this many file descriptors one may be a connection: the store, its journal, sessions and
/// connections that are just being closed need the others.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;
/// Memory of a closed connection that goes back to the allocator, roughly.
const CONNECTION_BYTES: usize = 16 << 10;
/// Freed memory from which on the allocator returns it to the kernel.
const TRIM_FROM_BYTES: usize = 4 << 20;

/// Bounds that all listeners of a process share.
#[derive(Debug)]
pub struct ServerBounds {
    pub places: Arc<ConnectionPlaces>,
    pub bodies: Arc<BodyBudget>,
}

impl ServerBounds {
    /// The bounds of these limits, and of this process' limit of open files. That limit is not
    /// raised: measured commands would inherit it.
    pub fn new(limits: &HttpLimits) -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / DESCRIPTORS_PER_CONNECTION;
        let connections = limits.connections.min(usize::try_from(files).unwrap_or(usize::MAX));
        Arc::new(Self {
            places: Arc::new(ConnectionPlaces::new(connections)),
            bodies: Arc::new(BodyBudget::new(limits.bodies_bytes)),
        })
    }

    /// Whether enough memory was freed since the last call that it should go back to the kernel.
    pub fn should_trim(&self) -> bool {
        self.bodies.released_at_least(TRIM_FROM_BYTES)
    }

    /// Counts the memory of a closed connection.
    pub fn note_closed(&self) {
        self.bodies.note_released(CONNECTION_BYTES);
    }
}
