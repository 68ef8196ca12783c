//! The JSON forms: required fields are present, unknown fields survive, and the JSON Schemas in
//! `docs/schema` match the code.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::PathBuf;

use metier_types::{Run, Series, schema};
use serde_json::{Value, json};

/// A run as a later version might write it: every record has an unknown field.
fn run_of_a_later_version() -> Value {
    json!({
        "schema": "metier.run/1",
        "id": "0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b2f",
        "batch": "0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b30",
        "workload": { "id": "sort", "name": "sort", "later": 1 },
        "device": { "id": "d-1", "name": "bench", "later": 2 },
        "state": "finished",
        "started": "2026-11-15T10:00:00.25Z",
        "ended": "2026-11-15T10:00:01Z",
        "exit": { "code": 0, "signal": null, "cause": "exited", "left_behind": 0, "later": [3] },
        "context": {
            "command": ["sort", "-n"], "working_directory": "/tmp", "executable": null, "executable_digest": null,
            "environment_digest": null, "input": null, "input_digest": null, "kernel": "6.1", "measured_by": "metier 0.1.0",
            "method": "cgroup-v2", "sampling": { "interval_seconds": 0.1, "samples": 8, "late": 0, "later": 6 }, "timeout_seconds": null, "grace_seconds": null, "repetition": 1,
            "repetitions": 1, "warmup": false, "neighbours": [], "limits": {}, "later": { "deep": [4] },
            "company": [{ "run": "0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b31", "name": "stress", "role": "neighbour", "overlap_seconds": 0.5, "later": 14 }],
            "image": { "reference": "busybox", "digest": null, "engine": "Docker Engine 20.10", "container": "c1", "later": 15 },
            "pod": { "namespace": "default", "name": "p", "uid": null, "node": "n", "later": 16 },
            "dataset": { "source": "s3://b/k", "digest": format!("sha256:{}", "1".repeat(64)), "size_bytes": 2, "was_cached": true,
                "fetch_seconds": null, "page_cache": "cold", "later": 17 },
            "phases": [{ "name": "start-up", "from_seconds": 0.0, "to_seconds": 0.25, "later": 18 }]
        },
        "tags": ["a"],
        "summary": {
            "wall_seconds": 0.75, "cpu_seconds": 0.5, "cpu_user_seconds": 0.4, "cpu_system_seconds": 0.1,
            "peak_memory_bytes": 9007199254740993u64, "read_bytes": 0, "written_bytes": 0, "energy_joules": null,
            "processes": 1, "own_overhead_ratio": 0.0004, "later": 5
        },
        "missing": { "summary.energy_joules": "no energy meter on this host" },
        "quality": { "summary.cpu_seconds": "exact" },
        "energy": { "meters": [{ "name": "package-0", "source": "rapl", "energy_joules": 1.5, "counted": true, "later": 7 },
                { "name": "VDD_IN", "source": "ina3221", "energy_joules": 12.3, "counted": true, "error_joules": 0.4, "interval_seconds": 0.2 }],
            "mean_power_watts": 2.0, "later": 8 },
        "host": { "before": { "load1": 0.5, "later": 9 }, "after": { "later": 10 }, "later": 11 },
        "warnings": [{ "code": "steal", "text": "busy", "later": 12 }],
        "artefacts": [{ "name": "log", "media_type": "text/plain", "digest": format!("sha256:{}", "0".repeat(64)), "size_bytes": 1, "later": 13 }],
        "stages": [{ "name": "inference", "kind": "duration", "source": "socket", "count": 3, "rate_per_second": 4.0, "sum": 0.3, "mean": 0.1,
            "min": 0.1, "p50": 0.1, "p95": 0.1, "p99": 0.1, "max": 0.1, "cpu_seconds_per_item": 0.2, "joules_per_item": null, "later": 19 }],
        "intake": { "messages": 3, "dropped": 0, "malformed": 0, "later": 20 },
        "later_record": { "anything": [1, 2, { "x": null }] }
    })
}

