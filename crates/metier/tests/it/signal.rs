//! `metier signal` on files, on a real Prometheus, and on bad input.

use crate::common::{Place, fits};
use serde_json::Value;

/// Columns with a known pattern, 15 s apart.
fn known_columns() -> String {
    let mut text = "time,busy,growing,idle,text\n".to_string();
    for at in 0..400_i64 {
        // A fixed disturbance without a period of its own.
        let noise = ((at * 7919 + at * at * 104_729) % 1000) as f64 / 250.0;
        let busy = if at % 40 < 26 { 60.0 } else { 8.0 } + noise;
        let word = if at == 3 { "x" } else { "1" };
        text += &format!("{},{busy},{},0,{word}\n", 1_767_225_600 + 15 * at, 10.0 + at as f64 + noise);
    }
    text
}

fn records(place: &Place, arguments: &[&str]) -> (i32, Vec<Value>) {
    let output = place.run(arguments);
    let records: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    records.iter().for_each(|record| fits("metier.pattern-1", record));
    (output.status.code().unwrap(), records)
}

#[test]
fn each_column_gets_its_pattern_and_a_forecast() {
    let place = Place::new();
    let file = place.path("load.csv");
    std::fs::write(&file, known_columns()).unwrap();
    let (code, found) =
        records(&place, &["signal", file.to_str().unwrap(), "--horizon", "10m", "-o", "json"]);
    assert_eq!(code, 4, "a column of text is left out, the others are analysed");
    let kinds: Vec<&str> = found.iter().map(|record| record["kind"].as_str().unwrap_or("none")).collect();
    assert_eq!(kinds, ["cyclic", "trend", "idle", "none"]);
    let period = found[0]["period_seconds"].as_f64().unwrap();
    assert!((period - 600.0).abs() < 6.0, "{period}");
    assert!(found[0]["false_alarm_rate"].as_f64().unwrap() < 0.001);
    let slope = found[1]["trend_per_second"].as_f64().unwrap();
    assert!((slope - 1.0 / 15.0).abs() < 0.002, "{slope}");
    let forecast = &found[1]["forecast"];
    assert_eq!(forecast["steps"].as_array().unwrap().len(), 40);
    let (mean, peak) =
        (forecast["mean"]["mean"].as_f64().unwrap(), forecast["peak"]["mean"].as_f64().unwrap());
    assert!(mean > 412.0 && mean < 450.0 && peak > mean, "{mean} {peak}");
    assert!(found[3]["because"].as_str().unwrap().contains("line 5 has \"x\"; want a number"));
}

#[test]
fn table_csv_and_picture_say_the_same() {
    let place = Place::new();
    let (file, picture) = (place.path("load.csv"), place.path("load.svg"));
    std::fs::write(&file, known_columns().replace(",text", "").replace(",x\n", "\n").replace(",1\n", "\n"))
        .unwrap();
    let table = place.ok(&["signal", file.to_str().unwrap(), "--svg", picture.to_str().unwrap()]);
    assert!(table.contains("cyclic") && table.contains("trend") && table.contains("idle"), "{table}");
    let rows = place.ok(&["signal", file.to_str().unwrap(), "-o", "csv"]);
    assert!(rows.starts_with("name,kind,period_seconds,") && rows.contains("busy,cyclic,"), "{rows}");
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("busy: cyclic"), "{}", &svg[..200]);
}

#[test]
fn bad_input_is_refused_with_what_would_be_right() {
    let place = Place::new();
    for (name, text, want) in [
        ("empty.csv", "", "is empty; want a time column"),
        ("text.csv", "some text\nmore text\n", "has one column"),
        ("times.csv", "t,a\nyesterday,1\n", "line 2: the time is \"yesterday\""),
        ("binary.csv", "t,a\n0,\u{0}\n", "want a number"),
    ] {
        let file = place.path(name);
        std::fs::write(&file, text).unwrap();
        let output = place.run(&["signal", file.to_str().unwrap()]);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!output.status.success() && said.contains(want), "{name}: {said}");
    }
    for (arguments, want) in [
        (&["signal"][..], "required"),
        (&["signal", "x.csv", "--quantiles", "2"], "between 0 and 1"),
        (&["signal", "x.csv", "--false-alarms", "90%"], "--false-alarms"),
        (&["signal", "/no/such.csv"], "cannot read /no/such.csv"),
        (&["signal", "--prometheus", "127.0.0.1:1", "--query", "up", "--step", "0s"], "--step"),
    ] {
        let output = place.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(want), "{arguments:?}: {said}");
    }
}

#[test]
fn series_of_a_prometheus_are_analysed() {
    let Some(address) = std::env::var("METIER_LAB_PROMETHEUS").ok() else {
        println!("SKIP: series of a real Prometheus, because METIER_LAB_PROMETHEUS is not set");
        return;
    };
    let place = Place::new();
    let arguments =
        ["signal", "--prometheus", &address, "--query", "vector(time() % 60)", "--range", "1h", "-o", "json"];
    let (code, found) = records(&place, &arguments);
    assert_eq!((code, found.len()), (0, 1));
    assert_eq!(found[0]["kind"], "cyclic");
    assert!((found[0]["period_seconds"].as_f64().unwrap() - 60.0).abs() < 1.0, "{}", found[0]);
    let output = place.run(&["signal", "--prometheus", &address, "--query", "no_such_metric"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("gives no series"), "{said}");
}
