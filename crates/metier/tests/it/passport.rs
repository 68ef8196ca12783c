//! Passports from the command line: measured here, carried as files, found by name. On this real
//! machine; no figure is compared with another, only their shape.

use crate::common::{Place, stderr, stdout};

#[test]
fn a_passport_measured_here_goes_to_another_store_unchanged() {
    let (a, b) = (Place::new(), Place::new());
    let refused = a.command(&["device", "export"]).output().unwrap();
    assert!(!refused.status.success() && stdout(&refused).is_empty());

    let measured = a.command(&["device", "bench", "--seconds", "1s", "-o", "json"]).output().unwrap();
    assert!(measured.status.success(), "{}", stderr(&measured));
    assert!(stderr(&measured).contains("memory bandwidth"), "progress is told: {}", stderr(&measured));
    let record: serde_json::Value = serde_json::from_slice(&measured.stdout).unwrap();
    assert_eq!(record["schema"], "metier.passport/1");
    assert_eq!(record["origin"], "measured");
    assert_eq!(record["id"], record["device"]["id"]);
    assert!(record["compute"].as_array().unwrap().len() >= 2);

    let file = a.text("passport.json");
    std::fs::write(&file, a.ok(&["device", "export"])).unwrap();
    let id = record["id"].as_str().unwrap();
    b.ok(&["device", "import", &file]);
    assert_eq!(b.json(&["device", "export", id]), record, "to the last digit");
    assert_eq!(
        b.json(&["device", "show", id, "-o", "json"]),
        record,
        "a passport without a device is shown too"
    );
    let list = b.json(&["device", "list", "-o", "json"]);
    let listed = list["passports"].as_array().unwrap();
    assert_eq!((&listed[0]["id"], &listed[0]["origin"]), (&record["id"], &"measured".into()));
    assert!(listed.len() > 10, "shipped ones too");
    let table = b.ok(&["device", "list"]);
    assert!(
        table.contains("measured") && table.contains("specified") && table.contains("Raspberry Pi 5"),
        "{table}"
    );
    assert!(a.ok(&["device"]).contains("MULTIPLY-ADDS/S"), "this device is shown with its passport");
}

#[test]
fn shipped_passports_are_shown_and_exported_without_a_store() {
    let place = Place::new();
    let text = place.ok(&["device", "show", "raspberry pi 4 model b rev 1.4"]);
    assert!(text.contains("specified") && text.contains("12.8 G") && text.contains("BCM2711"), "{text}");
    assert_eq!(place.json(&["device", "export", "Jetson Nano"])["id"], "jetson-nano");
    for form in ["yaml", "csv"] {
        let (code, said) = place.fails(&["device", "export", "Jetson Nano", "-o", form]);
        assert!(code == 1 && said.contains("exported as JSON only"), "{form}: {said}");
    }
    let refused = place.command(&["device", "export", "Raspberry Pi 99"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("Raspberry Pi 99") && stderr(&refused).contains("metier device list"));
}

#[test]
fn nothing_is_imported_when_anything_is_wrong_and_all_of_it_is_told() {
    let place = Place::new();
    let good = place.text("good.json");
    std::fs::write(&good, place.ok(&["device", "export", "raspberry-pi-5"])).unwrap();
    let bad = place.text("bad.json");
    let text = std::fs::read_to_string(&good).unwrap();
    let text = text.replace("\"specified\"", "\"dreamt\"").replace("\"aarch64\"", "64");
    std::fs::write(&bad, text).unwrap();
    let other = place.text("other.json");
    std::fs::write(&other, r#"{"schema":"metier.run/1"}"#).unwrap();
    let refused = place.command(&["device", "import", &good, &bad, &other]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    for part in [
        "bad.json: origin is \"dreamt\"",
        "bad.json: device.cpu.architecture is 64",
        "other.json: schema is \"metier.run/1\"",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    place.ok(&["device", "import", &good]);
    let listed = place.json(&["device", "list", "-o", "json"]);
    assert_eq!(listed["passports"][0]["id"], "raspberry-pi-5", "the stored one comes first");
}

#[test]
fn a_time_out_of_range_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let refused = place.command(&["device", "bench", "--seconds", "0s"]).output().unwrap();
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("--seconds is 0s; want 1s to 1h"), "{}", stderr(&refused));
}
