//! Sessions: run files submitted to the queue.
//!
//! A session is the queued request; a run is a measurement. One session makes the runs of one
//! batch. The record names the requester by interface and user; it never holds a token.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{BatchId, DeviceRef, ExtraFields, RunId, SessionId, UtcTimestamp};

crate::words! { serde (word, from_word)
    /// Where a session stands.
    #[derive(Hash, JsonSchema)]
    pub enum SessionState {
        /// Waiting for its turn.
        Queued = "queued",
        /// Being measured.
        Running = "running",
        /// Over; its runs ended well.
        Finished = "finished",
        /// Over; a run ended badly, or could not be made.
        Failed = "failed",
        /// A user cancelled it.
        Cancelled = "cancelled",
        /// Its worker went away while it ran.
        Interrupted = "interrupted",
    }
}

impl SessionState {
    /// Whether nothing more will happen to it.
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// Interfaces that accept sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionOrigin {
    /// The command line.
    Cli,
    /// `POST /api/v1/sessions`.
    Api,
    /// `POST /job/NAME/buildWithParameters`.
    Jenkins,
}

/// Requester of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRequester {
    /// The interface.
    pub door: SessionOrigin,
    /// User name at that interface: a login name, or that of basic authentication.
    pub user: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A run file submitted to the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRecord {
    /// `metier.session/1`.
    pub schema: RecordSchema<SessionRecord>,
    /// Id of the session.
    pub id: SessionId,
    /// A small number that ascends in the order of submission; never reused.
    pub number: u64,
    /// State of the session.
    pub state: SessionState,
    /// Position in the queue, from 1; `null` if it is not queued.
    pub position: Option<u64>,
    /// Display name.
    pub name: String,
    /// Requester of the session.
    pub asker: SessionRequester,
    /// The job of the session, if the interface has jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Id or name of the target device; `null` accepts any device.
    pub device: Option<String>,
    /// The device that measures or measured it.
    pub measured_by: Option<DeviceRef>,
    /// The run file.
    pub file: serde_json::Value,
    /// Base folder of relative paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Time of submission.
    pub asked: UtcTimestamp,
    /// Time of the claim by a worker.
    pub started: Option<UtcTimestamp>,
    /// End time.
    pub ended: Option<UtcTimestamp>,
    /// The batch of its runs.
    pub batch: BatchId,
    /// Its runs so far, oldest first; at most 1000, while the batch has all.
    pub runs: Vec<RunId>,
    /// Exit code of `metier run`, if it ended.
    pub exit_code: Option<i32>,
    /// Reason of the state, in words.
    pub reason: Option<String>,
    /// Number of claims: more than one only if a worker ended before the run had started.
    pub turns: u32,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for SessionRecord {
    const SCHEMA: &'static str = "metier.session/1";
}
