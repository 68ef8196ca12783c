//! What can run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Schema, Versioned};
use crate::{Digest, Extra, Timestamp, WorkloadId};

/// The kinds of thing that can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WorkloadKind {
    /// A program on this machine.
    Command,
    /// A container image.
    Image,
    /// An ONNX network.
    Graph,
    /// Something that stays up and answers.
    Service,
}

/// A workload as other records name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRef {
    /// Its identity.
    pub id: WorkloadId,
    /// What people call it.
    pub name: String,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What can run: a command, an image, a graph or a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// `metier.workload/1`.
    pub schema: Schema<Workload>,
    /// Its identity: the given name, else a digest of kind, executable and arguments.
    pub id: WorkloadId,
    /// What people call it.
    pub name: String,
    /// Which kind it is.
    pub kind: WorkloadKind,
    /// Program and arguments, where it is a command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Digest of the executable, image or graph.
    pub digest: Option<Digest>,
    /// When it was first seen by this store.
    pub first_seen: Timestamp,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Workload {
    const SCHEMA: &'static str = "metier.workload/1";
}
