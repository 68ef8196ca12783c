//! The record of a report, `metier.report/1`.

use metier_stats::{BatchSpread, Comparison};
use metier_types::schema::{Schema, Versioned};
use metier_types::{Extra, RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Advice;

/// A subject of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectRecord {
    /// Display name.
    pub label: String,
    /// Its runs.
    pub runs: Vec<RunId>,
    /// The representative run for charts and tables.
    pub shown: RunId,
    /// Verdict of that run, in one sentence.
    pub verdict: String,
    /// Statistics of its runs.
    pub spread: BatchSpread,
    /// Recommended requests and limits.
    pub advice: Advice,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportRecord {
    /// `metier.report/1`.
    pub schema: Schema<ReportRecord>,
    /// Time of creation.
    pub made: Timestamp,
    /// Program and version that made it.
    pub made_by: String,
    /// The subjects.
    pub subjects: Vec<SubjectRecord>,
    /// Comparisons of the first subject with each of the others.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Why some subjects could not be compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for ReportRecord {
    const SCHEMA: &'static str = "metier.report/1";
}
