//! `--save-json`: one run as its record, several as a list of records.

use std::io::Write;

use metier_types::Run;
use serde::Serialize;

use crate::output::OutputFile;

#[derive(Serialize)]
struct SavedRuns<'a> {
    schema: &'static str,
    runs: &'a [Run],
}

/// Writes the measured runs.
pub fn write_json(mut file: OutputFile, runs: &[Run], is_batch: bool) -> anyhow::Result<()> {
    let mut text = match runs {
        [run] if !is_batch => serde_json::to_vec_pretty(run)?,
        runs => serde_json::to_vec_pretty(&SavedRuns { schema: "metier.runs/1", runs })?,
    };
    text.push(b'\n');
    file.write_all(&text)?;
    file.commit()
}
