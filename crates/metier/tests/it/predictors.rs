//! `metier predictors`: one list of predictors of every kind, and Kepler's folders and zips in and
//! out of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Place;
use serde_json::{Value, json};

/// A pipeline of power, and a predictor of latency, as commit 5c5b06b wrote them.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn pipeline() -> String {
    fixture("metier-power/tests/fixtures/power-before.zip").display().to_string()
}

/// The predictors of a kind, newest first.
fn of_kind(place: &Place, kind: &str) -> Vec<Value> {
    let all = place.json(&["predictors", "-o", "json"]);
    let all = all["predictors"].as_array().unwrap();
    all.iter().filter(|one| one["kind"] == kind).cloned().collect()
}

fn text(one: &Value, field: &str) -> String {
    one[field].as_str().unwrap().to_string()
}

#[test]
fn a_kepler_pipeline_is_imported_listed_exported_and_removed() {
    let place = Place::new();
    place.ok(&["predictors", "import", &pipeline()]);
    let [one] = of_kind(&place, "power").try_into().unwrap();
    assert_eq!((text(&one, "name"), text(&one, "standing")), ("before".to_string(), "in-use".to_string()));
    let id = text(&one, "id");
    let table = place.ok(&["predictors"]);
    assert!(table.contains("power") && table.contains("before") && table.contains(" %"), "{table}");
    let sheet = place.ok(&["predictors", "show", &id]);
    assert!(sheet.contains("ON PHASES NOT SEEN") && sheet.contains("platform, AbsPower of acpi"), "{sheet}");

    let (zip, folder) = (place.text("out.zip"), place.text("out"));
    place.ok(&["predictors", "export", &id, "--format", "kepler", "--file", &zip]);
    assert_eq!(fs::read(&zip).unwrap(), fs::read(pipeline()).unwrap());
    place.ok(&["predictors", "export", &id, "--format", "kepler", "--file", &folder]);
    assert!(place.path("out/acpi/AbsPower/BPFOnly/XgboostFitTrainer_0/predictor.json").is_file());
    let file = place.text("out.json");
    place.ok(&["predictors", "export", &id, "--file", &file]);

    // Its folder is the same pipeline in another file: the newer one answers, until the other is
    // used again.
    place.ok(&["predictors", "import", &folder]);
    let standing = || -> Vec<String> {
        of_kind(&place, "power")
            .iter()
            .map(|one| format!("{} {}", one["id"] == id, text(one, "standing")))
            .collect()
    };
    assert_eq!(standing(), ["false in-use", "true passed"]);
    place.ok(&["predictors", "use", &id]);
    assert_eq!(standing(), ["false passed", "true in-use"]);
    place.ok(&["predictors", "remove", &id]);
    assert_eq!(standing(), ["false in-use"]);
    place.ok(&["predictors", "import", &file]);
    assert!(of_kind(&place, "power").iter().any(|one| text(one, "id") == id));
}

#[test]
fn a_latency_predictor_of_before_is_imported_and_has_no_kepler_format() {
    let place = Place::new();
    let read = |name: &str| fs::read_to_string(fixture("metier-predict/tests/fixtures").join(name)).unwrap();
    let record: Value = serde_json::from_str(&read("latency-1.record.json")).unwrap();
    let portable =
        json!({ "schema": "metier.predictor-file/1", "record": record, "file": read("latency-1.json") });
    let file = place.text("latency.json");
    fs::write(&file, portable.to_string()).unwrap();
    place.ok(&["predictors", "import", &file]);
    place.ok(&["predictors", "import", &pipeline()]);
    let [one] = of_kind(&place, "latency").try_into().unwrap();
    assert_eq!((&one["id"], text(&one, "standing")), (&record["id"], "in-use".to_string()));
    assert_eq!(of_kind(&place, "power").len(), 1);
    let id = text(&one, "id");
    let (code, error) = place.fails(&["predictors", "export", &id, "--format", "kepler", "--file", "-"]);
    assert_eq!(code, 2);
    assert!(error.contains("--format is kepler") && error.contains("latency"), "{error}");
}
