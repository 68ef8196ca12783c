//! Size and speed of a long series: a recorded hour at 100 Hz with 20 columns.
//!
//!     cargo run --release -p metier-store --example series_size [HOURS]
//!
//! The columns change as kernel files do: times with jitter of tens of microseconds, CPU counters
//! in whole microseconds, memory in pages, mostly idle IO, host gauges with few decimals, and three
//! ratios with random bits. Prints sizes and times of the codec alone, then of the same run through
//! an SQLite store, of a short run, and of lists.

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::error::Error;
use std::time::Instant;

use metier_store::codec::{self, DecodeLimits};
use metier_store::{OwnerProcess, RecordStore, RunFilter, StoreLocation};
use metier_types::random::SplitMix64;
use metier_types::{
    BatchId, ColumnKind, ColumnUnit, ColumnValues, Run, RunId, RunState, Series, SeriesColumn,
};

const RATE: usize = 100;

/// A noise generator with a fixed seed.
struct Noise(SplitMix64);

impl Noise {
    /// Approximately normal: the sum of three uniform numbers.
    fn bell(&mut self, width: f64) -> f64 {
        (self.0.next_fraction() + self.0.next_fraction() + self.0.next_fraction() - 1.5) * width
    }
    fn chance(&mut self, one_in: u64) -> bool {
        self.0.next_u64().is_multiple_of(one_in)
    }
}

fn integers(rows: usize, mut each: impl FnMut(usize) -> i64) -> ColumnValues {
    ColumnValues::Integer((0..rows).map(&mut each).collect())
}

fn floats(rows: usize, mut each: impl FnMut(usize) -> f64) -> ColumnValues {
    ColumnValues::Float((0..rows).map(&mut each).collect())
}

fn recorded(run: RunId, rows: usize) -> Series {
    let mut noise = Noise(SplitMix64::new(7));
    let mut series = Series::new(run, "use");
    series.times = (0..rows).map(|row| row as i64 * 10_000_000 + noise.bell(40_000.0).abs() as i64).collect();
    let counter = |noise: &mut Noise, step: f64, width: f64, unit: i64| {
        let mut sum = 0i64;
        integers(rows, |_| {
            sum += (step + noise.bell(width)).max(0.0) as i64 * unit;
            sum
        })
    };
    let walk = |noise: &mut Noise, one_in: u64, width: f64| {
        let mut level = 100_000i64;
        integers(rows, |_| {
            if noise.chance(one_in) {
                level = (level + noise.bell(width) as i64).max(0);
            }
            level * 4096
        })
    };
    let bursts = |noise: &mut Noise, one_in: u64, unit: i64| {
        let mut sum = 0i64;
        integers(rows, |_| {
            if noise.chance(one_in) {
                sum += (noise.0.next_u64() % 64) as i64 * unit;
            }
            sum
        })
    };
    use ColumnKind::{Counter, Gauge};
    let n = &mut noise;
    let columns = [
        ("cpu", Counter, ColumnUnit::Nanoseconds, counter(n, 9_700.0, 400.0, 1000)),
        ("cpu_user", Counter, ColumnUnit::Nanoseconds, counter(n, 9_000.0, 600.0, 1000)),
        ("cpu_system", Counter, ColumnUnit::Nanoseconds, counter(n, 700.0, 500.0, 1000)),
        ("memory", Gauge, ColumnUnit::Bytes, walk(n, 2, 60.0)),
        ("memory_anonymous", Gauge, ColumnUnit::Bytes, walk(n, 3, 60.0)),
        ("memory_file", Gauge, ColumnUnit::Bytes, walk(n, 20, 300.0)),
        ("memory_kernel", Gauge, ColumnUnit::Bytes, walk(n, 10, 8.0)),
        ("faults", Counter, ColumnUnit::Count, counter(n, 20.0, 40.0, 1)),
        ("major_faults", Counter, ColumnUnit::Count, bursts(n, 5000, 1)),
        ("read", Counter, ColumnUnit::Bytes, bursts(n, 30, 4096)),
        ("written", Counter, ColumnUnit::Bytes, bursts(n, 15, 512)),
        ("cpu_pressure", Counter, ColumnUnit::Nanoseconds, counter(n, 100.0, 300.0, 1000)),
        ("memory_pressure", Counter, ColumnUnit::Nanoseconds, bursts(n, 1000, 1000)),
        ("throttled", Counter, ColumnUnit::Nanoseconds, integers(rows, |_| 0)),
        ("processes", Gauge, ColumnUnit::Count, integers(rows, |row| 4 + (row / 900 % 3) as i64)),
        (
            "load",
            Gauge,
            ColumnUnit::Count,
            floats(rows, |row| (150.0 + (row as f64 / 4e3).sin() * 90.0).round() / 100.0),
        ),
        (
            "temperature",
            Gauge,
            ColumnUnit::Celsius,
            floats(rows, |_| (48_500.0 + n.bell(2_000.0)).round() / 1000.0),
        ),
        ("steal", Gauge, ColumnUnit::Ratio, floats(rows, |_| n.0.next_fraction() / 37.0)),
        ("others", Gauge, ColumnUnit::Ratio, floats(rows, |_| 0.2 + n.bell(0.05))),
        ("power", Gauge, ColumnUnit::Watts, floats(rows, |_| 21.0 + n.bell(3.0))),
    ];
    series.columns = columns
        .into_iter()
        .map(|(name, kind, unit, values)| SeriesColumn {
            name: name.to_string(),
            kind,
            unit,
            values,
            absent: vec![],
        })
        .collect();
    series
}

