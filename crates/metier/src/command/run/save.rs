//! `--save-json`: one run as its record, several as a list of records.

use std::io::Write;

use metier_types::Run;
use serde::Serialize;

use crate::output::Destination;

#[derive(Serialize)]
struct Runs<'a> {
    schema: &'static str,
    runs: &'a [Run],
}

/// Writes what was measured.
pub fn write(mut file: Destination, runs: &[Run], is_batch: bool) -> anyhow::Result<()> {
    let mut text = match runs {
        [run] if !is_batch => serde_json::to_vec_pretty(run)?,
        runs => serde_json::to_vec_pretty(&Runs { schema: "metier.runs/1", runs })?,
    };
    text.push(b'\n');
    file.write_all(&text)?;
    file.commit()
}
