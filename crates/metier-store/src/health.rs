//! Whether a store can be used, for readiness checks and `metier doctor`.

use metier_types::Bytes;
use serde::Serialize;

/// What a check of a store found. A store that cannot be used at all gives an error instead.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// `sqlite` or `postgresql`.
    pub engine: &'static str,
    /// Version of the engine.
    pub engine_version: String,
    /// Where it is, without the password.
    pub location: String,
    /// Version of the store's schema.
    pub schema_version: i64,
    /// Space that it takes.
    pub size_bytes: Bytes,
    pub runs: u64,
    /// Whether it can only be read.
    pub read_only: bool,
    /// What the integrity check found wrong; empty is good.
    pub problems: Vec<String>,
}
