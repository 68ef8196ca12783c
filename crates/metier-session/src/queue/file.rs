//! The run file of a session: checked when it is asked for, and given to the measuring process when its turn comes.
//!
//! What is there (folders, inputs, mounts) is looked for only then: it may be on another device, or still to come.

use std::ffi::OsString;

use metier_types::SessionRecord;
use serde_json::Value;

use crate::runfile::{self, RunFileFaults};

/// Reads and checks a run file, YAML or JSON; gives it as it is kept.
pub fn read_file(text: &str) -> Result<Value, RunFileFaults> {
    let (file, origins) = runfile::parse(text)?;
    let checked = file.check_for_later(&origins)?;
    serde_json::to_value(&checked.file).map_err(|error| {
        runfile::RunFileFault::document(&error.to_string(), "fields that JSON can hold").into()
    })
}

/// What the measuring program is told; it reads the run file from its stdin, so relative paths are meant from the folder that
/// it is started in.
pub(super) fn arguments(session: &SessionRecord) -> Vec<OsString> {
    let batch = session.batch.to_string();
    ["run", "--batch", &batch, "--file", "-"].into_iter().map(OsString::from).collect()
}
