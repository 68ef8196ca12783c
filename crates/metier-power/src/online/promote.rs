//! Copies a candidate into the running pipeline and removes the predictor it replaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;
use crate::kepler_terms::{EnergySource, OutputType};
use crate::pipeline::{PipelineModel, read_metadata, replace, write_metadata};
use crate::training::PipelinePlan;

/// Reason why a predictor is in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictorPromotion {
    pub predictor: String,
    /// Its feature group.
    pub group: String,
    /// Error on held-out rows: the worst component's mean, in watts.
    pub error: f64,
    /// The replaced predictor.
    pub before: Option<String>,
    /// Error of the replaced predictor on the same rows.
    pub error_before: Option<f64>,
    /// Time of the newest training row, in seconds since 1970.
    pub learned_until: f64,
    pub promoted: String,
}

/// The promotion records in a pipeline's metadata; empty if there are none.
pub fn promotions(live: &Path) -> BTreeMap<(EnergySource, OutputType), PredictorPromotion> {
    let about = read_metadata(live);
    let known = about.get("online").and_then(Value::as_object);
    let entry_of = |(place, value): (&String, &Value)| {
        let (source, output_type) = place.split_once('/')?;
        let place = (EnergySource::named(source)?, OutputType::named(output_type)?);
        Some((place, PredictorPromotion::deserialize(value).ok()?))
    };
    known.into_iter().flatten().filter_map(entry_of).collect()
}

/// Copies a candidate, removes other predictors of the source and output type, and records the
/// promotion. A crash in between leaves both predictors, which is harmless.
pub fn promote(
    candidates: &Path,
    live: &Path,
    model: &PipelineModel,
    promotion: &PredictorPromotion,
    plan: &PipelinePlan,
) -> Result<(), Error> {
    let place = Path::new(model.source.name()).join(model.output_type.name());
    let group = place.join(model.group.name());
    let from = candidates.join(&group).join(&model.full_name);
    let to = live.join(&group).join(&model.full_name);
    copy(&from, &to)?;
    let zip = format!("{}.zip", model.full_name);
    let archive = candidates.join(&group).join(&zip);
    if let Ok(bytes) = fs::read(&archive) {
        replace(&live.join(&group).join(&zip), &bytes)?;
    }
    clear(&live.join(&place), model)?;
    let mut about = read_metadata(live);
    about.insert("name".into(), json!(plan.name));
    about.insert("isolator".into(), json!(plan.isolator.name()));
    about.insert("extractor".into(), json!(plan.extractor.name()));
    about.insert("last_update_time".into(), json!(plan.now));
    let online = about.entry("online").or_insert_with(|| json!({}));
    if !online.is_object() {
        *online = json!({});
    }
    online[format!("{}/{}", model.source.name(), model.output_type.name())] = json!(promotion);
    write_metadata(live, about)
}

/// Copies a predictor's files, `metadata.json` last: a folder with that file is complete.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let wrong = |error: std::io::Error| Error::file(from, error);
    fs::create_dir_all(to).map_err(|error| Error::file(to, error))?;
    let mut names: Vec<_> =
        fs::read_dir(from).map_err(wrong)?.flatten().map(|entry| entry.file_name()).collect();
    names.sort_by_key(|name| name == "metadata.json");
    // Files of an older predictor with the same name must not remain.
    for old in fs::read_dir(to).map_err(|error| Error::file(to, error))?.flatten() {
        if !names.contains(&old.file_name()) {
            let _ = fs::remove_file(old.path());
        }
    }
    for name in names {
        let bytes = fs::read(from.join(&name)).map_err(wrong)?;
        replace(&to.join(&name), &bytes)?;
    }
    Ok(())
}

/// Removes all predictors of a source and output type except one.
fn clear(place: &Path, model: &PipelineModel) -> Result<(), Error> {
    let wrong = |error: std::io::Error| Error::file(place, error);
    for group in fs::read_dir(place).map_err(wrong)?.flatten() {
        let is_group = group.file_name().to_str() == Some(model.group.name());
        if !is_group {
            fs::remove_dir_all(group.path()).map_err(wrong)?;
            continue;
        }
        for entry in fs::read_dir(group.path()).map_err(wrong)?.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name == model.full_name || name == format!("{}.zip", model.full_name) {
                continue;
            }
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.map_err(wrong)?;
        }
    }
    Ok(())
}
