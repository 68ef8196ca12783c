//! What `/api/profiling` answers: the original's fields, and all candidates beside them.

use std::collections::BTreeMap;

use metier_cluster::inventory::prometheus::LatestNodes;
use metier_place::Placement;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::candidate::ProfilingCandidate;

/// The answer. Fields are written in the order of their names, as the original's encoder did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProfilingResponse {
    /// Every node, fastest first; those without a time behind them, each with its reason.
    pub candidates: Vec<ProfilingCandidate>,
    /// Where an uploaded file was taken for; nothing is kept of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filepath: Option<String>,
    /// Always the same.
    pub message: &'static str,
    /// What was sent.
    pub model_characteristics: BTreeMap<String, Value>,
    /// Where it was put and why there, and what else came into question; only where the request
    /// asked for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The fastest node; where it was placed, the node that it is on.
    pub profiling_prediction: ProfilingPrediction,
    /// From when the nodes' figures are; absent where the request described its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,
    /// Always `success`.
    pub status: &'static str,
}

/// The fastest node, or the device that was described.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ProfilingPrediction {
    /// A node of the cluster.
    Node {
        /// What sort of machine it says it is.
        class: Option<String>,
        /// Its model.
        device_model: Option<String>,
        /// The graph.
        model: String,
        /// What the cluster calls it.
        node: Option<String>,
        /// The identifier that it shows.
        node_uuid: Option<String>,
        /// Seconds.
        predicted_execution_time: f64,
    },
    /// A device that was described.
    Device {
        /// The graph.
        model: String,
        /// Seconds.
        predicted_execution_time: f64,
    },
}

impl ProfilingPrediction {
    /// A node, where a time is known for it.
    pub fn from_candidate(candidate: &ProfilingCandidate, model: &str) -> Option<Self> {
        Some(Self::Node {
            class: candidate.class.clone(),
            device_model: candidate.device_model.clone(),
            model: model.to_string(),
            node: candidate.node.clone(),
            node_uuid: candidate.node_uuid.clone(),
            predicted_execution_time: candidate.predicted_execution_time?,
        })
    }
}

/// From when the figures are.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SnapshotSource {
    /// Who told them.
    pub source: String,
    /// When they were asked for, by the source's clock.
    pub at: metier_types::UtcTimestamp,
    /// How long ago that was.
    pub age_seconds: f64,
    /// What has gone wrong since: the figures are still within their age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What the source warned of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl SnapshotSource {
    pub fn from_latest(latest: &LatestNodes, source: String) -> Self {
        Self {
            source,
            at: latest.snapshot.at,
            age_seconds: (latest.age.as_secs_f64() * 1000.0).round() / 1000.0,
            trouble: latest.trouble.clone(),
            warnings: latest.snapshot.warnings.clone(),
        }
    }
}
