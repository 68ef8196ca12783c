//! The SOPRANO profiler's interface: `POST /api/profiling` and `POST /upload`, as its clients know
//! them.
//!
//! It translates. What is asked is checked in [`request`]; nodes and predictors are kept in
//! [`crate::placement_cache`] and ranked by [`metier_place`]; [`candidate`] and [`reply`] write the
//! ranking with the original's names. [`columns`] reads the original's predictor files. Only what
//! is to be placed ([`placed`]) goes to a cluster, in a lane of its own.

mod candidate;
mod columns;
mod deployment;
mod placed;
mod profiling;
mod reply;
mod request;
mod upload;

pub use columns::PredictorColumns;
pub use profiling::profiling;
pub use reply::Profiling;
pub use request::Asked;
pub use upload::{Upload, upload};
