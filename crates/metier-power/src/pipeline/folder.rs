//! Shared layout of a pipeline's folder: metadata, node types, and the paths of predictors.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::replace;
use crate::Error;
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType, PowerTrainer};
use crate::node::{MachineSpec, NodeTypeIndex};

const METADATA: &str = "metadata.json";
const NODE_TYPES: &str = "node_type_index.json";

/// Folder of the predictors of a source, output type and feature group.
pub fn group_folder(
    root: &Path,
    source: EnergySource,
    output_type: OutputType,
    group: FeatureGroup,
) -> PathBuf {
    root.join(source.name()).join(output_type.name()).join(group.name())
}

/// Metadata of a pipeline; empty if missing or unreadable.
pub fn read_metadata(folder: &Path) -> Map<String, Value> {
    let text = fs::read(folder.join(METADATA)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Writes a pipeline's metadata. It must be written last, since other processes detect changes by
/// it.
pub fn write_metadata(folder: &Path, metadata: Map<String, Value>) -> Result<(), Error> {
    replace(&folder.join(METADATA), Value::Object(metadata).to_string().as_bytes())
}

/// The `metadata.json` fields common to all trainers, with the original's names.
pub fn predictor_metadata(
    name: &ModelName,
    file: &str,
    features: &[impl Serialize],
    output_type: OutputType,
    machine: Option<&MachineSpec>,
) -> Map<String, Value> {
    let class = PowerTrainer::named(&name.trainer).map_or("metier", PowerTrainer::class);
    let mut about = Map::new();
    let mut set = |key: &str, value: Value| drop(about.insert(key.to_string(), value));
    set("model_name", json!(name.to_string()));
    set("trainer", json!(name.trainer));
    set("model_class", json!(class));
    set("model_file", json!(file));
    set("features", json!(features));
    // The scale is inside the model file, so there is no feature-engineering pickle; readers expect
    // the key.
    set("fe_files", json!([]));
    set("output_type", json!(output_type.name()));
    set("node_type", json!(name.node_type));
    if let Some(machine) = machine {
        set("machine_spec", json!(machine));
    }
    about
}

/// Node types of a pipeline; empty if it has no index file.
pub fn read_node_types(folder: &Path) -> Result<NodeTypeIndex, Error> {
    let path = folder.join(NODE_TYPES);
    match fs::read_to_string(&path) {
        Ok(text) => NodeTypeIndex::read(&text).map_err(|error| Error::file(&path, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(NodeTypeIndex::default()),
        Err(error) => Err(Error::file(&path, error)),
    }
}

/// Writes the node types of a pipeline.
pub fn write_node_types(folder: &Path, index: &NodeTypeIndex) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    replace(&folder.join(NODE_TYPES), index.write()?.as_bytes())
}
