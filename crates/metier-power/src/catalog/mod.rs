//! Pipelines that are updated while the process runs. They are read at start and reread on request.
//! Uploads add predictors; pipelines with an address are downloaded.
//!
//! If a pipeline can no longer be read or downloaded, the loaded version stays in use and a
//! warning is issued.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;

use metier_types::{LockUnpoisoned, ShareUnpoisoned, UtcTimestamp};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::defaults::ShippedPredictors;
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType, shorten};
use crate::node::MachineSpec;
use crate::pipeline::load::{error_of, is_known};
use crate::pipeline::{
    PipelineLocation, PredictorPipeline, group_folder, read_metadata, read_node_types, replace,
    write_metadata, write_node_types,
};
use crate::selection::{PipelineRegistry, candidates};
use crate::weights::KeplerWeights;

/// Pipelines that can be reloaded and extended at run time.
pub struct PipelineCatalog {
    places: Vec<PipelineLocation>,
    uploads: Option<PathBuf>,
    defaults: Arc<ShippedPredictors>,
    registry: RwLock<Arc<PipelineRegistry>>,
    /// Serialises uploads and reloads.
    changing: Mutex<()>,
    /// Serialises downloads, so that an older answer never replaces a newer one.
    fetching: Mutex<()>,
    /// File stamps of the pipelines at the last read.
    seen: Mutex<Vec<FileStamp>>,
    /// Result of the last download from each address.
    fetched: Mutex<BTreeMap<String, Result<(), String>>>,
}

/// Fields of an upload that are not errors.
const UPLOAD_FIELDS: [&str; 7] =
    ["pipeline", "model_name", "source", "output_type", "feature_group", "machine_spec", "weights"];

/// An uploaded predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictorUpload {
    /// Name of the pipeline that receives the predictor.
    pub pipeline: String,
    pub name: ModelName,
    /// Energy source of the predictor.
    pub source: EnergySource,
    /// Output type of the predictor.
    pub output_type: OutputType,
    /// Feature group of the predictor.
    pub group: FeatureGroup,
    /// Held-out errors; at least `mae`.
    pub errors: Vec<(String, f64)>,
    /// The machine whose rows the predictor was trained on.
    pub machine_spec: MachineSpec,
    pub weights: Value,
}

impl PredictorUpload {
    /// Reads an upload body: `{pipeline, model_name, source, output_type, feature_group, mae, …,
    /// machine_spec, weights}`.
    pub fn read(body: &Value) -> Result<Self, Error> {
        let wrong = |field: &'static str, want: &str| Error::Word {
            field,
            got: shorten(&body.get(field).unwrap_or(&Value::Null).to_string()),
            want: want.to_string(),
        };
        let text = |field: &'static str| body.get(field).and_then(Value::as_str);
        let pipeline = text("pipeline").unwrap_or("uploads");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if pipeline.is_empty()
            || pipeline.len() > 100
            || pipeline.starts_with('.')
            || !pipeline.chars().all(is_plain)
        {
            return Err(wrong("pipeline", "up to 100 letters, digits, '-', '_' or '.'"));
        }
        let name = text("model_name").and_then(ModelName::read);
        let name = name.filter(|name| name.trainer.len() <= 100 && name.trainer.chars().all(is_plain));
        let name = name.ok_or_else(|| wrong("model_name", "<trainer>_<node type>"))?;
        let output_type = text("output_type").and_then(OutputType::named);
        let group = text("feature_group").and_then(FeatureGroup::named);
        let mut errors: Vec<(String, f64)> = Vec::new();
        for (key, value) in body.as_object().into_iter().flatten() {
            match (error_of(key), value.as_f64()) {
                (Some(_), Some(value)) if is_known(key, value) => errors.push((key.clone(), value)),
                // -1 stands for an unknown value.
                (Some(_), Some(_)) => {}
                (Some(end), None) => return Err(wrong_error(end, key, value)),
                (None, _) if UPLOAD_FIELDS.contains(&key.as_str()) => {}
                (None, _) => {
                    return Err(Error::Word {
                        field: "body",
                        got: format!("a field {}", shorten(key)),
                        want: format!(
                            "{}, or an error such as mae, mape or package_mae",
                            UPLOAD_FIELDS.join(", ")
                        ),
                    });
                }
            }
        }
        if !errors.iter().any(|(key, _)| key == "mae") {
            return Err(wrong("mae", "the mean absolute error in watts"));
        }
        let machine_spec = match body.get("machine_spec") {
            None | Some(Value::Null) => MachineSpec::default(),
            Some(value) => serde::Deserialize::deserialize(value)
                .map_err(|_| wrong("machine_spec", "processor, cores, chips, memory, frequency"))?,
        };
        let weights = body.get("weights").cloned().unwrap_or(Value::Null);
        let source = EnergySource::from_request(text("source"))?;
        let output_type = output_type.ok_or_else(|| wrong("output_type", "AbsPower or DynPower"))?;
        let group = group.ok_or_else(|| wrong("feature_group", "a feature group such as BPFOnly"))?;
        let read = KeplerWeights::read(&weights)?;
        read.formulas(&name.trainer)?;
        fits(&read, source, group)?;
        Ok(Self {
            pipeline: pipeline.to_string(),
            name,
            source,
            output_type,
            group,
            errors,
            machine_spec,
            weights,
        })
    }
}

