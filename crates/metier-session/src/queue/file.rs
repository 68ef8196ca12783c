//! The run file of a session: checked at submission, and passed to the measuring process at start.
//!
//! Paths (folders, inputs, mounts) are checked only at the start of the run. At submission they may
//! be on another device or not exist yet.

use std::ffi::OsString;

use metier_types::SessionRecord;
use serde_json::Value;

use crate::runfile::{self, RunFileFaults};

/// Reads and checks a run file, YAML or JSON. Returns the form that the store holds.
pub fn read_file(text: &str) -> Result<Value, RunFileFaults> {
    let (file, origins) = runfile::parse(text)?;
    let checked = file.check_for_later(&origins)?;
    serde_json::to_value(&checked.file).map_err(|error| {
        runfile::RunFileFault::document(&error.to_string(), "fields that JSON can hold").into()
    })
}

/// Arguments of the measuring program. It reads the run file from stdin, so relative paths refer to
/// its working directory.
pub(super) fn arguments(session: &SessionRecord) -> Vec<OsString> {
    let batch = session.batch.to_string();
    ["run", "--batch", &batch, "--file", "-"].into_iter().map(OsString::from).collect()
}
