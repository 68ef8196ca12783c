//! Looking at runs: tables for people, JSON, YAML and CSV for programs, filters, and comparisons,
//! on fixed records.

use std::process::{Command, Stdio};

use crate::common::{Place, fixture, golden, refusal, stderr, stdout};
use serde_json::Value;

/// A run of the fixture that was stopped at its time limit and has series, processes and a warning.
const SLOW: &str = "a000000e";

#[test]
fn the_forms_of_output_are_what_they_were() {
    let place = Place::with_fixture();
    for (name, arguments) in [
        ("runs.txt", vec!["runs", "--all"]),
        ("runs.csv", vec!["runs", "--all", "-o", "csv"]),
        ("runs.json", vec!["runs", "--limit", "2", "-o", "json"]),
        ("runs.yaml", vec!["runs", "--limit", "1", "-o", "yaml"]),
        ("show.txt", vec!["show", SLOW]),
        ("show.json", vec!["show", SLOW, "-o", "json"]),
        ("show.yaml", vec!["show", SLOW, "-o", "yaml"]),
        ("show.csv", vec!["show", SLOW, "-o", "csv"]),
        ("interrupted.txt", vec!["show", "a000000f"]),
        ("processes.txt", vec!["show", SLOW, "--processes"]),
        ("processes.csv", vec!["show", SLOW, "--processes", "-o", "csv"]),
        ("series.txt", vec!["show", SLOW, "--series"]),
        ("series.csv", vec!["show", SLOW, "--series", "-o", "csv"]),
        ("series.json", vec!["show", SLOW, "--series=host", "-o", "json"]),
        ("missing.txt", vec!["show", SLOW, "--missing"]),
        ("missing.csv", vec!["show", SLOW, "--missing", "-o", "csv"]),
        ("compare.txt", vec!["compare", "before", "after"]),
        ("compare.json", vec!["compare", "before", "after", "-o", "json"]),
        ("compare.csv", vec!["compare", "before", "after", "-o", "csv"]),
        ("device.txt", vec!["device", "show", "bench-1"]),
        ("devices.csv", vec!["device", "list", "-o", "csv"]),
    ] {
        golden(name, &place.ok(&arguments));
    }
}

#[test]
fn json_of_a_run_is_the_record_itself() {
    let place = Place::with_fixture();
    let record = std::fs::read_to_string(fixture()).unwrap();
    let record: Value = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["schema"] == "metier.run/1" && line["id"].as_str().unwrap().ends_with(SLOW))
        .unwrap();
    assert_eq!(place.json(&["show", SLOW, "-o", "json"]), record, "fields of later versions included");
}

