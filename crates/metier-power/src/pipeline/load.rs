//! Reads a pipeline. Broken predictors are skipped with a warning; only a pipeline without any
//! predictor is an error.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::files::{self, PipelineFiles, PipelineReader};
use super::{ModelArchive, PipelineModel, PredictorPipeline};
use crate::Error;
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType};
use crate::node::NodeTypeIndex;
use crate::weights::KeplerWeights;

/// Largest number of warnings.
const MAX_WARNINGS: usize = 20;

type PredictorKey = (EnergySource, OutputType, FeatureGroup, String);

/// Files found for one predictor.
#[derive(Default)]
struct PredictorFiles {
    archive: Option<String>,
    weights: Option<String>,
    metadata: Option<String>,
    predictor: Option<String>,
}

/// Reads the pipeline in a folder or zip.
pub fn load(path: &Path) -> Result<PredictorPipeline, Error> {
    let (files, names) = PipelineFiles::open(path)?;
    load_files(&files, &names, path)
}

/// Reads a pipeline from the bytes of a zip; `path` gives the name if the metadata has none.
pub fn load_bytes(bytes: Arc<[u8]>, path: &Path) -> Result<PredictorPipeline, Error> {
    let (files, names) = PipelineFiles::of_bytes(bytes, path)?;
    load_files(&files, &names, path)
}

fn load_files(files: &PipelineFiles, names: &[String], path: &Path) -> Result<PredictorPipeline, Error> {
    let mut reader = files.reader()?;
    let (name, is_promoted) = pipeline_identity(&mut reader, path)?;
    let mut pipeline = PredictorPipeline { name, is_promoted, ..PredictorPipeline::default() };
    if names.iter().any(|name| name == "node_type_index.json") {
        pipeline.index = Some(NodeTypeIndex::read(&reader.text("node_type_index.json")?)?);
    }
    let mut errors = BTreeMap::new();
    let mut found: BTreeMap<PredictorKey, PredictorFiles> = BTreeMap::new();
    for name in names {
        match place(name) {
            Some((place, part)) => {
                let known = found.entry(place).or_default();
                match part {
                    PredictorFileKind::Archive => known.archive = Some(name.clone()),
                    // Published weights beside the archive take precedence; those inside a folder
                    // are the same.
                    PredictorFileKind::Weights => known.weights = Some(name.clone()),
                    PredictorFileKind::FolderWeights => {
                        known.weights = known.weights.take().or(Some(name.clone()))
                    }
                    PredictorFileKind::Metadata => known.metadata = Some(name.clone()),
                    PredictorFileKind::Predictor => known.predictor = Some(name.clone()),
                }
            }
            None => {
                if let Some((source, output_type)) = table(name) {
                    read_table(&reader.read(name)?, source, output_type, &mut errors);
                }
            }
        }
    }
    for ((source, output_type, group, full_name), found) in found {
        let place = (source, output_type, group, full_name.clone());
        match model(&mut reader, files, &place, &found, errors.remove(&place)) {
            Ok(Some(model)) => pipeline.models.push(model),
            Ok(None) => {}
            Err(error) => {
                if pipeline.warnings.len() < MAX_WARNINGS {
                    pipeline.warnings.push(format!("{full_name} was left out: {error}"));
                }
            }
        }
    }
    if pipeline.models.is_empty() {
        let why =
            "holds no predictor; want <source>/<output type>/<group>/<trainer>_<node type>.zip or .json";
        return Err(Error::file(path, why));
    }
    scales(&mut pipeline.models);
    Ok(pipeline)
}

/// A pipeline's name, and whether the online trainer promoted its predictors.
fn pipeline_identity(reader: &mut PipelineReader, path: &Path) -> Result<(String, bool), Error> {
    let about: Value = match reader.text("metadata.json") {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Error::file(path, format!("metadata.json is no JSON: {error}")))?,
        Err(error) => return Err(error),
    };
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem =
        if path.is_dir() { path.file_name().map(|name| name.to_string_lossy().into_owned()) } else { stem };
    let name = about["name"].as_str().map(str::to_string).or(stem).unwrap_or_default();
    Ok((name, about["online"].is_object()))
}

enum PredictorFileKind {
    Archive,
    Weights,
    FolderWeights,
    Metadata,
    Predictor,
}

/// Classifies a path: `source/type/group/name.zip`, `….json`, `…/name/metadata.json`,
/// `…/name/weight.json`, `…/name/predictor.json`.
fn place(name: &str) -> Option<(PredictorKey, PredictorFileKind)> {
    let parts: Vec<&str> = name.split('/').collect();
    let (folder, part) = match parts[..] {
        [_, _, _, file] => match file.rsplit_once('.')? {
            (stem, "zip") => (stem, PredictorFileKind::Archive),
            (stem, "json") => (stem, PredictorFileKind::Weights),
            _ => return None,
        },
        [_, _, _, folder, "metadata.json"] => (folder, PredictorFileKind::Metadata),
        [_, _, _, folder, "weight.json"] => (folder, PredictorFileKind::FolderWeights),
        [_, _, _, folder, "predictor.json"] => (folder, PredictorFileKind::Predictor),
        _ => return None,
    };
    ModelName::read(folder)?;
    let source = EnergySource::named(parts[0])?;
    let place = (source, OutputType::named(parts[1])?, FeatureGroup::named(parts[2])?, folder.to_string());
    Some((place, part))
}

/// `<source>_<output type>_model_metadata.csv`.
fn table(name: &str) -> Option<(EnergySource, OutputType)> {
    let (source, output_type) = name.strip_suffix("_model_metadata.csv")?.rsplit_once('_')?;
    Some((EnergySource::named(source)?, OutputType::named(output_type)?))
}

