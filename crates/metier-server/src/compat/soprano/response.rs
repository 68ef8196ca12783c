//! The response of `/api/profiling`: the original's fields, and all candidates.

use std::collections::BTreeMap;

use metier_cluster::inventory::prometheus::LatestNodes;
use metier_place::Placement;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::candidate::ProfilingCandidate;

/// The response. Fields are in alphabetical order, as the original's encoder wrote them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProfilingResponse {
    /// Every node, fastest first; nodes without a time come last, each with its reason.
    pub candidates: Vec<ProfilingCandidate>,
    /// Name of an uploaded file; the file is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filepath: Option<String>,
    /// Always the same.
    pub message: &'static str,
    /// The fields that were sent.
    pub model_characteristics: BTreeMap<String, Value>,
    /// Where the graph was placed and why, with the alternatives; only if the request asked for a
    /// placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The fastest node; after a placement, the chosen node.
    pub profiling_prediction: ProfilingPrediction,
    /// Time of the nodes' figures; absent if the request described its device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotSource>,
    /// Always `success`.
    pub status: &'static str,
}

/// The fastest node, or the described device.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ProfilingPrediction {
    /// A node of the cluster.
    Node {
        /// The machine class that it reports.
        class: Option<String>,
        /// Its model.
        device_model: Option<String>,
        /// The graph.
        model: String,
        /// Name of the node in the cluster.
        node: Option<String>,
        /// The identifier that it reports.
        node_uuid: Option<String>,
        /// Seconds.
        predicted_execution_time: f64,
    },
    /// A described device.
    Device {
        /// The graph.
        model: String,
        /// Seconds.
        predicted_execution_time: f64,
    },
}

impl ProfilingPrediction {
    /// A node, if it has a time.
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

/// Time and source of the nodes' figures.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SnapshotSource {
    /// Address of their source.
    pub source: String,
    /// Time of the query, by the source's clock.
    pub at: metier_types::UtcTimestamp,
    /// Age of the figures.
    pub age_seconds: f64,
    /// The latest failure; the figures are still within their age limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Warnings of the source.
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
