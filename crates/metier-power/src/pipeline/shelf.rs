//! Pipelines that are kept up to date while they are used: read at the start and again when asked, added to by upload, fetched where they are at an address.
//!
//! What cannot be read or fetched any more is not forgotten: the pipeline that was there stays, and the warning says so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::files::replace;
use super::registry::candidates;
use super::{Place, Registry};
use crate::Error;
use crate::defaults::Defaults;
use crate::node::{Index, MachineSpec};
use crate::vocabulary::{FeatureGroup, ModelName, OutputType, Source, shorten};
use crate::weights::Weights;

/// Pipelines that are kept up to date.
pub struct Shelf {
    places: Vec<Place>,
    uploads: Option<PathBuf>,
    defaults: Arc<Defaults>,
    registry: RwLock<Arc<Registry>>,
    /// One upload or reload at a time.
    changing: Mutex<()>,
    /// When what was read last was written.
    seen: Mutex<Vec<Stamp>>,
    /// How the last try to fetch each address ended.
    fetched: Mutex<BTreeMap<String, Result<(), String>>>,
}

/// A predictor that somebody sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Upload {
    /// The pipeline that it goes into.
    pub pipeline: String,
    /// Its name.
    pub name: ModelName,
    /// What it is for.
    pub source: Source,
    /// What it is for.
    pub output_type: OutputType,
    /// What it looks at.
    pub group: FeatureGroup,
    /// Its errors; `mae` at least.
    pub errors: Vec<(String, f64)>,
    /// The machine that it was learned on.
    pub machine_spec: MachineSpec,
    /// Its weights.
    pub weights: Value,
}

impl Upload {
    /// Reads what was sent: `{pipeline, model_name, source, output_type, feature_group, mae, …, machine_spec, weights}`.
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
        let errors: Vec<(String, f64)> = body
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| key.ends_with("mae") || key.ends_with("mape"))
            .filter_map(|(key, value)| Some((key.clone(), value.as_f64()?)))
            .collect();
        if !errors.iter().any(|(key, value)| key == "mae" && *value >= 0.0) {
            return Err(wrong("mae", "the mean absolute error in watts"));
        }
        let machine_spec = match body.get("machine_spec") {
            None | Some(Value::Null) => MachineSpec::default(),
            Some(value) => serde::Deserialize::deserialize(value)
                .map_err(|_| wrong("machine_spec", "processor, cores, chips, memory, frequency"))?,
        };
        let weights = body.get("weights").cloned().unwrap_or(Value::Null);
        Weights::read(&weights)?.formulas(&name.trainer)?;
        Ok(Self {
            pipeline: pipeline.to_string(),
            name,
            source: Source::asked(text("source"))?,
            output_type: output_type.ok_or_else(|| wrong("output_type", "AbsPower or DynPower"))?,
            group: group.ok_or_else(|| wrong("feature_group", "a feature group such as BPFOnly"))?,
            errors,
            machine_spec,
            weights,
        })
    }
}

impl Shelf {
    /// Reads pipelines at these places, beside what is shipped; uploads go below a folder of their own. Nothing is fetched yet ([`Shelf::reload`]): of an address, what
    /// came another time is read.
    pub fn open(places: Vec<Place>, uploads: Option<PathBuf>) -> Result<(Self, Vec<String>), Error> {
        let shelf = Self {
            places,
            uploads,
            defaults: crate::defaults::shipped()?,
            registry: RwLock::default(),
            changing: Mutex::default(),
            seen: Mutex::default(),
            fetched: Mutex::default(),
        };
        let warnings = shelf.read_again(Vec::new());
        Ok((shelf, warnings))
    }

    /// What there is.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the shipped predictors come from.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Where uploads go, if they are taken.
    pub fn uploads(&self) -> Option<&Path> {
        self.uploads.as_deref()
    }

    /// Fetches and reads everything again. A pipeline that cannot be had any more stays as it was.
    pub fn reload(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for place in &self.places {
            let Place::Address(download) = place else { continue };
            let fetched = download.fetch().map(drop).map_err(|error| error.to_string());
            if let Err(why) = &fetched {
                let stays = if download.kept().is_some() { "; what came before stays" } else { "" };
                warnings.push(format!("{why}{stays}"));
            }
            self.fetched.lock().unwrap_or_else(PoisonError::into_inner).insert(download.shown(), fetched);
        }
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_again(warnings)
    }

