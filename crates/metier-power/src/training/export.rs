//! Exports a pipeline in the layout of kepler-model-db: predictors that pass the original's gate,
//! weights beside archives, and a Markdown report.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::PredictorErrorRow;
use super::errors::errors_of;
use super::write::tables_of_errors;
use crate::Error;
use crate::kepler_terms::{EnergySource, OutputType};
use crate::pipeline::replace;

/// Version of the layout.
pub const VERSION: &str = "v0.7";

/// Publisher and date of the measurements.
#[derive(Debug, Clone)]
pub struct PipelinePublication {
    pub publisher: String,
    /// Time of the measurements, as `2026-11-17 15:40:00`.
    pub collected: String,
    pub exported: String,
    /// Whether the tables are included.
    pub with_tables: bool,
}

#[derive(Debug, Clone, Default)]
pub struct PublishedPipeline {
    pub folder: PathBuf,
    pub passed: usize,
    /// Predictors that failed the gate, with their errors.
    pub dropped: Vec<String>,
}

/// The original's gate: no error above 100 W or 100 %, and at most 20 % or 10 W.
pub fn passes(mae: Option<f64>, mape: Option<f64>) -> bool {
    let Some(mae) = mae else { return false };
    if mae > 100.0 || mape.is_some_and(|mape| mape > 100.0) {
        return false;
    }
    mape.is_some_and(|mape| mape <= 20.0) || mae <= 10.0
}

/// Publishes the pipeline in `folder` below `root/v0.7`.
pub fn export(folder: &Path, root: &Path, about: &PipelinePublication) -> Result<PublishedPipeline, Error> {
    let text = fs::read(folder.join("metadata.json"))
        .map_err(|error| Error::file(folder.join("metadata.json"), error))?;
    let mut metadata: Value =
        serde_json::from_slice(&text).map_err(|error| Error::file(folder.join("metadata.json"), error))?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let to = root.join(VERSION).join(&name);
    let mut published = PublishedPipeline { folder: to.clone(), ..PublishedPipeline::default() };
    let mut report = format!("# {name}\n\n");
    for source in EnergySource::ALL {
        for output_type in OutputType::ALL {
            let (rows, dropped): (Vec<PredictorErrorRow>, Vec<PredictorErrorRow>) =
                errors_of(folder, source, output_type)?
                    .into_iter()
                    .partition(|row| passes(row.error("mae"), row.error("mape")));
            for row in &rows {
                copy(folder, &to, source, output_type, row)?;
            }
            published.passed += rows.len();
            published.dropped.extend(dropped.iter().map(|row| {
                let error = |key: &str| row.error(key).map_or("none".to_string(), |value| value.to_string());
                let place = format!("{}/{}/{}", source.name(), output_type.name(), row.group.name());
                format!("{place}/{}: mae {} W, mape {} %", row.name, error("mae"), error("mape"))
            }));
            section(&mut report, source, output_type, &rows);
        }
    }
    if published.passed == 0 {
        return Err(Error::file(
            folder,
            format!("no predictor is good enough: {}", published.dropped.join("; ")),
        ));
    }
    if let Some(object) = metadata.as_object_mut() {
        object.insert("publisher".into(), json!(about.publisher));
        object.insert("collect_time".into(), json!(about.collected));
        object.insert("export_time".into(), json!(about.exported));
    }
    for file in ["node_type_index.json", "train_arguments.json"] {
        let from = folder.join(file);
        if from.is_file() {
            copy_file(&from, &to.join(file))?;
        }
    }
    for part in ["profile"].into_iter().chain(about.with_tables.then_some("preprocessed_data")) {
        copy_folder(&folder.join(part), &to.join(part))?;
    }
    tables_of_errors(&to)?;
    let _ = write!(
        report,
        "\nPublished by {} at {}, measured {}.\n",
        about.publisher, about.exported, about.collected
    );
    replace(&to.join("README.md"), report.as_bytes())?;
    replace(&to.join("metadata.json"), metadata.to_string().as_bytes())?;
    Ok(published)
}

fn section(report: &mut String, source: EnergySource, output_type: OutputType, rows: &[PredictorErrorRow]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(
        report,
        "## {} {}\n\n| features | predictor | MAE (W) | MAPE (%) |",
        source.name(),
        output_type.name()
    );
    for component in source.components() {
        let _ = write!(report, " {} MAE |", component.name());
    }
    report.push_str("\n|---|---|---|---|");
    report.push_str(&"---|".repeat(source.components().len()));
    report.push('\n');
    let cell = |value: Option<f64>| value.map_or("–".to_string(), |value| format!("{value:.2}"));
    for row in rows {
        let _ = write!(
            report,
            "| {} | {} | {} | {} |",
            row.group.name(),
            row.name,
            cell(row.error("mae")),
            cell(row.error("mape"))
        );
        for component in source.components() {
            let _ = write!(report, " {} |", cell(row.error(&format!("{}_mae", component.name()))));
        }
        report.push('\n');
    }
    report.push('\n');
}

/// Copies a predictor's folder, its archive, and its weights beside them.
fn copy(
    from: &Path,
    to: &Path,
    source: EnergySource,
    output_type: OutputType,
    row: &PredictorErrorRow,
) -> Result<(), Error> {
    let group = Path::new(source.name()).join(output_type.name()).join(row.group.name());
    let name = row.name.to_string();
    let (from, to) = (from.join(&group), to.join(&group));
    copy_folder(&from.join(&name), &to.join(&name))?;
    copy_file(&from.join(format!("{name}.zip")), &to.join(format!("{name}.zip")))?;
    let weights = from.join(&name).join("weight.json");
    if weights.is_file() {
        copy_file(&weights, &to.join(format!("{name}.json")))?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(|error| Error::file(from, error))?;
        if entry.path().is_file() {
            copy_file(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    }
    fs::copy(from, to).map(drop).map_err(|error| Error::file(from, error))
}

#[cfg(test)]
mod tests {
    use super::passes;

    #[test]
    fn the_gate_is_the_originals() {
        for (mae, mape, want) in [
            (Some(5.0), Some(50.0), true),
            (Some(50.0), Some(15.0), true),
            (Some(50.0), Some(50.0), false),
            (Some(101.0), Some(1.0), false),
            (Some(1.0), Some(101.0), false),
            (Some(5.0), None, true),
            (Some(50.0), None, false),
            (None, Some(1.0), false),
        ] {
            assert_eq!(passes(mae, mape), want, "{mae:?} {mape:?}");
        }
    }
}
