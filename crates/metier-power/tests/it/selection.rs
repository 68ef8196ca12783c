//! Compares selections with recorded answers of the model server, from the same published tables.
//! Each corrected error of the original is listed here.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metier_power::catalog::{PipelineCatalog, PredictorUpload};
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType};
use metier_power::pipeline::PipelineLocation;
use metier_power::selection::PipelineRegistry;
use metier_power::selection::{self, ModelRequest};
use serde_json::{Value, json};

fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/kepler");
    if !folder.exists() {
        eprintln!("SKIP: golden data of Kepler, because ../shared/data/kepler is not there");
        return None;
    }
    Some(folder)
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Writes the published pipeline in its database's layout. Archives missing in the shared data
/// become empty zips. Missing weights (odd node types) are made up if the recorded errors show that
/// they existed: only their names are compared.
fn lay_out(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["metadata.json", "node_type_index.json"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
    let weights = read(&from.join("weights_half.json"));
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(table) = name.strip_suffix("_model_metadata.csv") else { continue };
        std::fs::copy(&path, to.join(&name)).unwrap();
        let (source, output_type) = table.rsplit_once('_').unwrap();
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|known| known == name).unwrap();
        for record in reader.records() {
            let record = record.unwrap();
            let (model, group) = (&record[column("model_name")], &record[column("feature_group")]);
            let folder = to.join(source).join(output_type).join(group);
            std::fs::create_dir_all(&folder).unwrap();
            let mut zip = std::fs::File::create(folder.join(format!("{model}.zip"))).unwrap();
            zip.write_all(b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
            let is_weight = ["SGD", "Log", "Exp"].iter().any(|start| model.starts_with(start));
            if is_weight {
                let known = weights.get(format!("{source}/{output_type}/{group}/{model}.json")).cloned();
                let known = known.unwrap_or_else(|| made_up(source, group, model));
                std::fs::write(folder.join(format!("{model}.json")), known.to_string()).unwrap();
            }
        }
    }
}

fn made_up(source: &str, group: &str, model: &str) -> Value {
    let features = FeatureGroup::named(group).unwrap().features();
    let variables: BTreeMap<&str, Value> =
        features.iter().map(|name| (*name, json!({ "scale": 1.0, "weight": 0.0 }))).collect();
    let mut all = json!({ "Categorical_Variables": {}, "Numerical_Variables": variables });
    match model {
        model if model.starts_with("SGD") => all["Bias_Weight"] = json!(-1.0),
        model if model.starts_with("Logistic") => all["CurveFit_Weights"] = json!([1, 1, 1, -1]),
        _ => all["CurveFit_Weights"] = json!([1, 1, -1]),
    }
    let components = EnergySource::named(source).unwrap().components();
    components.iter().map(|component| (component.name().to_string(), json!({ "All_Weights": all }))).collect()
}

/// The server's registry, with the shipped predictors.
fn registry(shared: &Path, to: &Path) -> Arc<PipelineRegistry> {
    for name in ["ec2-0.7.11", "specpower-0.7.11"] {
        lay_out(&shared.join(name), &to.join(name));
    }
    let (shelf, warnings) =
        PipelineCatalog::open(vec![PipelineLocation::Path(to.to_path_buf())], None).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    shelf.registry()
}

/// Requests with a deliberately different answer, and the reason.
fn corrected(tag: &str) -> Option<&'static str> {
    match tag {
        "filter-bug" => {
            Some("the filter allows every predictor, where the original refused all for any filter")
        }
        _ => None,
    }
}

