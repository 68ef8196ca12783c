//! A trained predictor: its target, training data and held-out error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{ContentDigest, DeviceRef, ExtraFields, Ratio, RunId, UtcTimestamp};

/// Whether a predictor is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PredictorStanding {
    /// It makes the predictions for its target.
    InUse,
    /// Another predictor has a lower held-out error; this one is kept as a fallback.
    Passed,
}

/// Error of a predictor on held-out data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldOutError {
    /// Predicted quantity, for example `latency` or `package`.
    pub target: String,
    /// Unit of the quantity.
    pub unit: String,
    /// What was held out: `rows`, `graphs`, `devices`, `phases` …
    pub held_out: String,
    /// Number of held-out rows.
    pub rows: u64,
    /// Number of held-out groups (graphs, devices, phases).
    pub groups: u64,
    /// Mean absolute error, in the unit.
    pub mean_absolute_error: f64,
    /// Mean absolute error divided by the measured value, over the rows above a floor.
    pub mean_absolute_error_ratio: Option<Ratio>,
    /// Share of rows with an error of at most 10 %.
    pub within_10_percent: Option<Ratio>,
    /// Share of rows with an error of at most 20 %.
    pub within_20_percent: Option<Ratio>,
    /// Nominal coverage of the intervals.
    pub planned_coverage: Option<Ratio>,
    /// Observed coverage of the intervals.
    pub coverage: Option<Ratio>,
    /// Errors of trivial predictors on the same rows, by name: `mean`, `multiply-adds × constant` …
    #[serde(default)]
    pub baselines: std::collections::BTreeMap<String, f64>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The record of a predictor, without its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Predictor {
    /// `metier.predictor/1`.
    pub schema: RecordSchema<Predictor>,
    /// SHA-256 of its file.
    pub id: ContentDigest,
    /// Predicted quantity: `latency`, `latency-from-counts`, `power`, `contention`.
    pub kind: String,
    /// Display name.
    pub name: String,
    /// The device of its training data, if there is only one.
    pub device: Option<DeviceRef>,
    /// Whether it is in use.
    pub standing: PredictorStanding,
    /// Time of training.
    pub made: UtcTimestamp,
    /// Training data and method, in a sentence.
    pub provenance: String,
    /// Number of training rows.
    pub rows: u64,
    /// Runs in the training data, newest first; at most 1000.
    #[serde(default)]
    pub runs: Vec<RunId>,
    /// Held-out errors, worst first.
    #[serde(default)]
    pub held_out: Vec<HeldOutError>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for Predictor {
    const SCHEMA: &'static str = "metier.predictor/1";
}