/// Rejects an error value that is not a number; dropping it silently would hide the fault.
fn wrong_error(end: &'static str, key: &str, value: &Value) -> Error {
    Error::Word { field: end, got: shorten(&format!("{key} {value}")), want: "a number".to_string() }
}

/// Checks that the weights fit: components of the source, features of the group.
fn fits(weights: &KeplerWeights, source: EnergySource, group: FeatureGroup) -> Result<(), Error> {
    let known: Vec<&str> = source.components().iter().map(|component| component.name()).collect();
    for (component, of) in &weights.0 {
        let name = component.name();
        if !known.contains(&name) {
            let why = format!("is no component of {}; want {}", source.name(), known.join(", "));
            return Err(Error::weights(name.to_string(), why));
        }
        let features: Vec<&str> = of.all.numerical.keys().map(String::as_str).collect();
        if features != group.features() {
            let (got, want) = (shorten(&features.join(", ")), group.features().join(", "));
            let why = format!("has {got}; want {want}, the features of {}", group.name());
            return Err(Error::weights(format!("{name}.All_Weights.Numerical_Variables"), why));
        }
    }
    Ok(())
}

impl PipelineCatalog {
    /// Opens the pipelines at these places and the shipped ones; uploads go to a folder of their
    /// own. Nothing is downloaded yet ([`PipelineCatalog::reload`]): earlier downloads are read
    /// from disk.
    pub fn open(
        places: Vec<PipelineLocation>,
        uploads: Option<PathBuf>,
    ) -> Result<(Self, Vec<String>), Error> {
        let shelf = Self {
            places,
            uploads,
            defaults: crate::defaults::shipped()?,
            registry: RwLock::default(),
            changing: Mutex::default(),
            fetching: Mutex::default(),
            seen: Mutex::default(),
            fetched: Mutex::default(),
        };
        let warnings = shelf.read_again(Vec::new());
        Ok((shelf, warnings))
    }

    pub fn registry(&self) -> Arc<PipelineRegistry> {
        self.registry.read_unpoisoned().clone()
    }

    /// The shipped predictors.
    pub fn defaults(&self) -> &ShippedPredictors {
        &self.defaults
    }

    /// Folder for uploads; `None` if uploads are disabled.
    pub fn uploads(&self) -> Option<&Path> {
        self.uploads.as_deref()
    }

