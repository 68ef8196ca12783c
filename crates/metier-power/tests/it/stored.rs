//! Pipelines of an earlier version and pipelines in a store: bit-equal predictions, import and
//! export.

use std::path::{Path, PathBuf};

use metier_power::kepler_terms::PowerComponent;
use metier_power::pipeline::{self, PredictorPipeline};
use metier_power::stored_pipelines::{self, PowerKind, TrainedPipelineRecorder};
use metier_predict::lifecycle::{portable, standing};
use metier_store::{RecordStore, StoreLocation};
use metier_types::{DeviceRef, ExtraFields, PredictorStanding};
use serde_json::Value;

/// A pipeline trained by commit 5c5b06b with every trainer.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/power-before.zip")
}

fn store(folder: &Path) -> RecordStore {
    RecordStore::open(&StoreLocation::Sqlite(folder.join("store.db"))).unwrap()
}

/// Compares this pipeline with the predictions of commit 5c5b06b, as bits.
fn assert_bit_equal(pipeline: &PredictorPipeline) {
    let expected: Vec<Value> =
        serde_json::from_str(include_str!("../fixtures/power-before.expected.json")).unwrap();
    assert!(expected.len() >= 55, "{}", expected.len());
    for case in &expected {
        let text = |field: &str| case[field].as_str().unwrap();
        let model = pipeline.models.iter().find(|model| {
            model.full_name == text("predictor")
                && model.output_type.name() == text("output_type")
                && model.group.name() == text("group")
        });
        let formulas = model.unwrap().formulas().unwrap();
        let component = PowerComponent::named(text("component")).unwrap();
        let (_, formula) = formulas.iter().find(|(of, _)| *of == component).unwrap();
        let row: Vec<f64> = serde_json::from_value(case["row"].clone()).unwrap();
        let watts = formula.watts(&row).map(|watts| format!("{:016x}", watts.to_bits()));
        assert_eq!(watts.as_deref(), case["watts"].as_str(), "{case}");
    }
}

#[test]
fn a_pipeline_of_before_gives_bit_equal_predictions() {
    assert_bit_equal(&pipeline::load(&fixture()).unwrap());
}

#[test]
fn a_pipeline_goes_through_a_store_and_comes_out_as_zip_and_folder() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    [&from, &to].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let (from, to) = (store(&from), store(&to));
    let record = stored_pipelines::import(&from, &fixture()).unwrap();
    assert_eq!((record.kind.as_str(), record.name.as_str()), ("power", "before"));
    assert_eq!(record.standing, PredictorStanding::InUse);
    let held = record.held_out.first().unwrap();
    assert!(held.rows > 0 && held.mean_absolute_error_ratio.is_some(), "{held:?}");

    let text = portable::export(&from, &record.id).unwrap();
    let taken = portable::import(&to, &[&PowerKind], &text).unwrap();
    assert_eq!((taken.id, taken.standing), (record.id, PredictorStanding::InUse));
    let zip = to.predictor_file(&taken.id).unwrap().unwrap();
    assert_eq!(zip, std::fs::read(fixture()).unwrap());

    let folder = place.path().join("before");
    stored_pipelines::export_folder(zip, &folder).unwrap();
    assert_bit_equal(&pipeline::load(&folder).unwrap());
    // The same pipeline imported from its folder: another file, the newer of the two.
    let again = stored_pipelines::import(&to, &folder).unwrap();
    let standing_of = |id| to.predictor(&id).unwrap().unwrap().standing;
    assert_eq!(
        (standing_of(again.id), standing_of(taken.id)),
        (PredictorStanding::InUse, PredictorStanding::Passed)
    );
    // Roll-back, and the successor of a removed predictor.
    standing::put_in_use(&to, to.predictor(&taken.id).unwrap().unwrap()).unwrap();
    assert_eq!(
        (standing_of(again.id), standing_of(taken.id)),
        (PredictorStanding::Passed, PredictorStanding::InUse)
    );
    let gone = to.predictor(&taken.id).unwrap().unwrap();
    let heir = standing::remove(&to, &[&PowerKind], &gone).unwrap().unwrap();
    assert_eq!((heir.id, standing_of(again.id)), (again.id, PredictorStanding::InUse));
}

#[test]
fn what_is_in_use_on_a_device_is_written_for_the_estimator_and_taken_away_again() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path());
    let here =
        DeviceRef { id: "device-1".parse().unwrap(), name: "bench".to_string(), extra: ExtraFields::new() };
    let elsewhere =
        DeviceRef { id: "device-2".parse().unwrap(), name: "other".to_string(), extra: ExtraFields::new() };
    let learned = place.path().join("learned");
    stored_pipelines::export_folder(std::fs::read(fixture()).unwrap(), &learned).unwrap();
    let recorder = TrainedPipelineRecorder { store: store.clone(), device: elsewhere };
    let of_other = recorder.record(&learned, PredictorStanding::InUse, "a test").unwrap();
    assert_eq!(of_other.device.as_ref().map(|of| of.name.as_str()), Some("other"));
    let folder = place.path().join("in-use");
    assert_eq!(stored_pipelines::write_in_use(&store, &here.id, &folder).unwrap(), 0);
    let record = stored_pipelines::import(&store, &fixture()).unwrap();
    assert_eq!(stored_pipelines::write_in_use(&store, &here.id, &folder).unwrap(), 1);
    let zips: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(zips.len(), 1);
    assert_bit_equal(&pipeline::load(&zips[0]).unwrap());
    standing::remove(&store, &[&PowerKind], &record).unwrap();
    assert_eq!(stored_pipelines::write_in_use(&store, &here.id, &folder).unwrap(), 0);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_zip_that_leads_out_of_the_folder_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| (name.to_string(), b"{}".to_vec());
    let zip = pipeline::pack(&[file("metadata.json"), file("../outside.json")]).unwrap();
    let error = stored_pipelines::export_folder(zip, &place.path().join("in")).unwrap_err().to_string();
    assert!(error.contains("leads out of the folder"), "{error}");
    assert!(!place.path().join("outside.json").exists());
}
