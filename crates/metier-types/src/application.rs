//! Values that an application reported during a run: durations of its stages, rates, numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ExtraFields, Joules, Seconds};

/// Meaning of a stage's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StageKind {
    /// Duration of one item in seconds.
    Duration,
    /// Items per second, as computed by the application.
    Rate,
    /// Any other number.
    Value,
    /// A number that only grows; `count` and the rate are its growth.
    Counter,
}

/// Channel through which an application's values arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StageSource {
    /// The Waggle live socket.
    Socket,
    /// pywaggle's log folder.
    Pywaggle,
    /// The line protocol on a file descriptor.
    Lines,
    /// The application's own `/metrics` page.
    Scrape,
}

/// One stage of an application over a whole run. Numbers are in seconds if the kind is `duration`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppStage {
    /// Name of the stage, given by the application.
    pub name: String,
    /// Labels given by the application, as `key="value",…`; empty without labels.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// Meaning of its values.
    pub kind: StageKind,
    /// Channel through which they arrived.
    pub source: StageSource,
    /// Number of values, or growth of a counter.
    pub count: u64,
    /// Values per second: all after the first, over the time from the first to the last; `null`
    /// below two values.
    pub rate_per_second: Option<f64>,
    /// Sum of the values.
    pub sum: Option<f64>,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Smallest value.
    pub min: Option<f64>,
    /// Median, to within the histogram's relative error.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// CPU time of the run between the first item and the last, divided by their number; `null` if
    /// another stage has items too.
    pub cpu_seconds_per_item: Option<Seconds>,
    /// Energy of the device during the run divided by `count`; `null` if another stage has items
    /// too.
    pub joules_per_item: Option<Joules>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Counts of received application messages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct IntakeSummary {
    /// Messages that were parsed.
    pub messages: u64,
    /// Messages dropped because they arrived too fast; the application is never blocked.
    pub dropped: u64,
    /// Messages that could not be parsed.
    pub malformed: u64,
    /// A few of the malformed messages, shortened, with the expected form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Messages of stages beyond the maximum number of stages.
    #[serde(default)]
    pub beyond_limit: u64,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}
