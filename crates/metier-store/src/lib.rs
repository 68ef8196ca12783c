//! Where metier keeps what it measured: runs with their series and artefacts, devices and workloads.
//!
//! One interface, two engines: an SQLite file (the default; nothing to set up) and a PostgreSQL database
//! (shared between machines). [`Store`] is one value that can be cloned cheaply and used from any thread.
//!
//! Invariants:
//! - A record is its JSON text plus the columns it is searched by. The JSON is the truth; the columns are
//!   written in the same transaction and never read back into a record.
//! - Every call happened as a whole, or not at all, also after `kill -9`.
//! - A store of a later version of metier, a foreign database or a damaged file is refused with a sentence
//!   that says what to do, and left as it was.
//! - A series is never held by the database row by row; see [`codec`].
//!
//! Limits: series of up to 2³² - 1 rows, artefacts of up to 4 GiB, pages of up to 1000 runs.
//!
//! This crate is synchronous on purpose: the measuring path has no async runtime. A server calls it from a
//! blocking thread.

pub mod archive;
pub mod atomic_file;
pub mod codec;
pub mod digest;
mod engine;
mod error;
mod health;
mod location;
mod merge;
mod owner;
mod query;
mod store;
mod writer;

pub use error::Error;
pub use health::Health;
pub use location::Location;
pub use owner::Owner;
pub use query::RunFilter;
pub use store::{Cancelled, HeldSession, NewSession, SessionEnd, SessionFilter, Store, Trial};
pub use writer::{Writer, Written};