    /// Downloads and rereads all pipelines. A pipeline that cannot be loaded keeps its previous
    /// version.
    pub fn reload(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let _one = self.fetching.lock_unpoisoned();
        for place in &self.places {
            let PipelineLocation::Address(download) = place else { continue };
            let fetched = download.fetch().map(drop).map_err(|error| error.to_string());
            if let Err(why) = &fetched {
                let stays = if download.downloaded_file().is_some() {
                    "; the earlier version stays in use"
                } else {
                    ""
                };
                warnings.push(format!("{why}{stays}"));
            }
            self.fetched.lock_unpoisoned().insert(download.display_address(), fetched);
        }
        let _one = self.changing.lock_unpoisoned();
        self.read_again(warnings)
    }

    /// Rereads all pipelines from disk, without downloads.
    pub fn reread(&self) -> Vec<String> {
        let _one = self.changing.lock_unpoisoned();
        self.read_again(Vec::new())
    }

    /// Whether a pipeline was written, added or removed since the last read.
    pub fn has_changed(&self) -> bool {
        *self.seen.lock_unpoisoned() != stamps(&self.paths())
    }

    fn paths(&self) -> Vec<PathBuf> {
        let places = self.places.iter().filter_map(PipelineLocation::path).map(Path::to_path_buf);
        places.chain(self.upload_folders().cloned()).collect()
    }

