//! A client of the Prometheus HTTP API, also for compatible servers (Thanos, Mimir,
//! VictoriaMetrics).
//!
//! A [`PromEndpoint`] holds address, credentials and limits; a [`PromClient`] sends queries. A
//! [`QueryResponse`] is the typed response together with its raw bytes. The implementation is
//! asynchronous; [`BlockingClient`] wraps it for callers without a runtime.
//!
//! - A query takes at most [`QueryLimits::time`], including retries and delays. Temporary errors
//!   (connection refused, 5xx, 429) are retried with growing delays. Permanent ones (a wrong
//!   expression, a wrong token, a server that hangs) are not.
//! - Response bodies are bounded while they are read, whatever their header states. Redirects are
//!   not followed, so that a token goes only to its own server.
//! - An error names the address without secrets, the query, and the response.
//! - An instant result has the requested time as timestamp, not that of the samples;
//!   `timestamp(series)` gives the age of a value. A series whose target is gone is absent from the
//!   result (Prometheus never returns its stale marker).

mod blocking_client;
mod client;
mod endpoint;
mod error;
mod response;
mod series_reader;

pub use blocking_client::BlockingClient;
pub use client::{PromClient, QueryRange};
pub use endpoint::{PromCredentials, PromEndpoint, QueryLimits};
pub use error::{QueryError, QueryFailure};
pub use response::{InstantSample, MetricLabels, QueryResponse, QueryValues, RangeSeries, SeriesPoint};
pub use series_reader::{AllLabels, JsonSample, LabelFilter, SeriesLimits, read_series_by_name};