/// Every value of `before` is at the same path in `after`.
fn contains(after: &Value, before: &Value, path: &str) {
    match (after, before) {
        (Value::Object(after), Value::Object(before)) => {
            for (key, value) in before {
                let found = after.get(key).unwrap_or_else(|| panic!("{path}.{key} was lost"));
                contains(found, value, &format!("{path}.{key}"));
            }
        }
        (Value::Array(after), Value::Array(before)) => {
            assert_eq!(after.len(), before.len(), "{path} has another length");
            after
                .iter()
                .zip(before)
                .for_each(|(after, before)| contains(after, before, &format!("{path}[]")));
        }
        _ => assert_eq!(after, before, "{path} changed"),
    }
}

#[test]
fn unknown_fields_survive_a_round_trip() {
    let before = run_of_a_later_version();
    let run: Run = serde_json::from_value(before.clone()).unwrap();
    contains(&serde_json::to_value(&run).unwrap(), &before, "run");
}

#[test]
fn whole_numbers_above_2_to_53_keep_every_digit() {
    let text = run_of_a_later_version().to_string();
    let run: Run = serde_json::from_str(&text).unwrap();
    assert!(serde_json::to_string(&run).unwrap().contains("9007199254740993"));
}

#[test]
fn a_record_of_another_kind_is_refused_by_name() {
    let error = serde_json::from_value::<Series>(json!({"schema": "metier.run/1"})).unwrap_err().to_string();
    assert!(error.contains("metier.run/1") && error.contains("metier.series/1"), "{error}");
}

#[test]
fn the_fields_that_others_rely_on_are_always_written() {
    let run: Run = serde_json::from_value(run_of_a_later_version()).unwrap();
    let json = serde_json::to_value(&run).unwrap();
    for path in [
        "/schema",
        "/id",
        "/batch",
        "/workload/id",
        "/workload/name",
        "/device/id",
        "/device/name",
        "/started",
        "/exit/code",
        "/exit/signal",
        "/exit/cause",
        "/context",
        "/quality",
        "/missing",
        "/summary/wall_seconds",
        "/summary/cpu_seconds",
        "/summary/cpu_user_seconds",
        "/summary/cpu_system_seconds",
        "/summary/peak_memory_bytes",
        "/summary/read_bytes",
        "/summary/written_bytes",
        "/summary/energy_joules",
        "/summary/processes",
        "/summary/own_overhead_ratio",
    ] {
        assert!(json.pointer(path).is_some(), "{path} is not written");
    }
}

/// `METIER_BLESS=1 cargo test -p metier-types` rewrites them.
#[test]
fn published_schemas_are_those_of_the_code() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    for (name, schema) in schema::record_schemas() {
        let file = folder.join(format!("{}.json", name.replace('/', "-")));
        let now = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("METIER_BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &now).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(kept, now, "{} is stale; METIER_BLESS=1 writes it anew", file.display());
    }
}

#[test]
fn an_energy_is_told_with_the_error_of_the_meters_that_make_it() {
    let mut run: Run = serde_json::from_value(run_of_a_later_version()).unwrap();
    run.summary.energy_joules = Some(metier_types::Joules(13.8));
    assert_eq!(run.energy_error(), Some(metier_types::Joules(0.4)));
    let told = run.format_energy().unwrap();
    assert_eq!(told, format!("{} ± {}", metier_types::Joules(13.8), metier_types::Joules(0.4)));
    run.energy.meters.truncate(1);
    assert_eq!(
        run.format_energy().unwrap(),
        metier_types::Joules(13.8).to_string(),
        "a counter has no such error"
    );
}

#[test]
fn a_run_is_complete_that_ended_well_or_as_planned() {
    let exit = |text: &str| serde_json::from_str::<metier_types::RunExit>(text).unwrap();
    assert!(exit(r#"{"code": 0, "signal": null, "cause": "exited"}"#).is_complete());
    assert!(exit(r#"{"code": null, "signal": 2, "cause": "timeout", "planned": true}"#).is_complete());
    assert!(!exit(r#"{"code": 0, "signal": null, "cause": "timeout"}"#).is_complete());
    assert!(!exit(r#"{"code": 3, "signal": null, "cause": "exited"}"#).is_complete());
}