#[test]
fn the_recorded_selections_are_ours() {
    let Some(shared) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&shared, folder.path());
    let golden = read(&shared.join("golden/model_selection.json"));
    let golden = golden.as_array().unwrap();
    assert_eq!(golden.len(), 176);
    let (mut equal, mut ties, mut differ, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for entry in golden {
        let tag = entry["tag"].as_str().unwrap();
        let request = ModelRequest::read(&entry["request"]).unwrap();
        let chosen = selection::select(&registry, &request, "mae", &|_| true).unwrap();
        let got = chosen.map(|chosen| chosen.model.full_name.clone());
        let want = entry["filename"].as_str().map(|name| name.trim_end_matches(".zip").to_string());
        let want = want.or_else(|| entry["body"]["model_name"].as_str().map(str::to_string));
        let is_equal = match (entry["status"].as_u64().unwrap(), &want) {
            (200, Some(want)) => got.as_ref() == Some(want),
            // Weights for a named node type carry no name: compare the numbers.
            (200, None) => chosen.is_some_and(|chosen| {
                let weights = chosen.model.weights_value().unwrap();
                request.source.components().iter().all(|component| {
                    let name = component.name();
                    let is_made_up = weights[name]["All_Weights"]["Numerical_Variables"]["bpf_cpu_time_ms"]["scale"] == 1.0;
                    is_made_up || weights[name] == entry["body"][name]
                })
            }),
            _ => got.is_none(),
        };
        if is_equal {
            equal += 1;
            continue;
        }
        if let Some(why) = corrected(tag) {
            differ.push(format!("{tag}: {got:?}: {why}"));
            continue;
        }
        // Among equal errors the original takes the first in file system order.
        let error_of = |name: &str| {
            let pipeline = registry.active(request.source).unwrap();
            let is_one = |model: &&metier_power::pipeline::PipelineModel| {
                model.full_name == name
                    && model.output_type == request.output_type
                    && model.group.is_within(&request.metrics)
            };
            pipeline
                .models
                .iter()
                .filter(is_one)
                .filter_map(|model| model.error("mae"))
                .fold(f64::MAX, f64::min)
        };
        match (&got, &want) {
            (Some(got), Some(want)) if error_of(got) == error_of(want) => ties += 1,
            _ => {
                wrong.push(format!("{}: got {got:?}, want {want:?} ({})", entry["request"], entry["status"]))
            }
        }
    }
    eprintln!("{equal} equal, {ties} of equal errors, {} corrected: {}", differ.len(), differ.join("; "));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(differ.len(), 2);
    assert!(equal >= 170, "{equal}");
}

#[test]
fn the_recorded_best_models_are_ours() {
    let Some(shared) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&shared, folder.path());
    let golden = read(&shared.join("golden/best_models.json"));
    let golden = golden.as_object().unwrap();
    assert_eq!(golden.len(), 7);
    for (query, entry) in golden {
        let parts: BTreeMap<&str, &str> =
            query.trim_start_matches('?').split('&').filter_map(|part| part.split_once('=')).collect();
        let source = EnergySource::from_request(parts.get("energy-source").copied()).unwrap();
        let group = parts.get("feature-group").map(|name| FeatureGroup::named(name).unwrap());
        for (output_type, groups) in entry["body"].as_object().unwrap() {
            let request = ModelRequest::read(&json!({
                "metrics": [], "output_type": output_type, "source": source.name(), "loose_node_type": false,
                "node_type": parts.get("node-type").map_or(-1, |number| number.parse::<i64>().unwrap()),
            }))
            .unwrap();
            assert_eq!(request.output_type, OutputType::named(output_type).unwrap());
            let best = selection::best_of_groups(&registry, &request, group, "mae");
            let best: BTreeMap<&str, &str> =
                best.iter().map(|(group, model)| (group.name(), model.full_name.as_str())).collect();
            assert_eq!(json!(best), *groups, "{query} {output_type}");
        }
    }
}

#[test]
fn a_pipeline_in_a_zip_is_the_same_pipeline() {
    let Some(shared) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let unpacked = folder.path().join("ec2-0.7.11");
    lay_out(&shared.join("ec2-0.7.11"), &unpacked);
    let packed = folder.path().join("packed.zip");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&packed).unwrap());
    let mut folders = vec![unpacked.clone()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned();
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&std::fs::read(&path).unwrap()).unwrap();
        }
    }
    zip.finish().unwrap();
    let (one, two) =
        (metier_power::pipeline::load(&unpacked).unwrap(), metier_power::pipeline::load(&packed).unwrap());
    assert_eq!((&one.name, &one.index), (&two.name, &two.index));
    let names = |pipeline: &metier_power::pipeline::PredictorPipeline| {
        let of = |model: &metier_power::pipeline::PipelineModel| {
            let archive = model.archive.as_ref().map(|archive| archive.bytes().unwrap());
            (model.full_name.clone(), model.group, model.errors.clone(), model.weights.clone(), archive)
        };
        pipeline.models.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(names(&one), names(&two));
    assert!(one.models.len() > 290, "{}", one.models.len());
}

#[test]
fn what_is_no_pipeline_is_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("torn.zip", b"PK\x03\x04 and then nothing");
    write("empty.zip", b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    std::fs::create_dir_all(folder.path().join("hollow")).unwrap();
    write("hollow/metadata.json", b"{}");
    let loaded = PipelineRegistry::load(&[folder.path().to_path_buf(), folder.path().join("nowhere")]);
    assert!(loaded.registry.pipelines.is_empty());
    assert_eq!(loaded.warnings.len(), 4, "{:?}", loaded.warnings);
    for word in ["torn.zip", "empty.zip", "hollow", "nowhere"] {
        assert!(
            loaded.warnings.iter().any(|warning| warning.contains(word)),
            "{word}: {:?}",
            loaded.warnings
        );
    }
}

