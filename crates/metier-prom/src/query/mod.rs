//! A client of the Prometheus HTTP API, also for compatible servers (Thanos, Mimir,
//! VictoriaMetrics).
//!
//! An [`Endpoint`] holds address, credentials and limits; a [`Client`] sends queries. An [`Answer`]
//! is the typed response together with its raw bytes. The implementation is asynchronous;
//! [`Blocking`] wraps it for callers without a runtime.
//!
//! - A query takes at most [`Bounds::time`], including retries and delays. Temporary errors
//!   (connection refused, 5xx, 429) are retried with growing delays. Permanent ones (a wrong
//!   expression, a wrong token, a server that hangs) are not.
//! - Response bodies are bounded while they are read, whatever their header states. Redirects are
//!   not followed, so that a token goes only to its own server.
//! - An error names the address without secrets, the query, and the response.
//! - An instant result has the requested time as timestamp, not that of the samples;
//!   `timestamp(series)` gives the age of a value. A series whose target is gone is absent from the
//!   result (Prometheus never returns its stale marker).

mod answer;
mod blocking;
mod client;
mod endpoint;
mod error;
mod series_reader;

pub use answer::{Answer, Metric, Point, Reading, Series, Values};
pub use blocking::Blocking;
pub use client::{Client, Range};
pub use endpoint::{Bounds, Credentials, Endpoint};
pub use error::{Error, Trouble};
pub use series_reader::{AllLabels, JsonSample, LabelFilter, SeriesLimits, read_series_by_name};
