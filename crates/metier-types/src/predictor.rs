//! Anything learned: what it predicts, what it learned from, and how far it is off.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Schema, Versioned};
use crate::{DeviceRef, Digest, Extra, Ratio, RunId, Timestamp};

/// Whether a predictor is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Standing {
    /// It answers for what it was learned for.
    InUse,
    /// Another one has a lower held-out error; kept to go back to.
    Passed,
}

/// How far off it is, on data that it has not seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldOut {
    /// What is predicted, for example `latency` or `package`.
    pub target: String,
    /// Of what unit.
    pub unit: String,
    /// What was held out: `rows`, `graphs`, `devices`, `phases` …
    pub held_out: String,
    /// How many held-out rows.
    pub rows: u64,
    /// In how many groups (graphs, devices, phases).
    pub groups: u64,
    /// Mean absolute error, in the unit.
    pub mean_absolute_error: f64,
    /// Mean absolute error over the measured value, of the rows above a floor.
    pub mean_absolute_error_ratio: Option<Ratio>,
    /// Share of rows that are at most a tenth off.
    pub within_10_percent: Option<Ratio>,
    /// Share of rows that are at most a fifth off.
    pub within_20_percent: Option<Ratio>,
    /// Coverage that the intervals plan.
    pub planned_coverage: Option<Ratio>,
    /// Coverage that they had.
    pub coverage: Option<Ratio>,
    /// Error of the trivial answers on the same rows, by name: `mean`, `multiply-adds × constant` …
    #[serde(default)]
    pub baselines: std::collections::BTreeMap<String, f64>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What is known of a predictor beside its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Predictor {
    /// `metier.predictor/1`.
    pub schema: Schema<Predictor>,
    /// SHA-256 of its file.
    pub id: Digest,
    /// What it predicts: `latency`, `latency-from-counts`, `power`, `contention`.
    pub kind: String,
    /// What people call it.
    pub name: String,
    /// The device it was learned on, where it was one.
    pub device: Option<DeviceRef>,
    /// Whether it is asked.
    pub standing: Standing,
    /// When it was made.
    pub made: Timestamp,
    /// In a sentence: from what it was learned and how.
    pub provenance: String,
    /// Rows that it was learned from.
    pub rows: u64,
    /// Runs among them, newest first, at most 1000.
    #[serde(default)]
    pub runs: Vec<RunId>,
    /// How far off it is, worst first.
    #[serde(default)]
    pub held_out: Vec<HeldOut>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Predictor {
    const SCHEMA: &'static str = "metier.predictor/1";
}
