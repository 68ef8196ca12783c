//! Records and samples for the tests of this crate.

use metier_store::{NewSession, OwnerProcess};
use metier_types::{
    BatchId, ColumnKind, ColumnUnit, ColumnValues, Device, Run, RunId, Series, SeriesColumn, SessionId,
    Workload,
};
use serde_json::json;

/// Rows per chunk and chunks per run of the process that is killed while it writes.
pub const CHUNK_ROWS: i64 = 20;
pub const RUN_CHUNKS: i64 = 25;

/// An active run that starts `second` seconds after a fixed day.
pub fn run_at(second: i64, workload: &str) -> Run {
    let started = metier_types::UtcTimestamp::from_second(1_760_000_000 + second).unwrap();
    serde_json::from_value(json!({
        "schema": "metier.run/1",
        "id": RunId::new(),
        "batch": BatchId::new(),
        "workload": { "id": workload, "name": workload },
        "device": { "id": "device-1", "name": "bench" },
        "state": "running",
        "started": started.to_string(),
        "ended": null,
        "exit": null,
        "context": {
            "command": ["./train", "--rate", "0.1", "a file"],
            "working_directory": null, "executable": null, "executable_digest": null,
            "environment_digest": null, "input": null, "input_digest": null, "kernel": null,
            "measured_by": "metier 0.1.0", "method": "cgroup-v2", "sampling": null,
            "timeout_seconds": null, "grace_seconds": null, "repetition": 1, "repetitions": 3
        },
        "tags": ["night", "größer"],
        "summary": { "wall_seconds": null, "from_the_future": [1, 2.5] },
        "odd": 0.1
    }))
    .unwrap()
}

/// The same run after its end.
pub fn over(run: &Run) -> Run {
    let mut run = run.clone();
    run.state = metier_types::RunState::Finished;
    run.ended = Some(run.started + std::time::Duration::from_millis(1234));
    run.exit = Some(serde_json::from_value(json!({ "code": 0, "signal": null, "cause": "exited" })).unwrap());
    run.summary.wall_seconds = Some(metier_types::Seconds(1.234_567_890_123));
    run
}

pub fn owner(pid: u32) -> OwnerProcess {
    OwnerProcess { host: "device-1".to_string(), boot: "boot-1".to_string(), pid, started: 77 }
}

pub fn new_session(name: &str) -> NewSession {
    NewSession {
        id: SessionId::new(),
        name: name.to_string(),
        asker: serde_json::from_value(json!({ "door": "cli", "user": "größer" })).unwrap(),
        job: None,
        device: None,
        file: json!({ "command": ["true"], "odd": [0.1, null, "\u{0}"] }),
        folder: None,
    }
}

pub fn device(id: &str, name: &str) -> Device {
    serde_json::from_value(json!({
        "schema": "metier.device/1", "id": id, "name": name, "class": "machine", "product": null,
        "cpu": { "model": null, "architecture": "x86_64", "sockets": null, "cores": null, "threads": 2,
                 "max_frequency_hertz": null },
        "memory_bytes": 1, "swap_bytes": null, "os": null, "kernel": null, "seen": "2026-01-01T00:00:00Z"
    }))
    .unwrap()
}

pub fn workload(id: &str, first_seen: &str) -> Workload {
    serde_json::from_value(json!({
        "schema": "metier.workload/1", "id": id, "name": id, "kind": "command",
        "command": ["./train"], "digest": null, "first_seen": first_seen
    }))
    .unwrap()
}

/// A chunk of `rows` samples from row `first`, at 100 Hz.
pub fn chunk(run: RunId, name: &str, first: i64, rows: i64) -> Series {
    let mut series = Series::new(run, name);
    series.times = (first..first + rows).map(|row| row * 10_000_000 + row * 7919 % 40_000).collect();
    let integers = (first..first + rows).map(|row| row * 9_800_000 + row * 31 % 1000).collect();
    let floats = (first..first + rows).map(|row| (row % 97) as f64 / 10.0).collect();
    series.columns = vec![
        SeriesColumn {
            name: "cpu".into(),
            kind: ColumnKind::Counter,
            unit: ColumnUnit::Nanoseconds,
            values: ColumnValues::Integer(integers),
            absent: vec![],
        },
        SeriesColumn {
            name: "load".into(),
            kind: ColumnKind::Gauge,
            unit: ColumnUnit::Count,
            values: ColumnValues::Float(floats),
            absent: vec![],
        },
    ];
    series
}
