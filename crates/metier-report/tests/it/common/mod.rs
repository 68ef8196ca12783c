//! Material with known figures, and a check of pages.

use metier_report::{ReportSubject, ReportedRun};
use metier_types::{ColumnKind, ColumnUnit, ColumnValues, Run, RunId, Series, SeriesColumn};
use serde_json::json;

/// A run of this many seconds: half a core, one and a half in every tenth second, times `load`; a
/// peak of 200 MiB.
pub fn measured(number: u32, load: f64, seconds: f64) -> ReportedRun {
    let id = format!("01945a00-0000-7000-8000-{number:012x}");
    let wall = seconds * (1.0 + 0.001 * f64::from(number % 7));
    let run: Run = serde_json::from_value(json!({
        "schema": "metier.run/1",
        "id": id,
        "batch": "0192f0c1-8c2a-7d3e-9b1f-3a5c7e9d1b30",
        "workload": { "id": "detect", "name": "detect" },
        "device": { "id": "d-1", "name": "bench" },
        "state": "finished",
        "started": "2026-11-15T10:00:00.25Z",
        "ended": "2026-11-15T10:00:01Z",
        "exit": { "code": 0, "signal": null, "cause": "exited" },
        "context": {
            "command": ["python3", "detect.py", "--threshold", "0.5 or so"], "working_directory": "/tmp",
            "executable": null, "executable_digest": null, "environment_digest": null, "input": null,
            "input_digest": null, "kernel": "6.1", "measured_by": "metier 0.1.0", "method": "cgroup-v2",
            "sampling": { "interval_seconds": 0.1, "samples": 300, "late": 1 },
            "timeout_seconds": null, "grace_seconds": null, "repetition": 1, "repetitions": 1,
            "company": [{ "run": "01945a00-0000-7000-8000-0000000000ff", "name": "redis", "role": "companion", "overlap_seconds": 2.0 }],
            "image": { "reference": "detector:1", "digest": null, "engine": "Docker Engine 20.10", "container": null },
            "pod": { "namespace": "edge", "name": "detect-x", "uid": null, "node": "node-1" },
            "dataset": { "source": "s3://sets/a", "digest": format!("sha256:{}", "a".repeat(64)), "size_bytes": 1048576,
                "was_cached": true, "fetch_seconds": null, "page_cache": "cold" },
            "phases": [{ "name": "start-up", "from_seconds": 0.0, "to_seconds": seconds / 4.0 },
                       { "name": "steady", "from_seconds": seconds / 4.0, "to_seconds": seconds }],
            "limits": { "pids.max": "4096" }
        },
        "summary": { "wall_seconds": wall, "cpu_seconds": 0.6 * load * wall, "peak_memory_bytes": 200 << 20 },
        "memory": { "peak_anonymous_bytes": 120 << 20, "peak_file_bytes": 60 << 20 },
        "stages": [{ "name": "infer", "kind": "duration", "source": "lines", "count": 900, "rate_per_second": 30.0,
            "sum": 9.0, "mean": 0.01, "min": 0.008, "p50": 0.0095, "p95": 0.02, "p99": 0.03, "max": 0.05,
            "cpu_seconds_per_item": 0.02, "joules_per_item": null }],
        "intake": { "messages": 900, "dropped": 0, "malformed": 0 },
        "quality": { "summary.wall_seconds": "exact", "memory.peak_anonymous_bytes": "sampled" },
        "missing": { "summary.energy_joules": "no meter; fix: buy one", "gpus": "no driver" },
        "warnings": [{ "code": "busy-host", "text": "others used 20 % of the cores" }],
        "artefacts": [{ "name": "trace.nvvp", "media_type": "application/octet-stream", "digest": format!("sha256:{}", "b".repeat(64)), "size_bytes": 4096 }]
    }))
    .unwrap();
    let tree = serde_json::from_value(json!({
        "schema": "metier.processes/1", "run": id, "source": "events", "total": 3, "omitted": 0,
        "processes": [
            process(10, None, "python3", Some("python3 detect.py"), 1.5),
            process(11, Some(10), "sh", Some("sh -c 'a | b'"), 0.1),
            process(12, Some(11), "gzip", None, 0.4),
        ]
    }))
    .unwrap();
    let series = vec![in_use(run.id, load, seconds), energy(run.id, seconds)];
    ReportedRun {
        verdict: format!("detect succeeded after {wall:.1} s."),
        run,
        series,
        tree: Some(tree),
        stacks: None,
    }
}

