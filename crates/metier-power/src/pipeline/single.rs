//! A single predictor received as an archive or as weights, and its storage in a pipeline of single
//! predictors.
//!
//! From an archive only the metadata, the weights and `predictor.json` are read, by their fixed
//! names. Other member names are not trusted, and other members are not read.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::files::{self, replace};
use super::{group_folder, load, read_node_types, write_metadata, write_node_types};
use crate::Error;
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType, shorten};
use crate::node::{MachineSpec, NodeTypeEntry};
use crate::weights::KeplerWeights;

/// Output type and source of a predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PredictorPurpose {
    /// Whether idle power is part of the estimate.
    pub output_type: OutputType,
    /// Source of the training energy.
    pub source: EnergySource,
}

/// A single predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct SinglePredictor {
    name: ModelName,
    group: FeatureGroup,
    about: Map<String, Value>,
    weights: Option<Vec<u8>>,
    predictor: Option<Vec<u8>>,
    archive: Option<Vec<u8>>,
}

impl SinglePredictor {
    /// Reads a zip or JSON, detected by content. `known` is the name given by its sender.
    pub fn read(bytes: &[u8], known: &str) -> Result<Self, Error> {
        if bytes.starts_with(b"PK") {
            return Self::of_archive(bytes, known);
        }
        let value = serde_json::from_slice(bytes);
        let value =
            value.map_err(|_| Error::weights(shorten(known), "is neither a zip nor JSON of weights"))?;
        Self::of_weights(&value, known)
    }

    pub fn of_archive(bytes: &[u8], known: &str) -> Result<Self, Error> {
        let member = |file: &str| {
            files::read_zip_member(bytes, file)
                .or_else(|| files::read_zip_member(bytes, &format!("{known}/{file}")))
        };
        let wrong = |why: &str| Error::weights(shorten(known), why);
        let about = member("metadata.json").ok_or_else(|| wrong("has no metadata.json in its archive"))?;
        let about: Map<String, Value> = serde_json::from_slice(&about)
            .map_err(|_| wrong("has a metadata.json that is no JSON object"))?;
        let name = about.get("model_name").and_then(Value::as_str).unwrap_or(known);
        let features = about.get("features").and_then(Value::as_array);
        let features: Vec<&str> = features.into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(Self {
            name: parse_model_name(name)?,
            group: group(&features)?,
            weights: member("weight.json"),
            predictor: member("predictor.json"),
            archive: Some(bytes.to_vec()),
            about,
        })
    }

    /// Reads weights, as a model server sends them or as they are published.
    pub fn of_weights(value: &Value, known: &str) -> Result<Self, Error> {
        let object = value.as_object().ok_or_else(|| Error::weights("text", "is no object"))?;
        let name = parse_model_name(object.get("model_name").and_then(Value::as_str).unwrap_or(known))?;
        let weights = KeplerWeights::read(value)?;
        weights.formulas(&name.trainer)?;
        let features = weights.features();
        let features: Vec<&str> = features.iter().map(String::as_str).collect();
        let is_weight = |key: &String| crate::kepler_terms::PowerComponent::named(key).is_some();
        let of = |is_wanted: bool| {
            let filter = object.iter().filter(|(key, _)| is_weight(key) == is_wanted);
            filter.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<String, Value>>()
        };
        let text = Value::Object(of(true)).to_string();
        let group = group(&features)?;
        Ok(Self { name, group, about: of(false), weights: Some(text.into()), predictor: None, archive: None })
    }

