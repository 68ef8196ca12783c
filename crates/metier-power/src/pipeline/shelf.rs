//! Pipelines that are kept up to date while they are used: read at the start and again when asked, added to by upload, fetched where they are at an address.
//!
//! What cannot be read or fetched any more is not forgotten: the pipeline that was there stays, and the warning says so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;

use metier_types::{LockUnpoisoned, ShareUnpoisoned, Timestamp};
use serde_json::{Map, Value, json};

use super::files::replace;
use super::load::{error_of, is_known};
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
    /// One who fetches at a time: what came first must not be replaced by what was asked for before it.
    fetching: Mutex<()>,
    /// When what was read last was written.
    seen: Mutex<Vec<Stamp>>,
    /// How the last try to fetch each address ended.
    fetched: Mutex<BTreeMap<String, Result<(), String>>>,
}

/// What an upload has beside errors.
const FIELDS: [&str; 7] =
    ["pipeline", "model_name", "source", "output_type", "feature_group", "machine_spec", "weights"];

/// A predictor that somebody sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Upload {
    /// The pipeline that it goes into.
    pub pipeline: String,
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
        let mut errors: Vec<(String, f64)> = Vec::new();
        for (key, value) in body.as_object().into_iter().flatten() {
            match (error_of(key), value.as_f64()) {
                (Some(_), Some(value)) if is_known(key, value) => errors.push((key.clone(), value)),
                // -1, where nobody knows it.
                (Some(_), Some(_)) => {}
                (Some(end), None) => return Err(wrong_error(end, key, value)),
                (None, _) if FIELDS.contains(&key.as_str()) => {}
                (None, _) => {
                    return Err(Error::Word {
                        field: "body",
                        got: format!("a field {}", shorten(key)),
                        want: format!("{}, or an error such as mae, mape or package_mae", FIELDS.join(", ")),
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
        let source = Source::asked(text("source"))?;
        let output_type = output_type.ok_or_else(|| wrong("output_type", "AbsPower or DynPower"))?;
        let group = group.ok_or_else(|| wrong("feature_group", "a feature group such as BPFOnly"))?;
        let read = Weights::read(&weights)?;
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

/// An error that is no number, which is not to be left out as if it had not been sent.
fn wrong_error(end: &'static str, key: &str, value: &Value) -> Error {
    Error::Word { field: end, got: shorten(&format!("{key} {value}")), want: "a number".to_string() }
}

/// Whether weights are of components that the source has and of the features of the group.
fn fits(weights: &Weights, source: Source, group: FeatureGroup) -> Result<(), Error> {
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
            fetching: Mutex::default(),
            seen: Mutex::default(),
            fetched: Mutex::default(),
        };
        let warnings = shelf.read_again(Vec::new());
        Ok((shelf, warnings))
    }

    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read_unpoisoned().clone()
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
        let _one = self.fetching.lock_unpoisoned();
        for place in &self.places {
            let Place::Address(download) = place else { continue };
            let fetched = download.fetch().map(drop).map_err(|error| error.to_string());
            if let Err(why) = &fetched {
                let stays = if download.kept().is_some() { "; what came before stays" } else { "" };
                warnings.push(format!("{why}{stays}"));
            }
            self.fetched.lock_unpoisoned().insert(download.shown(), fetched);
        }
        let _one = self.changing.lock_unpoisoned();
        self.read_again(warnings)
    }

    /// Reads everything again, without fetching anything.
    pub fn reread(&self) -> Vec<String> {
        let _one = self.changing.lock_unpoisoned();
        self.read_again(Vec::new())
    }

    /// Whether a pipeline was written, added or taken away since all were read last.
    pub fn has_changed(&self) -> bool {
        *self.seen.lock_unpoisoned() != stamps(&self.paths())
    }

    fn paths(&self) -> Vec<PathBuf> {
        let places = self.places.iter().filter_map(Place::path).map(Path::to_path_buf);
        places.chain(self.sent().cloned()).collect()
    }

    /// The folder of what was uploaded, as soon as there is one.
    fn sent(&self) -> impl Iterator<Item = &PathBuf> {
        self.uploads.iter().filter(|folder| folder.is_dir())
    }

    /// What stands against keeping it in its pipeline: another machine has its node type there.
    fn check(&self, upload: &Upload) -> Result<(), Error> {
        let wrong = |field, got: String, want: String| Err(Error::Word { field, got, want });
        if upload.pipeline == self.defaults.pipeline.name {
            return wrong("pipeline", upload.pipeline.clone(), "a name that what is shipped has not".into());
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

    /// Addresses that were tried, and why the last try failed.
    pub fn fetched(&self) -> BTreeMap<String, Result<(), String>> {
        self.fetched.lock_unpoisoned().clone()
    }

    /// Whether there is an address that was not tried yet.
    pub fn is_waiting(&self) -> bool {
        let fetched = self.fetched.lock_unpoisoned();
        let waits =
            |place: &Place| matches!(place, Place::Address(one) if !fetched.contains_key(&one.shown()));
        self.places.iter().any(waits)
    }

    fn read_again(&self, warnings: Vec<String>) -> Vec<String> {
        let paths = self.paths();
        // Before they are read: what is written meanwhile is seen the next time.
        *self.seen.lock_unpoisoned() = stamps(&paths);
        let places: Vec<PathBuf> =
            self.places.iter().filter_map(Place::path).map(Path::to_path_buf).collect();
        let mut loaded = Registry::load(&places);
        loaded.warnings.splice(0..0, warnings);
        let sent = Registry::load(&self.sent().cloned().collect::<Vec<_>>());
        loaded.warnings.extend(sent.warnings);
        let mut registry = Registry::default();
        registry.add_shipped(self.defaults.pipeline.clone());
        let before = self.registry();
        for pipeline in &before.pipelines {
            // What was sent may be only a part of what the pipeline had.
            let is_sent = |sent: &Arc<super::Pipeline>| sent.models.len() >= pipeline.models.len();
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
        // What was sent is added to what is there, and takes the place of nothing else.
        for pipeline in &sent.registry.pipelines {
            registry.merge((**pipeline).clone());
        }
        *self.registry.write_unpoisoned() = Arc::new(registry);
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
        let _one = self.changing.lock_unpoisoned();
        self.check(upload)?;
        let pipeline = root.join(&upload.pipeline);
        let group =
            pipeline.join(upload.source.name()).join(upload.output_type.name()).join(upload.group.name());
        let folder = group.join(upload.name.to_string());
        fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
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
        // Always, and last: other processes see by it that there is something new.
        let path = pipeline.join("metadata.json");
        let mut about: Map<String, Value> =
            fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        for (key, value) in [("name", upload.pipeline.as_str()), ("isolator", ""), ("extractor", "")] {
            about.entry(key).or_insert_with(|| json!(value));
        }
        let now = Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        about.insert("last_update_time".into(), json!(now));
        write(&path, &Value::Object(about))?;
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
    fn every_upload_is_seen_by_others_that_have_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, _) = Shelf::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
        let (other, _) = Shelf::open(vec![Place::Path(folder.path().to_path_buf())], None).unwrap();
        for (number, name) in ["SGDRegressorTrainer_3", "LinearRegressionTrainer_3"].iter().enumerate() {
            let mut body = body();
            body["model_name"] = json!(name);
            shelf.upload(&Upload::read(&body).unwrap()).unwrap();
            assert!(other.has_changed() && !shelf.has_changed(), "{name}");
            other.reread();
            assert_eq!(other.registry().named("ours").unwrap().models.len(), number + 1);
            assert!(!other.has_changed());
        }
    }

    #[test]
    fn an_error_that_nobody_knows_is_smaller_than_none() {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, _) = Shelf::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
        let mut known = body();
        known["mape"] = json!(7.0);
        shelf.upload(&Upload::read(&known).unwrap()).unwrap();
        let mut unknown = body();
        unknown["model_name"] = json!("LinearRegressionTrainer_3");
        unknown["mape"] = json!(-1);
        let unknown = Upload::read(&unknown).unwrap();
        assert_eq!(unknown.errors, [("mae".to_string(), 1.5)]);
        shelf.upload(&unknown).unwrap();
        // As our trainers write it, which the original does too.
        let group = folder.path().join("ours/acpi/AbsPower/BPFOnly");
        let about = json!({ "mae": 1.5, "mape": -1.0, "abs_max_corr": -0.5 });
        write(&group.join("LinearRegressionTrainer_3/metadata.json"), &about).unwrap();
        shelf.reread();
        let ask = |filter: &str| {
            let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "AbsPower", "source": "acpi",
                "weight": true, "pipeline_name": "ours", "filter": filter });
            let request = crate::selection::Request::read(&request).unwrap();
            let registry = shelf.registry();
            let chosen = crate::selection::select(&registry, &request, "mape", &|_| true).unwrap().unwrap();
            chosen.model.full_name.clone()
        };
        assert_eq!(ask(""), "SGDRegressorTrainer_3");
        assert_eq!(ask("mape:10"), "SGDRegressorTrainer_3");
        assert_eq!(ask("abs_max_corr:-0.9"), "LinearRegressionTrainer_3", "a correlation may be below 0");
    }

    #[test]
    fn what_is_uploaded_is_added_and_displaces_nothing() {
        let (base, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // A pipeline that others made, of another machine.
        let (made, _) = Shelf::open(Vec::new(), Some(base.path().to_path_buf())).unwrap();
        let mut other = body();
        for (name, output_type) in
            [("SGDRegressorTrainer_0", "AbsPower"), ("SGDRegressorTrainer_0", "DynPower")]
        {
            other["model_name"] = json!(name);
            other["output_type"] = json!(output_type);
            other["machine_spec"] = json!({ "processor": "y", "cores": 16 });
            made.upload(&Upload::read(&other).unwrap()).unwrap();
        }
        let places = vec![Place::Path(base.path().join("ours"))];
        let (shelf, _) = Shelf::open(places, Some(folder.path().to_path_buf())).unwrap();
        // Its node type is taken by another machine; the next is free.
        let mut new = body();
        new["model_name"] = json!("SGDRegressorTrainer_0");
        let error = shelf.upload(&Upload::read(&new).unwrap()).unwrap_err().to_string();
        assert!(error.contains("SGDRegressorTrainer_1"), "{error}");
        new["model_name"] = json!("SGDRegressorTrainer_1");
        shelf.upload(&Upload::read(&new).unwrap()).unwrap();
        let count = |shelf: &Shelf| shelf.registry().named("ours").unwrap().models.len();
        assert_eq!(count(&shelf), 3);
        // Also where the pipeline itself cannot be read any more.
        fs::write(base.path().join("ours/metadata.json"), "{ torn").unwrap();
        let warnings = shelf.reload();
        assert!(warnings.iter().any(|warning| warning.contains("ours stays as it was")), "{warnings:?}");
        assert_eq!(count(&shelf), 3);
        // In a pipeline of its own it answers for its machine, and the other machine is answered as before.
        new["pipeline"] = json!("uploads");
        shelf.upload(&Upload::read(&new).unwrap()).unwrap();
        let ask = |machine: Value, output_type: &str| {
            let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": output_type, "source": "acpi",
                "weight": true, "node_type": 0, "machine_spec": machine });
            let request = crate::selection::Request::read(&request).unwrap();
            let registry = shelf.registry();
            let chosen = crate::selection::select(&registry, &request, "mae", &|_| true).unwrap().unwrap();
            (chosen.pipeline.name.clone(), chosen.model.name.node_type)
        };
        let (other, own) =
            (json!({ "processor": "y", "cores": 16 }), json!({ "processor": "x", "cores": 8 }));
        assert_eq!(ask(other.clone(), "DynPower"), ("ours".to_string(), 0));
        assert_eq!(ask(other, "AbsPower"), ("ours".to_string(), 0));
        assert_eq!(ask(own, "AbsPower"), ("uploads".to_string(), 1));
        new["pipeline"] = json!("metier-defaults");
        assert!(shelf.upload(&Upload::read(&new).unwrap()).is_err());
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
            ("source", json!("rapl-sysfs")),
            ("feature_group", json!("CounterOnly")),
            ("mape", json!("small")),
            ("machine_specs", json!({ "cores": 8 })),
        ] {
            let mut body = body();
            body[field] = value.clone();
            assert!(Upload::read(&body).is_err(), "{field} {value}");
        }
    }
}
