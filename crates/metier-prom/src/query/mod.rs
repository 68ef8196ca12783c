//! Asking a Prometheus, or whatever speaks its HTTP API (Thanos, Mimir, VictoriaMetrics).
//!
//! An [`Endpoint`] says where it is, who we are to it and what is too much; a [`Client`] asks; an [`Answer`] is what came, typed and
//! as the bytes that came. There is one implementation, and it is asynchronous; [`Blocking`] waits for it where there is no runtime.
//!
//! - A question takes at most [`Bounds::time`], tries and pauses included. What may come right (nobody listens yet, 5xx, 429) is tried
//!   again with growing pauses; what will not (a wrong expression, a wrong token, a server that hangs) is not.
//! - Bodies are bounded while they are read, whatever their header says. Redirections are not followed: a token stays where it was meant to go.
//! - An error names the address without its secrets, what was asked, and what came.
//! - An instant answer is stamped with the time that was asked for, not with that of the samples: whoever wants to know how old a value is asks for
//!   `timestamp(series)`. A series whose target is gone is simply not in the answer (Prometheus' stale marker never leaves it).

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