    /// Name of the predictor.
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// Stores it in a pipeline's folder, which is created if missing. Returns whether it can be
    /// evaluated.
    pub fn store_in(&self, folder: &Path, purpose: PredictorPurpose) -> Result<bool, Error> {
        let stated = self.about.get("output_type").and_then(Value::as_str);
        if let Some(stated) = stated.filter(|stated| *stated != purpose.output_type.name()) {
            let why = format!("is for {}; want {}", shorten(stated), purpose.output_type.name());
            return Err(Error::weights(self.name(), why));
        }
        let output_type = purpose.output_type.name();
        let group = group_folder(folder, purpose.source, purpose.output_type, self.group);
        let name = ModelName { node_type: self.number(folder, purpose)?, ..self.name.clone() };
        let is_member = |entry: &NodeTypeEntry| entry.members.contains(&self.name());
        if name != self.name && !read_node_types(folder)?.0.get(&self.name.node_type).is_some_and(is_member) {
            // Removes the form stored before its node type number was given to another machine.
            let _ = fs::remove_dir_all(group.join(self.name()));
            let _ = fs::remove_file(group.join(format!("{}.zip", self.name())));
        }
        let own = group.join(name.to_string());
        fs::create_dir_all(&own).map_err(|error| Error::file(&own, error))?;
        let put = |path: &Path, bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => replace(path, bytes),
            None => Ok(()),
        };
        put(&own.join("weight.json"), &self.weights)?;
        put(&own.join("predictor.json"), &self.predictor)?;
        put(&group.join(format!("{name}.zip")), &self.archive)?;
        let mut about = self.about.clone();
        about.insert("model_name".into(), json!(name.to_string()));
        about.insert("features".into(), json!(self.group.features()));
        about.insert("output_type".into(), json!(output_type));
        write_metadata(&own, about)?;
        self.join_index(folder, &name)?;
        let pipeline = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        write_metadata(folder, Map::from_iter([("name".to_string(), json!(pipeline))]))?;
        let is_this = |model: &super::PipelineModel| {
            model.name == name
                && model.source == purpose.source
                && model.output_type == purpose.output_type
                && model.group == self.group
        };
        Ok(load(folder)?.models.iter().any(|model| is_this(model) && model.is_usable()))
    }

    /// The training machine, if the metadata has it.
    fn machine(&self) -> Option<MachineSpec> {
        let spec = self.about.get("machine_spec").cloned()?;
        serde_json::from_value::<MachineSpec>(spec).ok().filter(|spec| !spec.is_empty())
    }

    /// A free node type number: its own, unless that belongs to another machine in the folder.
    /// Predictors may come from several pipelines, each of which numbers its machines from 0.
    fn number(&self, folder: &Path, purpose: PredictorPurpose) -> Result<u32, Error> {
        let index = read_node_types(folder)?;
        let own = self.name.node_type;
        let Some(spec) = self.machine() else {
            let is_free = |number: &u32| !index.0.contains_key(number);
            return Ok(Some(own).filter(is_free).or_else(|| (0..).find(is_free)).unwrap_or(own));
        };
        if let Some((number, _)) = index.0.iter().find(|(_, entry)| entry.spec == spec) {
            return Ok(*number);
        }
        // Numbers of predictors with unknown machines must not be reused.
        let models = if folder.join("metadata.json").is_file() { load(folder)?.models } else { Vec::new() };
        let taken: BTreeSet<u32> =
            models.iter().map(|model| model.name.node_type).chain(index.0.keys().copied()).collect();
        let is_own = |model: &super::PipelineModel| {
            let of = PredictorPurpose { output_type: model.output_type, source: model.source };
            model.name == self.name && of == purpose && !index.0.contains_key(&own)
        };
        match taken.contains(&own) && !models.iter().any(is_own) {
            true => Ok(taken.last().map_or(0, |last| last.saturating_add(1))),
            false => Ok(own),
        }
    }

    /// Records its machine in the node type index, so that the core count is known.
    fn join_index(&self, folder: &Path, name: &ModelName) -> Result<(), Error> {
        let Some(spec) = self.machine() else { return Ok(()) };
        let mut index = read_node_types(folder)?;
        let entry =
            index.0.entry(name.node_type).or_insert_with(|| NodeTypeEntry { spec, members: Vec::new() });
        if !entry.members.contains(&name.to_string()) {
            entry.members.push(name.to_string());
        }
        write_node_types(folder, &index)
    }
}

fn parse_model_name(name: &str) -> Result<ModelName, Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let read = ModelName::read(name).filter(|name| name.trainer.len() <= 100);
    read.filter(|name| !name.trainer.is_empty() && name.trainer.chars().all(is_plain)).ok_or_else(|| {
        Error::Word {
            field: "model_name",
            got: shorten(name),
            want: "<trainer>_<node type>, such as SGDRegressorTrainer_0".into(),
        }
    })
}