/// A range of rows of a series, as a series.
fn part(series: &Series, rows: std::ops::Range<usize>) -> Series {
    let mut part = Series::new(series.run, series.name.clone());
    part.times = series.times[rows.clone()].to_vec();
    part.columns = series
        .columns
        .iter()
        .map(|column| SeriesColumn {
            name: column.name.clone(),
            kind: column.kind,
            unit: column.unit,
            values: match &column.values {
                ColumnValues::Integer(values) => ColumnValues::Integer(values[rows.clone()].to_vec()),
                ColumnValues::Float(values) => ColumnValues::Float(values[rows.clone()].to_vec()),
            },
            absent: vec![],
        })
        .collect();
    part
}

fn run_record(id: RunId) -> Result<Run, Box<dyn Error>> {
    Ok(serde_json::from_value(serde_json::json!({
        "schema": "metier.run/1", "id": id, "batch": BatchId::new(),
        "workload": { "id": "hour", "name": "hour" }, "device": { "id": "d", "name": "d" },
        "state": "running", "started": "2026-01-01T00:00:00Z", "ended": null, "exit": null,
        "context": {
            "command": ["true"], "working_directory": null, "executable": null, "executable_digest": null,
            "environment_digest": null, "input": null, "input_digest": null, "kernel": null,
            "measured_by": "example", "method": null, "sampling": null, "timeout_seconds": null,
            "grace_seconds": null, "repetition": 1, "repetitions": 1
        },
        "summary": {}
    }))?)
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn files_of(folder: &std::path::Path) -> std::io::Result<u64> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

fn main() -> Result<(), Box<dyn Error>> {
    let hours: f64 = std::env::args().nth(1).map_or(Ok(1.0), |text| text.parse())?;
    let rows = (hours * 3600.0) as usize * RATE;
    let id = RunId::new();
    let series = recorded(id, rows);
    let values = rows * (series.columns.len() + 1);
    println!("{rows} rows, {} columns, {:.1} MB of numbers", series.columns.len(), values as f64 * 8e-6);

    println!("\ncodec, one piece");
    let start = Instant::now();
    let bytes = codec::encode_series(&series)?;
    println!("  encode  {:8.1} ms", milliseconds(start));
    let limits = DecodeLimits { rows: u32::MAX, columns: 64, values: u64::MAX };
    let times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            let decoded = codec::decode_series(&bytes, limits);
            let time = milliseconds(start);
            assert!(decoded.is_ok_and(|decoded| decoded == series));
            time
        })
        .collect();
    println!(
        "  decode  {:8.1} ms  best of {}: {times:.1?}",
        times.iter().copied().fold(f64::MAX, f64::min),
        times.len()
    );
    println!(
        "  size    {:8.2} MB  ({:.2} bytes a value)",
        bytes.len() as f64 * 1e-6,
        bytes.len() as f64 / values as f64
    );
    for column in &series.columns {
        let mut alone = Series::new(id, "");
        alone.times = vec![0; rows];
        alone.columns = vec![column.clone()];
        println!("    {:18} {:8.3} MB", column.name, codec::encode_series(&alone)?.len() as f64 * 1e-6);
    }
    let mut alone = Series::new(id, "");
    alone.times.clone_from(&series.times);
    println!("    {:18} {:8.3} MB", "(times)", codec::encode_series(&alone)?.len() as f64 * 1e-6);

    println!("\nSQLite, written second by second");
    let folder = tempfile::tempdir()?;
    let store = RecordStore::open(&StoreLocation::Sqlite(folder.path().join("metier.db")))?;
    let mut run = run_record(id)?;
    let owner = OwnerProcess { host: "d".to_string(), boot: "b".to_string(), pid: 1, started: 1 };
    store.begin_run(&run, &owner)?;
    let seconds: Vec<Series> =
        (0..rows / RATE).map(|second| part(&series, second * RATE..(second + 1) * RATE)).collect();
    let start = Instant::now();
    for second in &seconds {
        store.append_series(id, std::slice::from_ref(second))?;
    }
    println!(
        "  append  {:8.1} µs each, {} appends",
        milliseconds(start) * 1e3 / seconds.len() as f64,
        seconds.len()
    );
    println!("  files   {:8.2} MB before the end", files_of(folder.path())? as f64 * 1e-6);
    run.state = RunState::Finished;
    let start = Instant::now();
    store.finish_run(&run)?;
    println!("  finish  {:8.1} ms", milliseconds(start));
    println!("  files   {:8.2} MB", files_of(folder.path())? as f64 * 1e-6);
    let times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            let read = store.series(id, None);
            let time = milliseconds(start);
            assert!(read.is_ok_and(|read| read == [series.clone()]));
            time
        })
        .collect();
    println!(
        "  read    {:8.1} ms  best of {}: {times:.1?}",
        times.iter().copied().fold(f64::MAX, f64::min),
        times.len()
    );
    drop(store);

    println!("\na short run: open, begin, one append, finish, close (a store that exists)");
    let at = StoreLocation::Sqlite(folder.path().join("metier.db"));
    let mut times = Vec::new();
    for _ in 0..200 {
        let mut run = run_record(RunId::new())?;
        let second = Series { run: run.id, ..seconds[0].clone() };
        let start = Instant::now();
        let store = RecordStore::open(&at)?;
        let opened = milliseconds(start);
        store.begin_run(&run, &owner)?;
        let begun = milliseconds(start);
        store.append_series(run.id, &[second])?;
        let appended = milliseconds(start);
        run.state = RunState::Finished;
        store.finish_run(&run)?;
        let finished = milliseconds(start);
        drop(store);
        times.push([
            opened,
            begun - opened,
            appended - begun,
            finished - appended,
            milliseconds(start) - finished,
            milliseconds(start),
        ]);
    }
    for (at, what) in ["open", "begin", "append", "finish", "close", "together"].into_iter().enumerate() {
        let mut column: Vec<f64> = times.iter().map(|row| row[at]).collect();
        column.sort_by(f64::total_cmp);
        println!(
            "  {what:9} median {:6.3} ms, 95 % below {:6.3} ms",
            column[column.len() / 2],
            column[column.len() * 19 / 20]
        );
    }

    let store = RecordStore::open(&at)?;
    for i in 0..20_000 {
        let mut run = run_record(RunId::new())?;
        run.started += jiff::SignedDuration::from_secs(i);
        run.workload.name = format!("workload {}", i % 50);
        store.put_run(&run, &[])?;
    }
    println!("\na store of 20 000 runs");
    let time =
        |what: &str, work: &dyn Fn() -> Result<(), metier_store::Error>| -> Result<(), metier_store::Error> {
            let mut best = f64::MAX;
            for _ in 0..5 {
                let start = Instant::now();
                work()?;
                best = best.min(milliseconds(start));
            }
            println!("  {what:32} {best:8.3} ms");
            Ok(())
        };
    let list = |filter: RunFilter| store.runs(&filter).map(|_| ());
    time("first page of 100", &|| list(RunFilter::default()))?;
    time("first page of 1000", &|| list(RunFilter { limit: 1000, ..Default::default() }))?;
    let one = || RunFilter { workload: Some("workload 7".to_string()), ..Default::default() };
    time("first page of one workload", &|| list(one()))?;
    time("a text that no run has", &|| {
        list(RunFilter { text: Some("zebra".to_string()), ..Default::default() })
    })?;
    let last = store.find_run("last")?;
    time("find by the last digits", &|| store.find_run(&last.short()).map(|_| ()))?;
    time("find by workload", &|| store.find_run("workload 7").map(|_| ()))?;
    time("check", &|| store.check_health().map(|_| ()))?;
    Ok(())
}
