//! Writes the files of a pipeline in the original's layout.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::errors::errors_of;
use super::{PipelinePlan, PowerTable, TrainedEntry};
use crate::Error;
use crate::kepler_terms::{EnergySource, ModelName, OutputType, PowerTrainer};
use crate::node::MachineSpec;
use crate::pipeline::{group_folder, predictor_metadata, read_metadata, replace, write_metadata};
use crate::profile::IdleProfile;
use crate::trainers::TrainedPredictor;

/// Folder of a predictor.
pub fn place(folder: &Path, table: &PowerTable, name: &ModelName) -> PathBuf {
    group_folder(folder, table.source, table.output_type, table.group).join(name.to_string())
}

/// Digest of a predictor's training rows, from its metadata.
pub fn digest_of(place: &Path) -> Option<String> {
    read_metadata(place).get("learned_from")?.as_str().map(str::to_string)
}

/// Rounds an error as the original does.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Writes a predictor's folder and the archive for the model server.
pub fn model(
    place: &Path,
    entry: &TrainedEntry,
    trained: &TrainedPredictor,
    spec: Option<&MachineSpec>,
    digest: &str,
) -> Result<(), Error> {
    fs::create_dir_all(place).map_err(|error| Error::file(place, error))?;
    let predictor = &trained.predictor;
    let mut about =
        predictor_metadata(&entry.name, "predictor.json", &predictor.features, entry.output_type, spec);
    let mut set = |key: &str, value: Value| drop(about.insert(key.to_string(), value));
    set("mae", json!(rounded(entry.mae())));
    // The worst component's error; -1 for none, as in the original.
    set("mape", json!(entry.mape().map_or(-1.0, rounded)));
    set("rows", json!(entry.rows));
    for out in &entry.held_out {
        let component = out.component.name();
        set(&format!("{component}_mae"), json!(rounded(out.mae)));
        set(&format!("{component}_mape"), json!(out.mape.map_or(-1.0, |ratio| rounded(ratio * 100.0))));
        if let Some(coverage) = out.coverage {
            set(&format!("{component}_coverage"), json!(rounded(coverage)));
        }
    }
    set("learned_from", json!(digest));
    let mut files = vec![("predictor.json".to_string(), trained.bytes())];
    if let Some(weights) = predictor.weights() {
        let object: Map<String, Value> = weights
            .0
            .iter()
            .map(|(component, weights)| (component.name().to_string(), json!(weights)))
            .collect();
        files.push(("weight.json".to_string(), Value::Object(object).to_string().into_bytes()));
    }
    files.push(("metadata.json".to_string(), Value::Object(about).to_string().into_bytes()));
    for (file, bytes) in files.iter().filter(|(file, _)| file != "metadata.json") {
        replace(&place.join(file), bytes)?;
    }
    let members: Vec<(String, Vec<u8>)> =
        files.iter().filter(|(file, _)| file != "weight.json").cloned().collect();
    let mut zip = place.as_os_str().to_owned();
    zip.push(".zip");
    replace(Path::new(&zip), &crate::pipeline::pack(&members)?)?;
    // Written last: it marks the folder as complete.
    if let Some((file, bytes)) = files.last() {
        replace(&place.join(file), bytes)?;
    }
    Ok(())
}

/// Writes the table to `preprocessed_data`.
pub fn table(folder: &Path, table: &PowerTable, plan: &PipelinePlan) -> Result<(), Error> {
    let folder = folder.join("preprocessed_data");
    fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
    let (source, group) = (table.source.name(), table.group.name());
    let name = match table.output_type {
        OutputType::AbsPower => format!("preprocess_abs_{}_{source}_{group}.csv", plan.extractor.name()),
        OutputType::DynPower => {
            format!("preprocess_dyn_{}_{}_{source}_{group}.csv", plan.extractor.name(), plan.isolator.name())
        }
    };
    let mut bytes = Vec::new();
    table.frame.write_csv(&mut bytes)?;
    replace(&folder.join(name), &bytes)
}

/// Writes the idle profile of each source.
pub fn profiles(folder: &Path, idle: &IdleProfile, node_type: u32) -> Result<(), Error> {
    let folder = folder.join("profile");
    fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
    for (source, profile) in &idle.levels {
        let path = folder.join(format!("{}.json", source.name()));
        let before = fs::read(&path).unwrap_or_default();
        replace(&path, profile.added_to(&before, node_type).to_string().as_bytes())?;
    }
    Ok(())
}

/// Writes the pipeline's metadata, and a table of errors for each source and output type.
pub fn pipeline(folder: &Path, plan: &PipelinePlan) -> Result<(), Error> {
    let mut about = read_metadata(folder);
    let names =
        |trainers: &[PowerTrainer]| json!(trainers.iter().map(|trainer| trainer.name()).collect::<Vec<_>>());
    about.insert("name".into(), json!(plan.name));
    about.insert("isolator".into(), json!(plan.isolator.name()));
    about.insert("extractor".into(), json!(plan.extractor.name()));
    about.insert("abs_trainers".into(), names(&plan.abs_trainers));
    about.insert("dyn_trainers".into(), names(&plan.dyn_trainers));
    about.insert("metric_type".into(), json!(if plan.vm { "vm_metrics" } else { "bm_metrics" }));
    about.entry("init_time").or_insert_with(|| json!(plan.now));
    about.insert("last_update_time".into(), json!(plan.now));
    tables_of_errors(folder)?;
    write_metadata(folder, about)
}

/// Writes `<source>_<output type>_model_metadata.csv` of all predictors in a folder.
pub fn tables_of_errors(folder: &Path) -> Result<(), Error> {
    for source in EnergySource::ALL {
        for output_type in OutputType::ALL {
            let rows = errors_of(folder, source, output_type)?;
            if rows.is_empty() {
                continue;
            }
            let errors = |end: &str| {
                source
                    .components()
                    .iter()
                    .map(move |component| format!("{}_{end}", component.name()))
                    .collect::<Vec<_>>()
            };
            let mut header: Vec<String> = [
                "model_name",
                "model_class",
                "model_file",
                "features",
                "fe_files",
                "output_type",
                "mae",
                "mape",
            ]
            .map(str::to_string)
            .to_vec();
            header.extend(errors("mae").into_iter().chain(errors("mape")));
            header.extend(["trainer", "node_type", "feature_group"].map(str::to_string));
            let wrong = |error: csv::Error| Error::table(error.to_string());
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(&header).map_err(wrong)?;
            for row in &rows {
                let cell = |name: &String| match name.as_str() {
                    "feature_group" => row.group.name().to_string(),
                    name => match &row.metadata[name] {
                        Value::Null => String::new(),
                        Value::String(text) => text.clone(),
                        Value::Array(list) => {
                            let names: Vec<String> = list
                                .iter()
                                .map(|value| format!("'{}'", value.as_str().unwrap_or_default()))
                                .collect();
                            format!("[{}]", names.join(", "))
                        }
                        other => other.to_string(),
                    },
                };
                writer.write_record(header.iter().map(cell)).map_err(wrong)?;
            }
            let bytes = writer.into_inner().map_err(|error| Error::table(error.to_string()))?;
            let name = format!("{}_{}_model_metadata.csv", source.name(), output_type.name());
            replace(&folder.join(name), &bytes)?;
        }
    }
    Ok(())
}
