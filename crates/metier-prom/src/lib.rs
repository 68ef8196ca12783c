//! Prometheus: the text formats, read and written; and [`query`], which asks one.
//!
//! Two formats exist, 0.0.4 ("text") and OpenMetrics 1.0; [`Format`] names them, [`Page`] writes either and [`read`]
//! reads either. A page is families, each with a name, a [`Kind`] and a help text, each with samples.
//!
//! - What [`Page`] writes, [`read`] reads back equal (`tests/roundtrip.rs`), whatever bytes label values hold.
//! - Writing a sample allocates nothing: everything goes into one text that can be used again for the next page.
//! - Reading never panics and is bounded ([`Limits`]); an error names line and column.
//! - Both sides bound what they hold: a page has a limit of samples per family and counts what it left out.
//!
//! Only [`query`] does input and output, and only to the address that it is given. No other room is used than the types.

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
