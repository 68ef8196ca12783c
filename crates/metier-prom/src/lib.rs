//! Prometheus text formats, and a client for the query API ([`query`]).
//!
//! There are two formats, 0.0.4 ("text") and OpenMetrics 1.0 ([`Format`]). [`Page`] writes either,
//! and [`read`] reads either. A page has families with a name, a [`Kind`], a help text and samples.
//!
//! - [`read`] reads back equally what [`Page`] writes (`tests/roundtrip.rs`), for any bytes in
//!   label values.
//! - Writing a sample allocates nothing: all output goes to one buffer, which the next page can
//!   reuse.
//! - Reading never panics and is bounded ([`Limits`]); an error names line and column.
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

pub use distribution::{Histogram, Summary};
pub use format::{Format, Kind};
pub use labels::{LabelSet, Labels, With};
pub use name::{is_label_name, is_metric_name, label_name, metric_name};
pub use number::Value;
pub use read::{Error, Family, Limits, Sample, Scrape, read};
pub use write::{FamilyWriter, Page};
