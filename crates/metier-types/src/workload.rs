//! Workloads: programs, images, graphs and services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{ContentDigest, ExtraFields, UtcTimestamp, WorkloadId};

/// Types of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WorkloadKind {
    /// A program on this machine.
    Command,
    /// A container image.
    Image,
    /// An ONNX graph.
    Graph,
    /// A service that runs until it is stopped.
    Service,
}

/// Reference to a workload in other records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRef {
    /// Id of the workload.
    pub id: WorkloadId,
    /// Display name.
    pub name: String,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A workload: a command, an image, a graph or a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// `metier.workload/1`.
    pub schema: RecordSchema<Workload>,
    /// Id: the given name, else a digest of kind, executable and arguments.
    pub id: WorkloadId,
    /// Display name.
    pub name: String,
    /// Type of workload.
    pub kind: WorkloadKind,
    /// Program and arguments, if it is a command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Digest of the executable, image or graph.
    pub digest: Option<ContentDigest>,
    /// When this store first recorded it.
    pub first_seen: UtcTimestamp,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for Workload {
    const SCHEMA: &'static str = "metier.workload/1";
}
