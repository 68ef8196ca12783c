//! The estimator: takes features of containers, processes or a node and returns watts. It
//! implements the socket protocol of Kepler's exporter.
//!
//! [`PowerEstimator::answer`] takes the bytes of a request and always returns one JSON object: an
//! answer, or an object with empty `powers` and the reason in `msg`. The reply never has a list for
//! `powers`, a negative number or a NaN. It never exceeds the 4096 bytes of the exporter's single
//! read: numbers are shortened to fit, and requests with too many rows are refused.
//!
//! [`PowerEstimator::estimate_node`] serves metier itself: a node's power with its interval and
//! idle part.

mod engine;
mod node;
mod reply;
mod request;

pub use engine::{PowerEstimator, PredictorInUse};
pub use node::NodePowerEstimate;
pub use reply::EXPORTER_READ_BYTES;
pub use request::{EstimateRequest, is_whole};
