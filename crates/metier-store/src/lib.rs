//! The store of measured runs, with their series and artefacts, devices and workloads.
//!
//! There is one interface over two engines: an SQLite file (the default, no setup) and a PostgreSQL
//! database (shared between machines). [`RecordStore`] can be cloned cheaply and used from any
//! thread.
//!
//! Invariants:
//! - A record is its JSON text plus the columns it is searched by. The JSON is authoritative. The
//!   columns are written in the same transaction and never read back into a record.
//! - Every call takes effect as a whole or not at all, also after `kill -9`.
//! - A store of a later version, a foreign database or a damaged file is left unchanged. The error
//!   says what to do.
//! - A series is never stored as one database row per sample; see [`codec`].
//!
//! Limits: series of up to 2³² - 1 rows, artefacts of up to 4 GiB, pages of up to 1000 runs.
//!
//! This crate is synchronous on purpose: the measuring path has no async runtime. A server calls it
//! from a blocking thread.

pub mod archive;
pub mod atomic_file;
pub mod codec;
pub mod digest;
mod engine;
mod error;
mod health;
mod location;
mod owner_process;
mod run_filter;
mod run_sink;
mod series_merger;
mod series_writer;
mod spool;
mod store;

pub use error::Error;
pub use health::StoreHealth;
pub use location::StoreLocation;
pub use owner_process::OwnerProcess;
pub use run_filter::RunFilter;
pub use run_sink::{RunSink, SpoolNotice};
pub use series_writer::{SeriesWriter, WriterReport};
pub use spool::{RunSpool, SpoolDelivery};
pub use store::{
    CancelOutcome, ClaimedSession, NewSession, RecordStore, SessionEnd, SessionFilter, StoreCheckReport,
    StoreFinding, StoredTrial,
};
