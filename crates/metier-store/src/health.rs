//! Health of a store, for readiness checks and `metier doctor`.

use metier_types::Bytes;
use serde::Serialize;

/// Result of a health check. A store that cannot be used at all gives an error instead.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreHealth {
    /// `sqlite` or `postgresql`.
    pub engine: &'static str,
    /// Version of the engine.
    pub engine_version: String,
    /// Location of the store, without the password.
    pub location: String,
    /// Version of the store's schema.
    pub schema_version: i64,
    /// Disk space in use.
    pub size_bytes: Bytes,
    pub runs: u64,
    /// Whether the store was opened for reading only.
    pub read_only: bool,
    /// Problems found by the integrity check; empty if there are none.
    pub problems: Vec<String>,
}
