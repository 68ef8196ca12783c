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
    let open = || PipelineCatalog::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
    let (shelf, warnings) = open();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(shelf.registry().active(EnergySource::Acpi).unwrap().name, "metier-defaults");
    shelf.upload(&PredictorUpload::read(&body()).unwrap()).unwrap();
    for shelf in [shelf, open().0] {
        let registry = shelf.registry();
        let active = registry.active(EnergySource::Acpi).unwrap();
        assert_eq!((active.name.as_str(), active.models[0].error("mae")), ("ours", Some(1.5)));
        assert_eq!(active.index.as_ref().unwrap().0[&3].spec.cores, Some(8.0));
    }
}

#[test]
fn every_upload_is_seen_by_others_that_have_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (shelf, _) = PipelineCatalog::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
    let (other, _) =
        PipelineCatalog::open(vec![PipelineLocation::Path(folder.path().to_path_buf())], None).unwrap();
    for (number, name) in ["SGDRegressorTrainer_3", "LinearRegressionTrainer_3"].iter().enumerate() {
        let mut body = body();
        body["model_name"] = json!(name);
        shelf.upload(&PredictorUpload::read(&body).unwrap()).unwrap();
        assert!(other.has_changed() && !shelf.has_changed(), "{name}");
        other.reread();
        assert_eq!(other.registry().named("ours").unwrap().models.len(), number + 1);
        assert!(!other.has_changed());
    }
}

#[test]
fn an_error_that_nobody_knows_is_smaller_than_none() {
    let folder = tempfile::tempdir().unwrap();
    let (shelf, _) = PipelineCatalog::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
    let mut known = body();
    known["mape"] = json!(7.0);
    shelf.upload(&PredictorUpload::read(&known).unwrap()).unwrap();
    let mut unknown = body();
    unknown["model_name"] = json!("LinearRegressionTrainer_3");
    unknown["mape"] = json!(-1);
    let unknown = PredictorUpload::read(&unknown).unwrap();
    assert_eq!(unknown.errors, [("mae".to_string(), 1.5)]);
    shelf.upload(&unknown).unwrap();
    // The form that metier's trainers and the original both write.
    let group = folder.path().join("ours/acpi/AbsPower/BPFOnly");
    let about = json!({ "mae": 1.5, "mape": -1.0, "abs_max_corr": -0.5 });
    write_metadata(&group.join("LinearRegressionTrainer_3"), about.as_object().unwrap().clone()).unwrap();
    shelf.reread();
    let ask = |filter: &str| {
        let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": "AbsPower", "source": "acpi",
            "weight": true, "pipeline_name": "ours", "filter": filter });
        let request = crate::selection::ModelRequest::read(&request).unwrap();
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
    // A pipeline of another machine.
    let (made, _) = PipelineCatalog::open(Vec::new(), Some(base.path().to_path_buf())).unwrap();
    let mut other = body();
    for (name, output_type) in [("SGDRegressorTrainer_0", "AbsPower"), ("SGDRegressorTrainer_0", "DynPower")]
    {
        other["model_name"] = json!(name);
        other["output_type"] = json!(output_type);
        other["machine_spec"] = json!({ "processor": "y", "cores": 16 });
        made.upload(&PredictorUpload::read(&other).unwrap()).unwrap();
    }
    let places = vec![PipelineLocation::Path(base.path().join("ours"))];
    let (shelf, _) = PipelineCatalog::open(places, Some(folder.path().to_path_buf())).unwrap();
    // Another machine has its node type, so the next free one is used.
    let mut new = body();
    new["model_name"] = json!("SGDRegressorTrainer_0");
    let error = shelf.upload(&PredictorUpload::read(&new).unwrap()).unwrap_err().to_string();
    assert!(error.contains("SGDRegressorTrainer_1"), "{error}");
    new["model_name"] = json!("SGDRegressorTrainer_1");
    shelf.upload(&PredictorUpload::read(&new).unwrap()).unwrap();
    let count = |shelf: &PipelineCatalog| shelf.registry().named("ours").unwrap().models.len();
    assert_eq!(count(&shelf), 3);
    // Also if the existing pipeline is unreadable.
    fs::write(base.path().join("ours/metadata.json"), "{ torn").unwrap();
    let warnings = shelf.reload();
    assert!(warnings.iter().any(|warning| warning.contains("ours stays as it was")), "{warnings:?}");
    assert_eq!(count(&shelf), 3);
    // In a separate pipeline it answers for its machine; the other machine's answer is unchanged.
    new["pipeline"] = json!("uploads");
    shelf.upload(&PredictorUpload::read(&new).unwrap()).unwrap();
    let ask = |machine: Value, output_type: &str| {
        let request = json!({ "metrics": ["bpf_cpu_time_ms", "bpf_page_cache_hit"], "output_type": output_type, "source": "acpi",
            "weight": true, "node_type": 0, "machine_spec": machine });
        let request = crate::selection::ModelRequest::read(&request).unwrap();
        let registry = shelf.registry();
        let chosen = crate::selection::select(&registry, &request, "mae", &|_| true).unwrap().unwrap();
        (chosen.pipeline.name.clone(), chosen.model.name.node_type)
    };
    let (other, own) = (json!({ "processor": "y", "cores": 16 }), json!({ "processor": "x", "cores": 8 }));
    assert_eq!(ask(other.clone(), "DynPower"), ("ours".to_string(), 0));
    assert_eq!(ask(other, "AbsPower"), ("ours".to_string(), 0));
    assert_eq!(ask(own, "AbsPower"), ("uploads".to_string(), 1));
    new["pipeline"] = json!("metier-defaults");
    assert!(shelf.upload(&PredictorUpload::read(&new).unwrap()).is_err());
}

#[test]
fn a_pipeline_that_breaks_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (shelf, _) = PipelineCatalog::open(Vec::new(), Some(folder.path().to_path_buf())).unwrap();
    shelf.upload(&PredictorUpload::read(&body()).unwrap()).unwrap();
    fs::write(folder.path().join("ours/metadata.json"), "{ torn").unwrap();
    let warnings = shelf.reload();
    assert!(warnings.iter().any(|warning| warning.contains("ours stays as it was")), "{warnings:?}");
    assert_eq!(shelf.registry().active(EnergySource::Acpi).unwrap().name, "ours");
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
        assert!(PredictorUpload::read(&body).is_err(), "{field} {value}");
    }
}
