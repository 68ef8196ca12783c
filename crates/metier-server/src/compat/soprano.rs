//! The SOPRANO profiler's interface: `POST /api/profiling` and `POST /upload`.
//!
//! It only translates. [`request`] checks the request. [`crate::placement_cache`] holds nodes and
//! predictors, and [`metier_place`] ranks them. [`candidate`] and [`response`] write the ranking
//! with the original's names. [`predictor_columns`] reads the original's predictor files. Only a
//! graph to be placed ([`placement_plan`]) goes to a cluster, in a lane of its own.

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