#[test]
fn a_run_is_found_by_what_people_type() {
    let place = Place::with_fixture();
    let found = |text: &str| place.json(&["show", text, "-o", "json"])["id"].as_str().unwrap().to_string();
    assert!(found("last").ends_with("a000000f"));
    assert!(found("last~1").ends_with("a000000e"));
    assert!(found("broken").ends_with("a000000d"));
    assert!(found("before").ends_with("a0000006"));
    assert!(found(&found("last")).ends_with("a000000f"));
    for (bad, parts) in
        [("no-such-run", ["no-such-run", "metier runs"]), ("last~99", ["last~99", "metier runs"])]
    {
        let (code, error) = place.fails(&["show", bad]);
        assert_eq!(code, 1);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let (_, error) = place.fails(&["show", "01945a00"]);
    assert!(error.contains("give more digits"), "{error}");
    let (_, error) = place.fails(&["show", SLOW, "--series=nope"]);
    assert!(error.contains("nope") && error.contains("host, use"), "{error}");
    let (_, error) = place.fails(&["show", "before", "--processes"]);
    assert!(error.contains("no process tree"), "{error}");
}

#[test]
fn filters_find_what_they_say() {
    let place = Place::with_fixture();
    let total = |arguments: &[&str]| {
        let all: Vec<&str> = ["runs", "-o", "json"].into_iter().chain(arguments.iter().copied()).collect();
        place.json(&all)["total"].as_u64().unwrap()
    };
    assert_eq!(total(&[]), 15);
    assert_eq!(total(&["--warmup"]), 16);
    assert_eq!(total(&["--workload", "before"]), 6);
    assert_eq!(total(&["--workload", "befor"]), 0);
    assert_eq!(total(&["--device", "bench-1"]), 15);
    assert_eq!(total(&["--device", "other"]), 0);
    assert_eq!(total(&["--state", "interrupted"]), 1);
    assert_eq!(total(&["--cause", "timeout"]), 1);
    assert_eq!(total(&["--tag", "nightly"]), 1);
    assert_eq!(total(&["--tag", "ci"]), 13);
    assert_eq!(total(&["BEFO"]), 6);
    assert_eq!(total(&["--since", "2025-02-01T00:00:00Z"]), 2);
    assert_eq!(total(&["--since", "2025-02-01"]), 2);
    assert_eq!(total(&["--until", "2025-02-01"]), 13);
    assert_eq!(total(&["--since", "1h"]), 0);
    assert_eq!(total(&["--batch", "01945a00-0000-7000-8000-000bbb000002"]), 6);
    assert_eq!(total(&["--tag", "ci", "--workload", "broken"]), 1);
    let page = place.json(&["runs", "--limit", "3", "-o", "json"]);
    assert_eq!((page["schema"].as_str(), page["runs"].as_array().unwrap().len()), (Some("metier.runs/1"), 3));
    let output = place.run(&["runs", "--limit", "3"]);
    assert_eq!(stdout(&output).lines().count(), 4);
    assert!(stderr(&output).contains("3 of 15 runs; --all"), "{}", stderr(&output));
}

#[test]
fn bad_filters_name_flag_value_and_what_would_be_right() {
    let place = Place::with_fixture();
    for (arguments, parts) in [
        (vec!["--since", "yesterdayish"], vec!["--since", "yesterdayish", "2d", "RFC 3339"]),
        (vec!["--until", "31.1."], vec!["--until", "31.1.", "2d"]),
        (vec!["--state", "done"], vec!["--state", "done", "running, finished, interrupted"]),
        (vec!["--cause", "x"], vec!["--cause", "timeout"]),
        (vec!["--batch", "12"], vec!["--batch", "12", "UUID"]),
        (vec!["--limit", "0"], vec!["--limit", "0"]),
        (vec!["--limit", "5", "--all"], vec!["--limit", "--all"]),
        (vec!["-o", "xml"], vec!["--output", "xml", "table, json, yaml, csv"]),
        (vec!["--color", "blue"], vec!["--color", "blue", "auto, always, never"]),
        (vec!["a", "b"], vec!["'b'"]),
    ] {
        let all: Vec<&str> = ["runs"].into_iter().chain(arguments).collect();
        let (code, error) = place.fails(&all);
        assert_eq!(code, 2, "{all:?}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{all:?}: {error}");
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let place = Place::with_fixture();
    let program = env!("CARGO_BIN_EXE_metier");
    for what in [
        "runs",
        "runs --all -o json",
        "show last -o yaml",
        "export --all",
        "completions bash",
        "man",
        "--help",
    ] {
        let store = place.path("data/metier/metier.db");
        let script = format!(
            "METIER_STORE={} {program} {what} | head -n 1 | wc -l; echo ${{PIPESTATUS[0]}}",
            store.display()
        );
        let output =
            Command::new("bash").args(["-c", &script]).env("HOME", place.path("home")).output().unwrap();
        assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("1\n0\n", ""), "{what}");
    }
}

#[test]
fn a_full_disk_is_said_and_fails() {
    let place = Place::with_fixture();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command(&["runs", "--all"]).stdout(Stdio::from(full)).output().unwrap();
    let (code, error) = refusal(&output);
    assert_eq!(code, 1);
    assert!(error.contains("cannot write to stdout"), "{error}");
}

#[test]
fn colours_follow_flag_and_environment() {
    let place = Place::with_fixture();
    let coloured = |arguments: &[&str], set: &[(&str, &str)]| {
        let output = place.command(arguments).envs(set.iter().copied()).output().unwrap();
        stdout(&output).contains('\x1b')
    };
    assert!(!coloured(&["runs"], &[]), "a pipe is no terminal");
    assert!(coloured(&["runs", "--color", "always"], &[("NO_COLOR", "1")]), "the flag wins");
    assert!(coloured(&["runs"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&["runs"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!coloured(&["runs", "--color=never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(coloured(&["runs"], &[("METIER_COLOR", "always")]));
    assert!(!coloured(&["runs", "-o", "json", "--color", "always"], &[]), "data has no colours");
}

#[test]
fn nothing_measured_yet_is_an_empty_list_but_a_named_store_must_be_there() {
    let place = Place::new();
    let output = place.run(&["runs"]);
    assert!(output.status.success() && stdout(&output).is_empty());
    assert!(stderr(&output).contains("metier run -- COMMAND"), "{}", stderr(&output));
    let (code, error) = place.fails(&["runs", "--store", "nowhere.db"]);
    assert!(code == 1 && error.contains("nowhere.db"), "{error}");
    assert!(!place.path("nowhere.db").exists(), "looking makes nothing");
}

#[test]
fn runs_are_removed_only_when_that_is_meant() {
    let place = Place::with_fixture();
    let (code, error) = place.fails(&["runs", "rm", "broken"]);
    assert!(code == 2 && error.contains("--yes"), "{error}");
    let (code, _) = place.fails(&["runs", "rm", "--yes", "broken", "no-such"]);
    assert_eq!(code, 1);
    assert_eq!(place.json(&["runs", "-o", "json"])["total"], 15, "nothing is removed if one is not there");
    place.ok(&["runs", "rm", "--yes", "broken", "a000000d"]);
    assert_eq!(place.json(&["runs", "-o", "json"])["total"], 14);
}

#[test]
fn a_regression_is_5_and_no_regression_0() {
    let place = Place::with_fixture();
    let code = |arguments: &[&str]| {
        let all: Vec<&str> = ["compare", "-q"].into_iter().chain(arguments.iter().copied()).collect();
        place.run(&all).status.code().unwrap()
    };
    assert_eq!(code(&["before", "after", "--fail-above", "5%"]), 5);
    assert_eq!(code(&["before", "after", "--fail-above", "50%"]), 0);
    assert_eq!(code(&["before", "after"]), 0, "only if asked");
    assert_eq!(code(&["after", "before", "--fail-above", "0%"]), 0, "better is no regression");
    assert_eq!(code(&["before", "after", "--metric", "memory", "--fail-above", "0%"]), 0);
    assert_eq!(code(&["before", "after", "--metric", "wall,cpu", "--fail-above", "5 %"]), 5);
    let batches = ["01945a00-0000-7000-8000-000bbb000001", "01945a00-0000-7000-8000-000bbb000002"];
    assert_eq!(code(&[batches[0], batches[1], "--fail-above", "5%"]), 5);
}

#[test]
fn what_cannot_be_compared_is_1_and_says_why() {
    let place = Place::with_fixture();
    let (code, error) = refusal(&place.run(&["compare", "broken", "after"]));
    assert!(code == 1 && error.contains("failed"), "{error}");
    let output = place.run(&["compare", "a0000001", "a0000007", "--fail-above", "5%"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing could be compared"), "{}", stderr(&output));
    assert!(stdout(&output).contains("too few runs to tell"), "{}", stdout(&output));
    let (code, error) = place.fails(&["compare", "before", "nothing-of-that-name"]);
    assert!(code == 1 && error.contains("nothing-of-that-name"), "{error}");
    let (code, error) = place.fails(&["compare", "before", "./gone.json"]);
    assert!(code == 1 && error.contains("gone.json"), "{error}");
    for (arguments, parts) in [
        (["--fail-above", "lots"], ["--fail-above", "5%"]),
        (["--fail-above", "5"], ["--fail-above", "5%"]),
        (["--metric", "speed"], ["speed", "wall, cpu"]),
    ] {
        let all: Vec<&str> = ["compare", "before", "after"].into_iter().chain(arguments).collect();
        let (code, error) = place.fails(&all);
        assert_eq!(code, 2, "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn a_workload_is_compared_with_its_earlier_self() {
    let place = Place::new();
    for seconds in ["0.01", "0.06"] {
        place.ok(&["run", "-q", "--name", "s", "--warmup", "1", "--repeat", "4", "--", "sleep", seconds]);
    }
    let code = |a: &str, b: &str| {
        let output = place.run(&["compare", a, b, "--metric", "wall", "--fail-above", "20%", "-o", "json"]);
        let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (comparison["a"]["n"].as_u64(), comparison["b"]["n"].as_u64()),
            (Some(4), Some(4)),
            "{comparison}"
        );
        output.status.code()
    };
    assert_eq!(code("s~1", "s"), Some(5));
    assert_eq!(code("s", "s~1"), Some(0));
    let (status, error) = place.fails(&["compare", "s~2", "s"]);
    assert!(status == 1 && error.contains("2 batches"), "{error}");
}

#[test]
fn saved_files_can_be_compared_without_a_store() {
    let place = Place::new();
    // Far apart: a busy host may stretch a short sleep by tens of milliseconds.
    for (name, seconds) in [("fast", "0.01"), ("slow", "0.7")] {
        let file = format!("{name}.json");
        place.ok(&["run", "-q", "--no-store", "--repeat", "6", "--save-json", &file, "--", "sleep", seconds]);
    }
    let output = place.run(&["compare", "fast.json", "slow.json", "--fail-above", "20%", "--metric", "wall"]);
    assert_eq!(output.status.code(), Some(5), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("fast (6 runs) → slow (6 runs)"), "{}", stdout(&output));
    std::fs::write(place.path("other.json"), "{\"schema\":\"other/1\"}").unwrap();
    let (code, error) = place.fails(&["compare", "fast.json", "other.json"]);
    assert!(code == 1 && error.contains("other/1") && error.contains("metier.run/1"), "{error}");
}

#[test]
fn doctor_and_device_speak_of_this_host() {
    let place = Place::new();
    let output = place.run(&["doctor", "-o", "json"]);
    assert!([Some(0), Some(4)].contains(&output.status.code()), "{}", stderr(&output));
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(doctor["schema"], "metier.doctor/1");
    let checks = doctor["checks"].as_array().unwrap();
    let lacking = checks.iter().any(|check| check["needed"] == true && check["ok"] == false);
    assert_eq!(output.status.code(), Some(if lacking { 4 } else { 0 }));
    assert!(checks.iter().any(|check| check["name"] == "control group"), "{doctor}");
    let device = place.json(&["device", "-o", "json"]);
    assert_eq!(device["schema"], "metier.device/1");
    place.ok(&["run", "-q", "--", "true"]);
    assert_eq!(place.json(&["device", "list", "-o", "json"])["devices"][0]["id"], device["id"]);
    let (code, error) = place.fails(&["device", "show", "nobody"]);
    assert!(code == 1 && error.contains("nobody") && error.contains("metier device list"), "{error}");
    std::fs::write(place.path("broken.db"), "not a database, but long enough to be looked at as one .....")
        .unwrap();
    assert_eq!(place.run(&["doctor", "--store", "broken.db"]).status.code(), Some(4));
}
