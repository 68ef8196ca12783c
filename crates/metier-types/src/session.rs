//! A session: a run file that somebody asked for, from its place in the queue to its end.
//!
//! A session is what waits, a run is what was measured: one session makes the runs of one batch. The record names who
//! asked by door and user; it never holds a token.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Schema, Versioned};
use crate::{BatchId, DeviceRef, Extra, RunId, SessionId, Timestamp};

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
        /// Somebody did not want it any more.
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

/// The ways to ask for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Door {
    /// The command line.
    Cli,
    /// `POST /api/v1/sessions`.
    Api,
    /// `POST /job/NAME/buildWithParameters`.
    Jenkins,
}

/// Who asked for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asker {
    /// Through which door.
    pub door: Door,
    /// The user, as the door knows them: a login name, or that of basic authentication.
    pub user: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A run file that somebody asked for, from its place in the queue to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// `metier.session/1`.
    pub schema: Schema<Session>,
    /// Its identity.
    pub id: SessionId,
    /// A small number that ascends in the order of asking; never given twice.
    pub number: u64,
    /// Where it stands.
    pub state: SessionState,
    /// Which place it has among those that wait, from 1; `null` when it does not wait.
    pub position: Option<u64>,
    /// What people call it.
    pub name: String,
    /// Who asked.
    pub asker: Asker,
    /// The job that it was asked for by, where the door has jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Id or name of the device that it is for; `null` where any will do.
    pub device: Option<String>,
    /// The device that measures or measured it.
    pub measured_by: Option<DeviceRef>,
    /// The run file.
    pub file: serde_json::Value,
    /// The folder that it was asked from; relative paths are meant from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// When it was asked for.
    pub asked: Timestamp,
    /// When its turn came.
    pub started: Option<Timestamp>,
    /// When it was over.
    pub ended: Option<Timestamp>,
    /// The batch of its runs.
    pub batch: BatchId,
    /// Its runs so far, oldest first; at most 1000 are named here, the batch has all.
    pub runs: Vec<RunId>,
    /// The exit code of `metier run`, where it came to an end.
    pub exit_code: Option<i32>,
    /// Why it is where it is, in words.
    pub reason: Option<String>,
    /// How often its turn came: more than once only where a worker went away before the run had begun.
    pub turns: u32,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Session {
    const SCHEMA: &'static str = "metier.session/1";
}
