//! The record of a report, `metier.report/1`.

use metier_stats::{BatchSpread, ResourceAdvice, RunComparison};
use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{ExtraFields, RunId, UtcTimestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    pub advice: ResourceAdvice,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportRecord {
    /// `metier.report/1`.
    pub schema: RecordSchema<ReportRecord>,
    /// Time of creation.
    pub made: UtcTimestamp,
    /// Program and version that made it.
    pub made_by: String,
    /// The subjects.
    pub subjects: Vec<SubjectRecord>,
    /// Comparisons of the first subject with each of the others.
    #[serde(default)]
    pub comparisons: Vec<RunComparison>,
    /// Why some subjects could not be compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for ReportRecord {
    const SCHEMA: &'static str = "metier.report/1";
}
