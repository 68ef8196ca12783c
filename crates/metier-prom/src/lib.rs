//! Prometheus text formats, and a client for the query API ([`query`]).
//!
//! There are two formats, 0.0.4 ("text") and OpenMetrics 1.0 ([`ExpositionFormat`]).
//! [`MetricsPage`] writes either, and [`read`] reads either. A page has families with a name, a
//! [`MetricKind`], a help text and samples.
//!
//! - [`read`] reads back equally what [`MetricsPage`] writes (`tests/roundtrip.rs`), for any bytes
//!   in label values.
//! - Writing a sample allocates nothing: all output goes to one buffer, which the next page can
//!   reuse.
//! - Reading never panics and is bounded ([`ScrapeLimits`]); an error names line and column.
//! - A written page has a limit of samples per family and counts the dropped ones.
//!
//! Only [`query`] does I/O, and only to its configured address. The crate depends on `metier-types`
//! only.

mod distribution;
mod format;
mod labels;
mod name;
mod number;
pub mod query;
mod read;
mod write;

pub use distribution::{PromHistogram, PromSummary};
pub use format::{ExpositionFormat, MetricKind};
pub use labels::{JoinedLabels, LabelSet, RenderedLabels};
pub use name::{is_label_name, is_metric_name, sanitize_label_name, sanitize_metric_name};
pub use number::SampleValue;
pub use read::{MetricFamily, MetricSample, ScrapeError, ScrapeLimits, ScrapedPage, parse_page};
pub use write::{FamilyWriter, MetricsPage};
