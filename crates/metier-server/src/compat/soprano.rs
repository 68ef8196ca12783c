//! The SOPRANO profiler's interface: `POST /api/profiling` and `POST /upload`, as its clients know them.
//!
//! It translates. What is asked is checked in [`request`], nodes, times and their order come from
//! [`crate::placement_cache`], and [`reply`] writes them with the original's names. Only what is to be placed
//! ([`placed`]) goes to a cluster, in a lane of its own.
//!
//! How it differs from the original, and why: docs/soprano.md.

mod deployment;
mod placed;
mod profiling;
mod reply;
mod request;
mod upload;

pub use profiling::profiling;
pub use reply::Profiling;
pub use request::Asked;
pub use upload::{Upload, upload};
