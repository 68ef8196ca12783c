//! The estimator: features of containers, processes or a node in, watts out, as the exporter of Kepler asks through a socket.
//!
//! [`PowerEstimator::answer`] takes the bytes of a request and always gives one JSON object: an answer, or an object with empty `powers` and the reason in
//! `msg`. What the reply never does: a list for `powers`, a negative number, a NaN, more than the exporter's one read of
//! 4096 bytes: numbers are as short as that needs, and more rows than fit are refused.
//!
//! [`PowerEstimator::estimate_node`] is the same for this program itself: a node's power with its interval and its idle part.

mod engine;
mod node;
mod reply;
mod request;

pub use engine::{PowerEstimator, PredictorInUse};
pub use node::NodePowerEstimate;
pub use reply::EXPORTER_READ_BYTES;
pub use request::{EstimateRequest, is_whole};