#[test]
fn filters_and_node_types_are_taken_at_their_word() {
    let Some(shared) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&shared, folder.path());
    let ask = |extra: Value| {
        let mut body = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "AbsPower", "source": "acpi" });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let request = ModelRequest::read(&body).unwrap();
        selection::select(&registry, &request, "mae", &|_| true).unwrap().map(|chosen| chosen.model.clone())
    };
    assert!(ask(json!({ "filter": "mae:0.001" })).is_none());
    assert!(
        ask(json!({ "filter": "mae:5;mape:1" })).is_some_and(|model| model.error("mape").unwrap() <= 1.0)
    );
    assert!(ask(json!({ "filter": "unknown:5" })).is_none());
    assert!(ask(json!({ "filter": "features:bpf_cpu_time_ms" })).is_none());
    assert_eq!(ask(json!({ "node_type": 1 })).unwrap().name.node_type, 1);
    // The exporter sends 0 and its machine: it gets the machine's type and not type 0.
    let machine =
        json!({ "processor": "amd_opteron_6174", "cores": 24, "chips": 2, "memory": 16, "frequency": 2200 });
    assert_eq!(ask(json!({ "node_type": 0, "machine_spec": machine })).unwrap().name.node_type, 1);
    assert_eq!(ask(json!({ "node_type": 0 })).unwrap().name.node_type, 0);
}

#[test]
fn what_is_uploaded_displaces_no_published_predictor() {
    let Some(shared) = shared() else { return };
    let (folder, uploads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    registry(&shared, folder.path());
    let places = vec![PipelineLocation::Path(folder.path().to_path_buf())];
    let (shelf, _) = PipelineCatalog::open(places, Some(uploads.path().to_path_buf())).unwrap();
    let machine =
        json!({ "processor": "amd_opteron_6174", "cores": 24, "chips": 2, "memory": 16, "frequency": 2200 });
    let ask = |output_type: &str| {
        let body = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": output_type, "source": "acpi",
            "node_type": 0, "weight": true, "machine_spec": machine });
        let registry = shelf.registry();
        let chosen =
            selection::select(&registry, &ModelRequest::read(&body).unwrap(), "mae", &|_| true).unwrap();
        chosen.map(|chosen| (chosen.pipeline.name.clone(), chosen.model.full_name.clone()))
    };
    let count = |name: &str| shelf.registry().named(name).map_or(0, |pipeline| pipeline.models.len());
    let before = (ask("AbsPower"), ask("DynPower"), count("ec2-0.7.11"));
    assert!(before.0.is_some() && before.1.is_some() && before.2 > 290, "{before:?}");
    let weights = |component: &str| {
        json!({ component: { "All_Weights": { "Bias_Weight": 5.0, "Numerical_Variables": {
            "bpf_cpu_time_ms": { "scale": 1000.0, "weight": 7.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 0.0 } } } } })
    };
    let mut sent = json!({ "model_name": "SGDRegressorTrainer_0", "source": "acpi", "output_type": "AbsPower", "feature_group": "BPFOnly", "mae": 0.01,
        "machine_spec": { "processor": "x", "cores": 3, "chips": 1, "memory": 1, "frequency": 1000 }, "weights": weights("platform") });
    shelf.upload(&PredictorUpload::read(&sent).unwrap()).unwrap();
    assert_eq!((ask("AbsPower"), ask("DynPower")), (before.0, before.1));
    sent["pipeline"] = json!("ec2-0.7.11");
    sent["source"] = json!("rapl-sysfs");
    sent["weights"] = weights("package");
    let error = shelf.upload(&PredictorUpload::read(&sent).unwrap()).unwrap_err().to_string();
    assert!(error.contains("SGDRegressorTrainer_6"), "node types 0 to 5 are the published machines: {error}");
    sent["model_name"] = json!("SGDRegressorTrainer_6");
    shelf.upload(&PredictorUpload::read(&sent).unwrap()).unwrap();
    assert_eq!(count("ec2-0.7.11"), before.2 + 1);
}

/// An uploaded predictor of node power.
fn sent(pipeline: &str, name: &str, mae: f64, machine: &Value) -> PredictorUpload {
    let weights = json!({ "platform": { "All_Weights": { "Bias_Weight": 5.0, "Numerical_Variables": {
        "bpf_cpu_time_ms": { "scale": 1000.0, "weight": 7.0 }, "bpf_page_cache_hit": { "scale": 1.0, "weight": 0.0 } } } } });
    let body = json!({ "pipeline": pipeline, "model_name": name, "source": "acpi", "output_type": "AbsPower", "feature_group": "BPFOnly",
        "mae": mae, "machine_spec": machine, "weights": weights });
    PredictorUpload::read(&body).unwrap()
}

/// The pipeline and node type that answer a request for node power with these extra fields.
fn answer_of(shelf: &PipelineCatalog, extra: &Value) -> (String, u32) {
    let mut body = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "AbsPower", "source": "acpi", "weight": true });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let registry = shelf.registry();
    let request = ModelRequest::read(&body).unwrap();
    let chosen = selection::select(&registry, &request, "mae", &|_| true).unwrap().unwrap();
    (chosen.pipeline.name.clone(), chosen.model.name.node_type)
}