fn read_table(
    bytes: &[u8],
    source: EnergySource,
    output_type: OutputType,
    errors: &mut BTreeMap<PredictorKey, Vec<(String, f64)>>,
) {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let Ok(header) = reader.headers().cloned() else { return };
    let column = |name: &str| header.iter().position(|known| known == name);
    let (Some(model), Some(group)) = (column("model_name"), column("feature_group")) else { return };
    let columns: Vec<(usize, &str)> = header.iter().enumerate().filter(|(_, name)| is_error(name)).collect();
    for record in reader.records().flatten() {
        let (Some(name), Some(group)) = (record.get(model), record.get(group).and_then(FeatureGroup::named))
        else {
            continue;
        };
        let numbers = columns.iter().filter_map(|(column, name)| {
            let value: f64 = record.get(*column)?.trim().parse().ok()?;
            is_known(name, value).then(|| (name.to_string(), value))
        });
        errors.insert((source, output_type, group, name.to_string()), numbers.collect());
    }
}

fn is_error(name: &str) -> bool {
    error_of(name).is_some()
}

/// The error kind of a column, for the predictor or one of its components.
pub(crate) fn error_of(name: &str) -> Option<&'static str> {
    let is_it = |end: &&str| name == *end || name.ends_with(&format!("_{end}"));
    ["mae", "mape", "mse", "abs_max_corr"].into_iter().find(is_it)
}

/// Whether the value is known; -1 stands for unknown. Only correlations may be negative.
pub(crate) fn is_known(name: &str, value: f64) -> bool {
    value.is_finite() && (value >= 0.0 || name.ends_with("_corr"))
}

fn model(
    reader: &mut PipelineReader,
    files: &PipelineFiles,
    place: &PredictorKey,
    found: &PredictorFiles,
    tabled: Option<Vec<(String, f64)>>,
) -> Result<Option<PipelineModel>, Error> {
    let (source, output_type, group, full_name) = place;
    let Some(name) = ModelName::read(full_name) else { return Ok(None) };
    let weights = match &found.weights {
        Some(name) => Some(reader.text(name)?),
        None => None,
    };
    let value = weights.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    // `<name>.json` may also list an archive's files; weights are recognised by their components.
    let is_weights = value.as_ref().is_some_and(|value| {
        KeplerWeights::read(value).and_then(|weights| weights.formulas(&name.trainer).map(drop)).is_ok()
    });
    if found.archive.is_none() && found.predictor.is_none() && !is_weights {
        return match (&found.weights, weights) {
            (Some(_), Some(text)) => {
                let value: Value =
                    serde_json::from_str(&text).map_err(|error| Error::weights("text", error.to_string()))?;
                KeplerWeights::read(&value)?.formulas(&name.trainer)?;
                Ok(None)
            }
            _ => Ok(None),
        };
    }
    let errors = match (&found.metadata, tabled) {
        (Some(file), _) => numbers(&reader.text(file)?)?,
        (None, Some(errors)) => errors,
        (None, None) => match (&found.archive, &value) {
            (Some(file), _) => {
                let bytes = reader.read(file)?;
                let text = files::read_zip_member(&bytes, "metadata.json")
                    .or_else(|| files::read_zip_member(&bytes, &format!("{full_name}/metadata.json")));
                text.map_or(Ok(Vec::new()), |text| numbers(&String::from_utf8_lossy(&text)))?
            }
            (None, Some(value)) => numbers_of(value),
            (None, None) => Vec::new(),
        },
    };
    Ok(Some(PipelineModel {
        name,
        full_name: full_name.clone(),
        source: *source,
        output_type: *output_type,
        group: *group,
        errors,
        weights: weights.filter(|_| is_weights).map(String::into_boxed_str),
        archive: found.archive.clone().map(|name| ModelArchive { files: files.clone(), name }),
        scale: None,
        predictor: found.predictor.clone().map(|name| ModelArchive { files: files.clone(), name }),
    }))
}

fn numbers(text: &str) -> Result<Vec<(String, f64)>, Error> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| Error::weights("metadata.json", error.to_string()))?;
    Ok(numbers_of(&value))
}

fn numbers_of(value: &Value) -> Vec<(String, f64)> {
    let object = value.as_object().into_iter().flatten();
    let errors = object.filter(|(name, _)| is_error(name));
    let numbers = errors.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    numbers.filter(|(name, value)| is_known(name, *value)).collect()
}

/// Predictors of one group and node type share their scale. XGBoost's archives hold theirs in a
/// pickle, so it is taken from a sibling's weights.
fn scales(models: &mut [PipelineModel]) {
    let mut known: BTreeMap<(EnergySource, OutputType, FeatureGroup, u32), Vec<f64>> = BTreeMap::new();
    for model in models.iter() {
        let key = (model.source, model.output_type, model.group, model.name.node_type);
        if known.contains_key(&key) {
            continue;
        }
        let weights = model.weights_value().and_then(|value| KeplerWeights::read(&value).ok());
        let Some(weights) = weights.as_ref().and_then(|weights| weights.0.values().next()) else { continue };
        let of = |name: &&str| weights.all.numerical.get(*name).map(|variable| variable.scale);
        if let Some(scale) = model.group.features().iter().map(of).collect::<Option<Vec<f64>>>() {
            known.insert(key, scale);
        }
    }
    for model in models.iter_mut().filter(|model| model.weights.is_none()) {
        let key = (model.source, model.output_type, model.group, model.name.node_type);
        model.scale = known.get(&key).cloned();
    }
}
