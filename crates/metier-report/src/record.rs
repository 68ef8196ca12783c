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
    /// What people call it.
    pub label: String,
    /// Its runs.
    pub runs: Vec<RunId>,
    /// The run that stands for it in charts and tables.
    pub shown: RunId,
    /// How that one went, in one sentence.
    pub verdict: String,
    /// What its runs say together.
    pub spread: BatchSpread,
    /// What to ask a scheduler for.
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
    /// When it was made.
    pub made: Timestamp,
    /// Program and version that made it.
    pub made_by: String,
    /// What it is about.
    pub subjects: Vec<SubjectRecord>,
    /// The first subject with each of the others.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Why some could not be compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for ReportRecord {
    const SCHEMA: &'static str = "metier.report/1";
}