#[test]
fn an_upload_answers_for_no_node_type_and_no_machine_that_another_pipeline_has() {
    let (placed, uploads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (made, _) = PipelineCatalog::open(Vec::new(), Some(placed.path().to_path_buf())).unwrap();
    let machine = json!({ "processor": "y", "cores": 16 });
    made.upload(&sent("ours", "SGDRegressorTrainer_1", 1.0, &machine)).unwrap();
    let places = vec![PipelineLocation::Path(placed.path().to_path_buf())];
    let (shelf, _) = PipelineCatalog::open(places, Some(uploads.path().to_path_buf())).unwrap();
    shelf.upload(&sent("uploads", "SGDRegressorTrainer_0", 9.0, &Value::Null)).unwrap();
    let ours = ("ours".to_string(), 1);
    let uploaded = ("uploads".to_string(), 0);
    assert_eq!(answer_of(&shelf, &json!({ "node_type": 1 })), ours, "only one has it");
    assert_eq!(answer_of(&shelf, &json!({ "node_type": 0 })), uploaded);
    assert_eq!(
        answer_of(&shelf, &json!({ "node_type": 0, "machine_spec": machine })),
        ours,
        "it is this machine"
    );
    assert_eq!(answer_of(&shelf, &json!({})), ours, "its error is smaller");
    assert_eq!(answer_of(&shelf, &json!({ "pipeline_name": "uploads" })), uploaded, "it was asked for");
    shelf.upload(&sent("uploads", "SGDRegressorTrainer_0", 0.5, &Value::Null)).unwrap();
    assert_eq!(answer_of(&shelf, &json!({})), uploaded, "its error is smaller now");
    assert_eq!(answer_of(&shelf, &json!({ "machine_spec": machine })), ours);
}

#[test]
fn what_was_promoted_is_used_where_little_or_nothing_is_known_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (made, _) = PipelineCatalog::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
    let machine = json!({ "processor": "y", "cores": 16 });
    made.upload(&sent("ours", "SGDRegressorTrainer_1", 1.0, &machine)).unwrap();
    made.upload(&sent("online", "SGDRegressorTrainer_0", 2.0, &Value::Null)).unwrap();
    let about = folder.path().join("online/metadata.json");
    for (is_promoted, want) in [(true, ("online", 0)), (false, ("ours", 1))] {
        let text = if is_promoted { r#"{"name":"online","online":{}}"# } else { r#"{"name":"online"}"# };
        std::fs::write(&about, text).unwrap();
        let places = ["ours", "online"].map(|name| PipelineLocation::Path(folder.path().join(name)));
        let (shelf, _) = PipelineCatalog::open(places.to_vec(), None).unwrap();
        let want = (want.0.to_string(), want.1);
        assert_eq!(answer_of(&shelf, &json!({ "machine_spec": machine })), want, "{text}");
        assert_eq!(answer_of(&shelf, &json!({})), want, "{text}");
    }
}

#[test]
fn the_best_of_each_group_are_those_of_all_pipelines() {
    let (placed, uploads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (made, _) = PipelineCatalog::open(Vec::new(), Some(placed.path().to_path_buf())).unwrap();
    made.upload(&sent("ours", "SGDRegressorTrainer_1", 1.0, &Value::Null)).unwrap();
    let places = vec![PipelineLocation::Path(placed.path().to_path_buf())];
    let (shelf, _) = PipelineCatalog::open(places, Some(uploads.path().to_path_buf())).unwrap();
    let best = |output_type: &str, node_type: i64| -> Vec<(FeatureGroup, String)> {
        let request = json!({ "metrics": [], "output_type": output_type, "source": "acpi", "loose_node_type": false, "node_type": node_type });
        let (registry, request) = (shelf.registry(), ModelRequest::read(&request).unwrap());
        let best = selection::best_of_groups(&registry, &request, None, "mae");
        best.iter().map(|(group, model)| (*group, model.full_name.clone())).collect()
    };
    let before = (best("AbsPower", 1), best("DynPower", -1));
    assert_eq!(before.0, [(FeatureGroup::BpfOnly, "SGDRegressorTrainer_1".to_string())]);
    assert!(!before.1.is_empty(), "what is shipped has dynamic power");
    // Uploads are searched first and hide no other predictor.
    shelf.upload(&sent("uploads", "SGDRegressorTrainer_0", 0.1, &Value::Null)).unwrap();
    assert_eq!((best("AbsPower", 1), best("DynPower", -1)), before);
    assert!(best("AbsPower", -1).contains(&(FeatureGroup::BpfOnly, "SGDRegressorTrainer_0".to_string())));
}
