//! The record of histories, `metier.trend/1`.

use metier_types::schema::{Schema, Versioned};
use metier_types::{BatchId, DeviceRef, Extra, Ratio, RunId, Timestamp, Unit, Warning, WorkloadRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::Drift;
use crate::comparison::Level;

/// One run of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The run.
    pub run: RunId,
    /// The repetitions that it belongs to.
    pub batch: BatchId,
    /// When it started.
    pub started: Timestamp,
    /// Its value, in the unit of the histories.
    pub value: f64,
}

/// What can be said about a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrendState {
    /// So few runs that no change could be told from chance.
    TooFewRuns,
    /// These runs do not show a change; that is not proof that there was none.
    NoChangeShown,
    /// The level changed.
    Changed,
    /// It drifts steadily.
    Drifts,
}

/// Something in the circumstances that is different after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suspect {
    /// Stable word for programs: `executable-differs`, `kernel-differs`, …
    pub code: String,
    /// What it is, for people.
    pub what: String,
    /// As it was in the last run before.
    pub before: String,
    /// As it was in the first run after.
    pub after: String,
    /// Whether all runs of the stretch before had the one and all of the stretch after the other.
    pub is_clean: bool,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelChange {
    /// Position of the first run after it among the points.
    pub at: usize,
    /// That run.
    pub run: RunId,
    /// When that run started.
    pub started: Timestamp,
    /// The stretch before it.
    pub before: Level,
    /// The stretch after it, up to the next change.
    pub after: Level,
    /// Median after over median before, less 1; `None` where the level before is 0.
    pub change_ratio: Option<Ratio>,
    /// Lower end of the change's interval.
    pub low: Option<Ratio>,
    /// Upper end of it.
    pub high: Option<Ratio>,
    /// How often such intervals hold the true change, as planned, where the place of the change is right.
    pub coverage: Option<Ratio>,
    /// The chance of a change this clear between its neighbours if there were none.
    pub p_value: Ratio,
    /// What else changed there, the clearest first.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The history of one workload on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// What ran.
    pub workload: WorkloadRef,
    /// Where.
    pub device: DeviceRef,
    /// What can be said.
    pub state: TrendState,
    /// The runs, in time order.
    pub points: Vec<Point>,
    /// The level since the last change.
    pub level: Level,
    /// Where the level changed, in time order.
    pub changes: Vec<LevelChange>,
    /// How it drifts, where it does.
    pub drift: Option<Drift>,
    /// Runs that only warmed up, failed or are not over.
    pub left_out: usize,
    /// Runs that lack the value.
    pub without_value: usize,
    /// Older runs than those that are looked at.
    pub older: u64,
    /// Why nothing can be said, where nothing can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// What a reader should know before trusting it.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Histories of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trends {
    /// `metier.trend/1`.
    pub schema: Schema<Trends>,
    /// The figure: `wall`, `cpu`, … or `stage:NAME:p95`.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The chance of telling any change in a history that has none.
    pub significance: Ratio,
    /// Smaller changes are not told.
    pub at_least: Ratio,
    /// The histories, by workload and device.
    pub trends: Vec<Trend>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Trends {
    const SCHEMA: &'static str = "metier.trend/1";
}

impl Trend {
    /// Changes for the worse among the latest `recent` runs, and whether it drifts for the worse.
    pub fn regressions(&self, recent: usize, is_cost: bool) -> (Vec<&LevelChange>, bool) {
        let from = self.points.len().saturating_sub(recent);
        let is_worse = |change: Option<Ratio>| match change {
            Some(change) => (change.get() > 0.0) == is_cost,
            // From 0 to something.
            None => is_cost,
        };
        let worse = self.changes.iter().filter(|it| it.at >= from && is_worse(it.change_ratio)).collect();
        (worse, self.drift.as_ref().is_some_and(|drift| is_worse(Some(drift.change_ratio))))
    }
}
