//! The SOPRANO profiler's interface: `POST /api/profiling` and `POST /upload`, as its clients know
//! them.
//!
//! It translates. What is asked is checked in [`train_request`]; nodes and predictors are kept in
//! [`crate::placement_cache`] and ranked by [`metier_place`]; [`candidate`] and [`route_request`] write the
//! ranking with the original's names. [`predictor_columns`] reads the original's predictor files. Only what
//! is to be placed ([`rank_and_place`]) goes to a cluster, in a lane of its own.

mod candidate;
mod deployment;
mod placement_plan;
mod predictor_columns;
mod profiling;
mod request;
mod response;
mod upload;

pub use predictor_columns::PredictorColumns;
pub use profiling::handle_profiling;
pub use request::ProfilingRequest;
pub use response::ProfilingResponse;
pub use upload::{GraphUploadRequest, handle_upload};
