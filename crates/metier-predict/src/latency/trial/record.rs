//! Stored form of points: one or several trials each, since a large graph does not fit into one.

use crate::operator_model::{GraphOperator, ResourcePressure, TimedGraph};
use metier_store::StoredTrial;
use metier_types::RunId;
use serde::{Deserialize, Serialize};

use crate::latency::operator_features::{FEATURE_COUNT, FEATURE_VERSION, LINEAR_FEATURES};

/// Trial kind in the store.
pub const KIND: &str = "latency";
/// Largest number of operators in a record.
const MAX_PARTS: usize = 80;

/// A point, or a piece of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Version of its features ([`FEATURE_VERSION`]).
    #[serde(default)]
    pub counted: u32,
    /// The graph: a digest, or the number of a generated network.
    pub graph: String,
    /// Display name.
    pub name: String,
    /// Whether the graph is generated.
    pub is_trial: bool,
    pub runtime: String,
    pub threads: u32,
    pub pressure: ResourcePressure,
    /// Seconds of one inference.
    pub seconds: f64,
    /// Median of the repeats.
    pub median: f64,
    /// Seconds of a repeated measurement, which shows the measurement noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<f64>,
    pub cpu_seconds: f64,
    pub multiply_adds: u64,
    /// Counts of the SOPRANO profiler.
    pub counts: [f64; 7],
    /// The imported run, unless it is a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Index and number of pieces.
    pub piece: (usize, usize),
    /// Family, kind, iterations, basis, features and seconds of each operator.
    pub parts: Vec<TrialRecordPart>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecordPart(pub String, pub String, pub f64, pub Vec<f64>, pub Vec<f64>, pub Option<f64>);

/// Rounds to six digits, more than any clock resolves.
fn round_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 6 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(digits.clamp(-300, 300));
    (value * scale).round() / scale
}

/// Whether a key is that of a point of this runtime.
pub fn is_of_runtime(key: &str, runtime: &str) -> bool {
    key.rsplit('/').nth(3) == Some(runtime)
}

impl TrialRecord {
    /// Whether its features have the current version.
    pub fn is_of_this_version(&self) -> bool {
        self.counted == FEATURE_VERSION
            && self.parts.iter().all(|TrialRecordPart(_, _, _, basis, features, _)| {
                basis.len() == LINEAR_FEATURES.len() && features.len() == FEATURE_COUNT
            })
    }

    /// Key of the point.
    pub fn key(&self) -> String {
        let ResourcePressure { sharing, cpu, memory } = self.pressure;
        format!(
            "{}/{}/t{}/{:.3},{:.3},{:.3}/{}",
            self.graph, self.runtime, self.threads, sharing, cpu, memory, self.piece.0
        )
    }

    /// The records that store the point.
    pub fn pieces(&self) -> Result<Vec<StoredTrial>, serde_json::Error> {
        let count = self.parts.len().div_ceil(MAX_PARTS).max(1);
        (0..count)
            .map(|piece| {
                let parts = self.parts.iter().skip(piece * MAX_PARTS).take(MAX_PARTS).cloned().collect();
                let record = Self { piece: (piece, count), parts, ..self.clone() };
                Ok(StoredTrial { key: record.key(), record: serde_json::to_string(&record)? })
            })
            .collect()
    }

    /// Joins pieces; points with a missing piece are left out.
    pub fn join(trials: &[StoredTrial]) -> Vec<TrialRecord> {
        let mut whole: std::collections::BTreeMap<String, Vec<TrialRecord>> =
            std::collections::BTreeMap::new();
        for trial in trials {
            let Ok(record) = serde_json::from_str::<TrialRecord>(&trial.record) else { continue };
            let key = TrialRecord { piece: (0, 0), parts: Vec::new(), ..record.clone() }.key();
            whole.entry(key).or_default().push(record);
        }
        whole
            .into_values()
            .filter_map(|mut pieces| {
                pieces.sort_by_key(|record| record.piece.0);
                let count = pieces.first()?.piece.1;
                let mut first = pieces.first()?.clone();
                if pieces.len() != count || pieces.iter().enumerate().any(|(at, record)| record.piece.0 != at)
                {
                    return None;
                }
                first.parts = pieces.into_iter().flat_map(|record| record.parts).collect();
                Some(first)
            })
            .collect()
    }

    /// The operators of a point in stored form.
    pub fn kept_parts(parts: &[GraphOperator]) -> Vec<TrialRecordPart> {
        parts
            .iter()
            .map(|part| {
                let list = |values: &[f64]| values.iter().map(|value| round_digits(*value)).collect();
                TrialRecordPart(
                    part.family.clone(),
                    part.kind.clone(),
                    part.turns,
                    list(&part.basis),
                    list(&part.features),
                    part.seconds.map(round_digits),
                )
            })
            .collect()
    }

    /// The point as training data.
    pub fn point(&self) -> TimedGraph {
        TimedGraph {
            group: metier_learn::cross_validation::hash_group(&self.name),
            is_trial: self.is_trial,
            threads: self.threads,
            pressure: self.pressure,
            seconds: self.seconds,
            parts: self
                .parts
                .iter()
                .map(|TrialRecordPart(family, kind, turns, basis, features, seconds)| GraphOperator {
                    family: family.clone(),
                    kind: kind.clone(),
                    turns: *turns,
                    basis: basis.clone(),
                    features: features.clone(),
                    seconds: *seconds,
                })
                .collect(),
        }
    }
}
