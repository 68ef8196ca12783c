//! Submission of a session to the queue.

use metier_store::{NewSession, RecordStore};
use metier_types::{SessionId, SessionRecord, SessionRequester};
use serde_json::Value;

use super::QueueError;

/// Most sessions that may wait.
pub const MAX_WAITING_SESSIONS: u64 = 1000;

/// A session to submit.
#[derive(Debug, Clone)]
pub struct SessionSubmission {
    /// The checked run file.
    pub file: Value,
    pub asker: SessionRequester,
    /// The job, where the submitting API has jobs.
    pub job: Option<String>,
    /// Id or name of the target device; `None` for any device.
    pub device: Option<String>,
    /// Base folder of relative paths.
    pub folder: Option<String>,
}

/// Appends a session to the queue.
pub fn submit_session(store: &RecordStore, ask: SessionSubmission) -> Result<SessionRecord, QueueError> {
    let new = NewSession {
        id: SessionId::new(),
        name: session_name(&ask.file),
        asker: ask.asker,
        job: ask.job,
        device: ask.device,
        file: ask.file,
        folder: ask.folder,
    };
    Ok(store.add_session(&new, MAX_WAITING_SESSIONS)?)
}

/// Display name of a run: its name, else its program or image.
fn session_name(file: &Value) -> String {
    let text = |pointer: &str| file.pointer(pointer).and_then(Value::as_str).map(str::to_string);
    let base = |path: String| path.rsplit('/').next().unwrap_or_default().to_string();
    text("/name")
        .or_else(|| text("/command/0").map(base))
        .or_else(|| text("/image"))
        .or_else(|| text("/pod/image"))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "session".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_called_by_its_name_else_by_what_runs() {
        for (file, want) in [
            (serde_json::json!({"name": "n", "command": ["x"]}), "n"),
            (serde_json::json!({"command": ["/usr/bin/sort", "-n"]}), "sort"),
            (serde_json::json!({"image": "lab/app:1"}), "lab/app:1"),
            (serde_json::json!({"pod": {"image": "a"}}), "a"),
            (serde_json::json!([]), "session"),
        ] {
            assert_eq!(session_name(&file), want);
        }
    }
}