    /// Reads everything again, without fetching anything.
    pub fn reread(&self) -> Vec<String> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_again(Vec::new())
    }

    /// Whether a pipeline was written, added or taken away since all were read last.
    pub fn has_changed(&self) -> bool {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != stamps(&self.paths())
    }

    fn paths(&self) -> Vec<PathBuf> {
        let uploads = self.uploads.iter().filter(|folder| folder.is_dir());
        let places = self.places.iter().filter_map(Place::path).map(Path::to_path_buf);
        places.chain(uploads.cloned()).collect()
    }

    /// Addresses that were tried, and why the last try failed.
    pub fn fetched(&self) -> BTreeMap<String, Result<(), String>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there is an address that was not tried yet.
    pub fn is_waiting(&self) -> bool {
        let fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        let waits =
            |place: &Place| matches!(place, Place::Address(one) if !fetched.contains_key(&one.shown()));
        self.places.iter().any(waits)
    }

    fn read_again(&self, warnings: Vec<String>) -> Vec<String> {
        let paths = self.paths();
        // Before they are read: what is written meanwhile is seen the next time.
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamps(&paths);
        let mut loaded = Registry::load(&paths);
        loaded.warnings.splice(0..0, warnings);
        let mut registry = Registry::default();
        registry.add(self.defaults.pipeline.clone());
        let before = self.registry();
        for pipeline in &before.pipelines {
            let is_there = loaded.registry.named(&pipeline.name).is_some();
            if !is_there && pipeline.name != self.defaults.pipeline.name && !loaded.warnings.is_empty() {
                loaded.warnings.push(format!("{} stays as it was", pipeline.name));
                registry.add((**pipeline).clone());
            }
        }
        for pipeline in &loaded.registry.pipelines {
            registry.add((**pipeline).clone());
        }
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
        loaded.warnings
    }

    /// Keeps a predictor that was sent, and uses it from now on. Gives where it is.
    pub fn upload(&self, upload: &Upload) -> Result<PathBuf, Error> {
        let Some(root) = &self.uploads else {
            return Err(Error::Word {
                field: "upload",
                got: "a predictor".into(),
                want: "a server that was started with a folder for them".into(),
            });
        };
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let pipeline = root.join(&upload.pipeline);
        let group =
            pipeline.join(upload.source.name()).join(upload.output_type.name()).join(upload.group.name());
        let folder = group.join(upload.name.to_string());
        fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
        let about = pipeline.join("metadata.json");
        if !about.exists() {
            write(&about, &json!({ "name": upload.pipeline, "isolator": "", "extractor": "" }))?;
        }
        let mut metadata: Map<String, Value> =
            upload.errors.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        metadata.insert("model_name".into(), json!(upload.name.to_string()));
        metadata.insert("output_type".into(), json!(upload.output_type.name()));
        metadata.insert("features".into(), json!(upload.group.features()));
        write(&folder.join("metadata.json"), &Value::Object(metadata))?;
        if !upload.machine_spec.is_empty() {
            let path = pipeline.join("node_type_index.json");
            let text = fs::read_to_string(&path).unwrap_or_else(|_| "{}".to_string());
            let mut index = Index::read(&text)?;
            let entry =
                crate::node::Entry { spec: upload.machine_spec.clone(), members: vec!["upload".into()] };
            index.0.insert(upload.name.node_type, entry);
            replace(&path, index.write()?.as_bytes())?;
        }
        let place = group.join(format!("{}.json", upload.name));
        write(&place, &upload.weights)?;
        self.read_again(Vec::new());
        Ok(place)
    }
}

/// A file, its time and its length.
type Stamp = (PathBuf, Option<SystemTime>, u64);

/// What tells whether pipelines are still the same: a zip itself, of a folder its `metadata.json`, which is written last.
fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let all = paths.iter().flat_map(|path| candidates(path).unwrap_or_default());
    all.map(|path| {
        let file = if path.is_dir() { path.join("metadata.json") } else { path };
        let about = fs::metadata(&file).ok();
        let length = about.as_ref().map_or(0, fs::Metadata::len);
        (file, about.and_then(|about| about.modified().ok()), length)
    })
    .collect()
}

fn write(path: &Path, value: &Value) -> Result<(), Error> {
    replace(path, value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Value {
        json!({ "pipeline": "ours", "model_name": "SGDRegressorTrainer_3", "source": "acpi", "output_type": "AbsPower", "feature_group": "BPFOnly", "mae": 1.5,
            "machine_spec": { "processor": "x", "cores": 8 },
            "weights": { "platform": { "All_Weights": { "Bias_Weight": 5.0, "Numerical_Variables": {
                "bpf_cpu_time_ms": { "scale": 1000.0, "weight": 7.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 0.0 } } } } } })
    }

    #[test]
    fn what_was_uploaded_is_used_and_is_there_after_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Shelf::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
        let (shelf, warnings) = open();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(shelf.registry().active(Source::Acpi).unwrap().name, "metier-defaults");
        shelf.upload(&Upload::read(&body()).unwrap()).unwrap();
        for shelf in [shelf, open().0] {
            let registry = shelf.registry();
            let active = registry.active(Source::Acpi).unwrap();
            assert_eq!((active.name.as_str(), active.models[0].error("mae")), ("ours", Some(1.5)));
            assert_eq!(active.index.as_ref().unwrap().0[&3].spec.cores, Some(8.0));
        }
    }

    #[test]
    fn a_pipeline_that_breaks_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, _) = Shelf::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
        shelf.upload(&Upload::read(&body()).unwrap()).unwrap();
        fs::write(folder.path().join("ours/metadata.json"), "{ torn").unwrap();
        let warnings = shelf.reload();
        assert!(warnings.iter().any(|warning| warning.contains("ours stays as it was")), "{warnings:?}");
        assert_eq!(shelf.registry().active(Source::Acpi).unwrap().name, "ours");
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_its_field() {
        for (field, value) in [
            ("pipeline", json!("../outside")),
            ("pipeline", json!(".hidden")),
            ("model_name", json!("SGDRegressorTrainer")),
            ("model_name", json!("../x_1")),
            ("output_type", json!("Power")),
            ("feature_group", json!("Nothing")),
            ("mae", json!("small")),
            ("machine_spec", json!([])),
            ("weights", json!({})),
            ("source", json!("sun")),
        ] {
            let mut body = body();
            body[field] = value.clone();
            assert!(Upload::read(&body).is_err(), "{field} {value}");
        }
    }
}