/// The group with exactly these features.
fn group(features: &[&str]) -> Result<FeatureGroup, Error> {
    let mut sorted = features.to_vec();
    sorted.sort_unstable();
    FeatureGroup::ALL.into_iter().find(|group| group.features() == sorted).ok_or_else(|| Error::Word {
        field: "features",
        got: shorten(&features.join(", ")),
        want: "those of one feature group, such as bpf_cpu_time_ms, bpf_page_cache_hit".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::pack;
    use super::*;

    const PURPOSE: PredictorPurpose =
        PredictorPurpose { output_type: OutputType::AbsPower, source: EnergySource::Acpi };

    fn weights() -> Value {
        json!({ "model_name": "SGDRegressorTrainer_3", "mae": 1.5, "machine_spec": { "processor": "x", "cores": 8 },
            "platform": { "All_Weights": { "Bias_Weight": 5.0, "Categorical_Variables": {}, "Numerical_Variables": {
                "bpf_cpu_time_ms": { "scale": 1000.0, "weight": 7.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 0.0 } } } } })
    }

    fn stored_models(folder: &Path) -> Vec<(String, bool, Option<f64>)> {
        let pipeline = load(folder).unwrap();
        let about = |model: &super::super::PipelineModel| {
            (model.full_name.clone(), model.is_usable(), model.error("mae"))
        };
        pipeline.models.iter().map(about).collect()
    }

    #[test]
    fn weights_as_a_server_gives_them_are_kept_with_whose_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("model-server");
        let single = SinglePredictor::of_weights(&weights(), "").unwrap();
        assert!(single.store_in(&folder, PURPOSE).unwrap());
        assert_eq!(stored_models(&folder), [("SGDRegressorTrainer_3".to_string(), true, Some(1.5))]);
        assert_eq!(load(&folder).unwrap().index.unwrap().0[&3].spec.cores, Some(8.0));
        // Published weights have no name inside; the file name is used.
        let mut plain = weights();
        plain.as_object_mut().unwrap().remove("model_name");
        assert_eq!(
            SinglePredictor::of_weights(&plain, "SGDRegressorTrainer_7").unwrap().name(),
            "SGDRegressorTrainer_7"
        );
        assert!(
            SinglePredictor::of_weights(&plain, "weights").unwrap_err().to_string().contains("model_name")
        );
    }

    #[test]
    fn an_archive_with_weights_is_used_and_one_with_pickles_only_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("model-server");
        let about = json!({ "model_name": "SGDRegressorTrainer_1", "mae": 2.0, "output_type": "AbsPower", "features": ["bpf_cpu_time_ms", "bpf_page_cache_hit"] });
        let file = |name: &str, bytes: &str| (name.to_string(), bytes.as_bytes().to_vec());
        let with =
            pack(&[file("metadata.json", &about.to_string()), file("weight.json", &weights().to_string())])
                .unwrap();
        assert!(SinglePredictor::read(&with, "").unwrap().store_in(&folder, PURPOSE).unwrap());
        let mut other = about.clone();
        other["model_name"] = json!("KNeighborsRegressorTrainer_1");
        let pickled =
            pack(&[file("metadata.json", &other.to_string()), file("platform.pkl", "\u{80}")]).unwrap();
        assert!(!SinglePredictor::read(&pickled, "").unwrap().store_in(&folder, PURPOSE).unwrap());
        assert_eq!(stored_models(&folder).len(), 2);
        let wrong = SinglePredictor::read(&with, "").unwrap();
        let wrong = wrong
            .store_in(&folder, PredictorPurpose { output_type: OutputType::DynPower, ..PURPOSE })
            .unwrap_err();
        assert!(wrong.to_string().contains("is for AbsPower; want DynPower"), "{wrong}");
    }

    #[test]
    fn predictors_of_two_pipelines_with_one_number_stay_of_their_own_machines() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("model-server");
        let of = |cores: Option<u32>| {
            let mut weights = weights();
            match cores {
                Some(cores) => weights["machine_spec"]["cores"] = json!(cores),
                None => drop(weights.as_object_mut().unwrap().remove("machine_spec")),
            }
            SinglePredictor::of_weights(&weights, "").unwrap()
        };
        let dynamic = PredictorPurpose { output_type: OutputType::DynPower, ..PURPOSE };
        // Repeats, as after every start.
        for _ in 0..3 {
            assert!(of(Some(96)).store_in(&folder, PURPOSE).unwrap());
            assert!(of(Some(8)).store_in(&folder, dynamic).unwrap());
            assert!(
                of(None)
                    .store_in(&folder, PredictorPurpose { source: EnergySource::Redfish, ..PURPOSE })
                    .unwrap()
            );
        }
        let pipeline = load(&folder).unwrap();
        let index = pipeline.index.as_ref().unwrap();
        let mut cores: Vec<_> = pipeline
            .models
            .iter()
            .map(|model| {
                let entry = index.0.get(&model.name.node_type);
                (model.source, model.output_type, entry.and_then(|entry| entry.spec.cores))
            })
            .collect();
        cores.sort_by_key(|(source, output_type, _)| (*source, *output_type));
        let mut want = vec![
            (EnergySource::Acpi, OutputType::AbsPower, Some(96.0)),
            (EnergySource::Acpi, OutputType::DynPower, Some(8.0)),
            (EnergySource::Redfish, OutputType::AbsPower, None),
        ];
        want.sort_by_key(|(source, output_type, _)| (*source, *output_type));
        assert_eq!(cores, want);
    }

    #[test]
    fn what_leads_elsewhere_or_is_nothing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../../x_1", "a/b_1", "SGDRegressorTrainer", ""] {
            let mut value = weights();
            value["model_name"] = json!(name);
            assert!(SinglePredictor::of_weights(&value, name).is_err(), "{name}");
        }
        for bytes in [&b""[..], b"<html>", b"[]", b"{}", b"PK\x03\x04 torn"] {
            assert!(SinglePredictor::read(bytes, "SGDRegressorTrainer_0").is_err(), "{bytes:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
