//! `metier runs --trend`: histories on fixed records.

use crate::common::{Place, fixture, golden, stderr, stdout};
use serde_json::{Value, json};

/// A store with a history: `runs` of a workload with these wall times, an hour apart, the
/// executable as given.
fn history(walls: &[(f64, char)]) -> Place {
    let text = std::fs::read_to_string(fixture()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pattern = lines.iter().find(|line| line["schema"] == "metier.run/1").unwrap();
    let mut archive: Vec<Value> = lines
        .iter()
        .filter(|line| {
            let schema = line["schema"].as_str().unwrap();
            schema == "metier.export/1" || schema == "metier.device/1" || line["id"] == "before"
        })
        .cloned()
        .collect();
    for (at, (wall, executable)) in walls.iter().enumerate() {
        let mut run = pattern.clone();
        run["id"] = json!(format!("01945a00-0000-7000-8000-00{at:02x}c00000{at:02x}"));
        run["batch"] = json!(format!("01945a00-0000-7000-8000-000bbb0001{at:02x}"));
        run["started"] = json!(format!("2025-01-{:02}T{:02}:00:00Z", 2 + at / 24, at % 24));
        run["ended"] = json!(format!("2025-01-{:02}T{:02}:00:09Z", 2 + at / 24, at % 24));
        run["summary"]["wall_seconds"] = json!(wall);
        run["context"]["executable_digest"] = json!(format!("sha256:{}", executable.to_string().repeat(64)));
        archive.push(run);
    }
    let count = archive.len() + 1;
    archive.push(json!({ "schema": "metier.export-end/1", "runs": walls.len(), "lines": count }));
    let place = Place::new();
    let file = place.path("history.jsonl");
    let text: String = archive.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, text).unwrap();
    place.ok(&["import", file.to_str().unwrap()]);
    place
}

/// Twelve runs at one second and eight at 1.25.
fn stepped() -> Place {
    let walls: Vec<(f64, char)> = (0..20)
        .map(|at| {
            let noise = [0.0, 0.004, -0.003, 0.002, 0.006][at % 5];
            if at < 12 { (1.0 + noise, 'a') } else { (1.25 + noise, 'b') }
        })
        .collect();
    history(&walls)
}

#[test]
fn the_forms_of_histories_are_what_they_were() {
    let place = stepped();
    for (name, arguments) in [
        ("trend.txt", vec!["runs", "--trend"]),
        ("trend.json", vec!["runs", "--trend", "-o", "json"]),
        ("trend.csv", vec!["runs", "--trend", "-o", "csv"]),
    ] {
        golden(name, &place.ok(&arguments));
    }
}

#[test]
fn a_change_tells_its_first_run_and_what_changed_there() {
    let place = stepped();
    let trends = place.json(&["runs", "--trend", "-o", "json"]);
    let change = &trends["trends"][0]["changes"][0];
    assert_eq!((&change["at"], trends["trends"].as_array().unwrap().len()), (&json!(12), 1));
    assert_eq!(change["run"], "01945a00-0000-7000-8000-000cc000000c");
    assert_eq!(change["suspects"][0]["code"], "executable-differs");
    let text = place.ok(&["runs", "--trend"]);
    assert!(
        text.contains("│") && text.contains("+25") && text.contains("the executable's content changed"),
        "{text}"
    );
}

#[test]
fn ci_is_told_by_the_exit_code_and_only_of_late_changes_for_the_worse() {
    let place = stepped();
    let output = place.run(&["runs", "--trend", "--fail-on-change"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("regression: wall got worse: before on bench-1 by +25"),
        "{}",
        stderr(&output)
    );
    // The change is 8 runs old.
    assert_eq!(place.run(&["runs", "--trend", "--fail-on-change", "--recent", "7"]).status.code(), Some(0));
    // Another figure did not change.
    let output = place.run(&["runs", "--trend", "--metric", "memory", "--fail-on-change"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("no change shown"));
    // A change for the better is told, and is no failure.
    let better: Vec<(f64, char)> = (0..20).map(|at| (if at < 12 { 2.0 } else { 1.0 }, 'a')).collect();
    let output = history(&better).run(&["runs", "--trend", "--fail-on-change"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("−50.0 %"), "{}", stdout(&output));
}

#[test]
fn what_cannot_be_judged_or_makes_no_sense_is_refused_in_one_line() {
    let place = history(&[(1.0, 'a'); 5]);
    assert!(place.ok(&["runs", "--trend"]).contains("too few runs: 5 runs with a value"));
    for (arguments, code, parts) in [
        (
            vec!["runs", "--trend", "--fail-on-change", "-q", "-o", "csv"],
            1,
            vec!["no history can be judged", "from 8 on"],
        ),
        (vec!["runs", "--trend", "--metric", "speed"], 2, vec!["speed", "wall", "stage:NAME:p95"]),
        (vec!["runs", "--trend", "--false-alarms", "0%"], 2, vec!["--false-alarms", "0.1% to 50%"]),
        (vec!["runs", "--trend", "--workload", "nobody"], 2, vec!["no run fits"]),
        (vec!["runs", "--fail-on-change"], 2, vec!["--trend"]),
    ] {
        let output = place.run(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        let error = stderr(&output);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{arguments:?}: {error}");
    }
}
