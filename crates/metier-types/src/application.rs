//! What an application said of itself during a run: durations of its stages, rates, numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Joules, Seconds};

/// What the values of a stage are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StageKind {
    /// How long one item took, in seconds.
    Duration,
    /// Items per second, as the application computed it.
    Rate,
    /// Any other number.
    Value,
    /// A number that only grows; `count` and the rate come from its growth.
    Counter,
}

/// How an application's values reached us.
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

/// One stage of an application, over a whole run. Numbers are in seconds where the kind is `duration`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// What the application calls it.
    pub name: String,
    /// Labels that the application gave, as `key="value",…`; empty where it gave none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// What its values are.
    pub kind: StageKind,
    /// How they reached us.
    pub source: StageSource,
    /// How many values, or by how much a counter grew.
    pub count: u64,
    /// What came after the first value, over the time between the first and the last, where there are two.
    pub rate_per_second: Option<f64>,
    /// Their sum.
    pub sum: Option<f64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// Half of them are at most this, to within the histogram's relative error.
    pub p50: Option<f64>,
    /// 95 of 100 are at most this.
    pub p95: Option<f64>,
    /// 99 of 100 are at most this.
    pub p99: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// CPU time of the whole run over `count`.
    pub cpu_seconds_per_item: Option<Seconds>,
    /// Energy of the device during the run over `count`.
    pub joules_per_item: Option<Joules>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How listening to the application went.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Intake {
    /// Messages that were understood.
    pub messages: u64,
    /// Messages that came faster than they could be taken, and were dropped so that the application need not wait.
    pub dropped: u64,
    /// Messages that were not understood.
    pub malformed: u64,
    /// A few of those, shortened, with what would be right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Messages of stages beyond the number that is kept.
    #[serde(default)]
    pub beyond_limit: u64,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}