fn process(pid: u32, parent: Option<u32>, name: &str, command: Option<&str>, cpu: f64) -> serde_json::Value {
    json!({ "pid": pid, "parent": parent, "name": name, "command": command, "started_seconds": 0.01, "ended_seconds": 2.0,
        "cpu_seconds": cpu, "peak_resident_bytes": 1 << 20, "read_bytes": null, "written_bytes": null,
        "exit_code": 0, "signal": null })
}

fn in_use(run: RunId, load: f64, seconds: f64) -> Series {
    let rows = (seconds * 10.0) as i64 + 1;
    let mut cpu = 0;
    let mut counted = vec![0];
    for row in 1..rows {
        let cores = if (row - 1) / 10 % 10 == 3 { 1.5 } else { 0.5 };
        cpu += (cores * load * 1e8) as i64;
        counted.push(cpu);
    }
    let column = |name: &str, kind: ColumnKind, unit: ColumnUnit, values: Vec<i64>| SeriesColumn {
        name: name.into(),
        kind,
        unit,
        values: ColumnValues::Integer(values),
        absent: vec![],
    };
    Series {
        times: (0..rows).map(|row| row * 100_000_000).collect(),
        columns: vec![
            column("cpu", ColumnKind::Counter, ColumnUnit::Nanoseconds, counted),
            column(
                "memory",
                ColumnKind::Gauge,
                ColumnUnit::Bytes,
                (0..rows).map(|row| (row.min(100) + 100) << 20).collect(),
            ),
            column("read", ColumnKind::Counter, ColumnUnit::Bytes, (0..rows).map(|row| row * 5000).collect()),
        ],
        ..Series::new(run, "use")
    }
}

fn energy(run: RunId, seconds: f64) -> Series {
    let rows = seconds as i64 + 1;
    let values = ColumnValues::Integer((0..rows).map(|row| row * 5_000_000).collect());
    let column = SeriesColumn {
        name: "package-0".into(),
        kind: ColumnKind::Counter,
        unit: ColumnUnit::Microjoules,
        values,
        absent: vec![],
    };
    Series {
        times: (0..rows).map(|row| row * 1_000_000_000).collect(),
        columns: vec![column],
        ..Series::new(run, "energy")
    }
}

pub fn subject(label: &str, runs: u32, load: f64, seconds: f64) -> ReportSubject {
    let from = label.len() as u32 * 1000 + u32::from(label.as_bytes()[0]) * 100;
    ReportSubject {
        label: label.to_string(),
        runs: (0..runs).map(|at| measured(from + at, load, seconds)).collect(),
        history: Vec::new(),
    }
}

/// Every element is closed in order, attributes are quoted, and no bare `<` or `&` stands in text.
pub fn well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        text(&rest[..at]);
        let end = at + rest[at..].find('>').unwrap_or_else(|| panic!("an unclosed tag: {:.80}", &rest[at..]));
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') || tag.starts_with('?') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closes what is not open; {rest:.80}");
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes: {tag}");
        let name = tag.split([' ', '/', '\n']).next().unwrap();
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "{tag:?}");
        if !tag.ends_with('/') {
            open.push(name);
        }
        if matches!(name, "style" | "script") && !tag.ends_with('/') {
            let close = rest.find(&format!("</{name}>")).unwrap();
            rest = &rest[close..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

fn text(text: &str) {
    for part in text.split('&').skip(1) {
        let entity = part.split(';').next().unwrap();
        assert!(
            part.contains(';')
                && entity.len() <= 6
                && entity.chars().all(|c| c.is_ascii_alphanumeric() || c == '#'),
            "a bare &: {part:.40}"
        );
    }
}
