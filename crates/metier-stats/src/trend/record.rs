//! The record of histories, `metier.trend/1`.

use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{
    BatchId, ColumnUnit, DeviceRef, ExtraFields, Ratio, RunId, RunWarning, UtcTimestamp, WorkloadRef,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::LinearDrift;
use crate::comparison::LevelSummary;

/// One run of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrendPoint {
    /// The run.
    pub run: RunId,
    /// Batch of the run: the repetitions of one command.
    pub batch: BatchId,
    /// Start time.
    pub started: UtcTimestamp,
    /// Value of the run, in the unit of the report.
    pub value: f64,
}

/// Conclusion about a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrendState {
    /// With so few runs no change could be significant.
    TooFewRuns,
    /// These runs show no significant change; this does not prove that there was none.
    NoChangeShown,
    /// The level changed.
    Changed,
    /// The level drifts steadily.
    Drifts,
}

/// A circumstance that differs after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeSuspect {
    /// Stable code: `executable-differs`, `kernel-differs`, …
    pub code: String,
    /// Description of the circumstance.
    pub what: String,
    /// Value in the last run before the change.
    pub before: String,
    /// Value in the first run after the change.
    pub after: String,
    /// Whether all runs of the segment before have one value and all runs of the segment after the
    /// other.
    pub is_clean: bool,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelChange {
    /// Index of its first run in `points`.
    pub at: usize,
    /// Its first run.
    pub run: RunId,
    /// Start time of that run.
    pub started: UtcTimestamp,
    /// Level of the segment before it.
    pub before: LevelSummary,
    /// Level of the segment after it, up to the next change.
    pub after: LevelSummary,
    /// Median after divided by median before, minus 1; `null` if the level before is 0.
    pub change_ratio: Option<Ratio>,
    /// Lower end of the change's interval.
    pub low: Option<Ratio>,
    /// Upper end of that interval.
    pub high: Option<Ratio>,
    /// Nominal coverage of that interval, if the position of the change is right.
    pub coverage: Option<Ratio>,
    /// Probability of a change this clear between its neighbours without a cause.
    pub p_value: Ratio,
    /// Circumstances that differ there, the clearest first.
    #[serde(default)]
    pub suspects: Vec<ChangeSuspect>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The history of one workload on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadTrend {
    /// The workload.
    pub workload: WorkloadRef,
    /// The device.
    pub device: DeviceRef,
    /// The conclusion.
    pub state: TrendState,
    /// The runs, in time order.
    pub points: Vec<TrendPoint>,
    /// The level since the last change.
    pub level: LevelSummary,
    /// Changes of level, in time order.
    pub changes: Vec<LevelChange>,
    /// The drift, if there is one.
    pub drift: Option<LinearDrift>,
    /// Number of warm-up, failed and unfinished runs.
    pub left_out: usize,
    /// Number of runs without the value.
    pub without_value: usize,
    /// Number of older runs that were not used.
    pub older: u64,
    /// Why there is no conclusion, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Warnings about its reliability.
    #[serde(default)]
    pub warnings: Vec<RunWarning>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Histories of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrendReport {
    /// `metier.trend/1`.
    pub schema: RecordSchema<TrendReport>,
    /// The metric: `wall`, `cpu`, … or `stage:NAME:p95`.
    pub metric: String,
    /// Unit of the metric.
    pub unit: ColumnUnit,
    /// Probability of any false alarm in a history without change.
    pub significance: Ratio,
    /// Minimum size of a reported change.
    pub at_least: Ratio,
    /// The histories, by workload and device.
    pub trends: Vec<WorkloadTrend>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for TrendReport {
    const SCHEMA: &'static str = "metier.trend/1";
}

impl WorkloadTrend {
    /// Regressions among the latest `recent` runs, and whether there is a drift for the worse.
    pub fn find_regressions(&self, recent: usize, is_cost: bool) -> (Vec<&LevelChange>, bool) {
        let from = self.points.len().saturating_sub(recent);
        let is_worse = |change: Option<Ratio>| match change {
            Some(change) => (change.get() > 0.0) == is_cost,
            // From 0 to a positive value.
            None => is_cost,
        };
        let worse = self.changes.iter().filter(|it| it.at >= from && is_worse(it.change_ratio)).collect();
        (worse, self.drift.as_ref().is_some_and(|drift| is_worse(Some(drift.change_ratio))))
    }
}