    /// The uploads folder, once it exists.
    fn upload_folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.uploads.iter().filter(|folder| folder.is_dir())
    }

    /// Rejects an upload if another machine already has its node type in the pipeline.
    fn check(&self, upload: &PredictorUpload) -> Result<(), Error> {
        let wrong = |field, got: String, want: String| Err(Error::Word { field, got, want });
        if upload.pipeline == self.defaults.pipeline.name {
            return wrong(
                "pipeline",
                upload.pipeline.clone(),
                "a name other than the shipped pipeline's".into(),
            );
        }
        let registry = self.registry();
        let index = registry.named(&upload.pipeline).and_then(|pipeline| pipeline.index.as_ref());
        let Some(index) = index else { return Ok(()) };
        let number = upload.name.node_type;
        let is_other = |spec: &MachineSpec| !upload.machine_spec.is_empty() && *spec != upload.machine_spec;
        match index.0.get(&number) {
            Some(entry) if is_other(&entry.spec) => {
                let free = index.0.keys().last().map_or(0, |last| last.saturating_add(1));
                let own = index.0.iter().find(|(_, entry)| entry.spec == upload.machine_spec);
                let free = own.map_or(free, |(number, _)| *number);
                let (pipeline, trainer) = (&upload.pipeline, &upload.name.trainer);
                let got = format!("{}, and node type {number} of {pipeline} is another machine", upload.name);
                wrong("model_name", got, format!("{trainer}_{free}, or another pipeline"))
            }
            _ => Ok(()),
        }
    }

    /// Download result of each address that was tried.
    pub fn fetch_results(&self) -> BTreeMap<String, Result<(), String>> {
        self.fetched.lock_unpoisoned().clone()
    }

    /// Whether an address was not tried yet.
    pub fn is_waiting(&self) -> bool {
        let fetched = self.fetched.lock_unpoisoned();
        let waits = |place: &PipelineLocation| matches!(place, PipelineLocation::Address(download) if !fetched.contains_key(&download.display_address()));
        self.places.iter().any(waits)
    }

    fn read_again(&self, warnings: Vec<String>) -> Vec<String> {
        let paths = self.paths();
        // Taken before the read, so that a write during the read is detected the next time.
        *self.seen.lock_unpoisoned() = stamps(&paths);
        let places: Vec<PathBuf> =
            self.places.iter().filter_map(PipelineLocation::path).map(Path::to_path_buf).collect();
        let mut loaded = PipelineRegistry::load(&places);
        loaded.warnings.splice(0..0, warnings);
        let sent = PipelineRegistry::load(&self.upload_folders().cloned().collect::<Vec<_>>());
        loaded.warnings.extend(sent.warnings);
        let mut registry = PipelineRegistry::default();
        registry.add_shipped(self.defaults.pipeline.clone());
        let before = self.registry();
        for pipeline in &before.pipelines {
            // An upload may hold only a part of the pipeline's predictors.
            let is_sent = |sent: &Arc<PredictorPipeline>| sent.models.len() >= pipeline.models.len();
            let is_there = loaded.registry.named(&pipeline.name).is_some()
                || sent.registry.named(&pipeline.name).is_some_and(is_sent);
            if !is_there && pipeline.name != self.defaults.pipeline.name && !loaded.warnings.is_empty() {
                loaded.warnings.push(format!("{} stays as it was", pipeline.name));
                let stays = (**pipeline).clone();
                if before.is_placed(&pipeline.name) { registry.add(stays) } else { registry.merge(stays) }
            }
        }
        for pipeline in &loaded.registry.pipelines {
            registry.add((**pipeline).clone());
        }
        // Uploaded predictors are merged; existing predictors of other names stay.
        for pipeline in &sent.registry.pipelines {
            registry.merge((**pipeline).clone());
        }
        *self.registry.write_unpoisoned() = Arc::new(registry);
        loaded.warnings
    }

    /// Stores an uploaded predictor and puts it in use. Returns its path.
    pub fn upload(&self, upload: &PredictorUpload) -> Result<PathBuf, Error> {
        let Some(root) = &self.uploads else {
            return Err(Error::Word {
                field: "upload",
                got: "a predictor".into(),
                want: "a server that was started with a folder for them".into(),
            });
        };
        let _one = self.changing.lock_unpoisoned();
        self.check(upload)?;
        let pipeline = root.join(&upload.pipeline);
        let group = group_folder(&pipeline, upload.source, upload.output_type, upload.group);
        let folder = group.join(upload.name.to_string());
        fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
        let mut metadata: Map<String, Value> =
            upload.errors.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        metadata.insert("model_name".into(), json!(upload.name.to_string()));
        metadata.insert("output_type".into(), json!(upload.output_type.name()));
        metadata.insert("features".into(), json!(upload.group.features()));
        write_metadata(&folder, metadata)?;
        if !upload.machine_spec.is_empty() {
            let mut index = read_node_types(&pipeline)?;
            let entry = crate::node::NodeTypeEntry {
                spec: upload.machine_spec.clone(),
                members: vec!["upload".into()],
            };
            index.0.insert(upload.name.node_type, entry);
            write_node_types(&pipeline, &index)?;
        }
        let place = group.join(format!("{}.json", upload.name));
        replace(&place, upload.weights.to_string().as_bytes())?;
        let mut about = read_metadata(&pipeline);
        for (key, value) in [("name", upload.pipeline.as_str()), ("isolator", ""), ("extractor", "")] {
            about.entry(key).or_insert_with(|| json!(value));
        }
        let now = UtcTimestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        about.insert("last_update_time".into(), json!(now));
        write_metadata(&pipeline, about)?;
        self.read_again(Vec::new());
        Ok(place)
    }
}

/// Path, modification time and length of a file.
type FileStamp = (PathBuf, Option<SystemTime>, u64);

/// Stamps that detect changed pipelines: of a zip the file itself, of a folder its `metadata.json`,
/// which is written last.
fn stamps(paths: &[PathBuf]) -> Vec<FileStamp> {
    let all = paths.iter().flat_map(|path| candidates(path).unwrap_or_default());
    all.map(|path| {
        let file = if path.is_dir() { path.join("metadata.json") } else { path };
        let about = fs::metadata(&file).ok();
        let length = about.as_ref().map_or(0, fs::Metadata::len);
        (file, about.and_then(|about| about.modified().ok()), length)
    })
    .collect()
}

#[cfg(test)]
mod tests;
