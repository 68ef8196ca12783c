//! `kill -9` at any instant loses at most the chunk that was being written, and several processes
//! share one file.
//!
//! The writer is a separate process (`tests/processes`). It prints each acknowledgement of the
//! store; after the kill the file must hold at least these. The file is read twice: by SQL without
//! this crate's code (the `sqlite3` program where installed, else a bare connection), and by the
//! store.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::common::*;
use metier_store::{RecordStore, RunFilter, StoreLocation};
use metier_types::random::SplitMix64;
use metier_types::{RunId, RunState};

fn writer(path: &Path, runs: usize) -> Child {
    Command::new(env!("CARGO_BIN_EXE_store-process"))
        .arg("write")
        .arg(path)
        .arg(runs.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A writing process and the store's acknowledgements: state and number of appends of each run.
struct Writer {
    child: Child,
    said: BufReader<ChildStdout>,
    runs: Vec<(RunId, RunState, i64)>,
}

impl Writer {
    fn start(path: &Path, runs: usize) -> Writer {
        let mut child = writer(path, runs);
        let said = BufReader::new(child.stdout.take().unwrap());
        Writer { child, said, runs: Vec::new() }
    }

    /// Reads one line of its output; `false` at the end.
    fn listen(&mut self) -> bool {
        let mut line = String::new();
        if self.said.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["begun", id] => self.runs.push((id.parse().unwrap(), RunState::Running, 0)),
            ["appended", _, count] => self.runs.last_mut().unwrap().2 = count.parse().unwrap(),
            ["finished", _] => self.runs.last_mut().unwrap().1 = RunState::Finished,
            _ => {}
        }
        true
    }

    /// Reads the rest of its output and waits for its end.
    fn acknowledged(mut self) -> Vec<(RunId, RunState, i64)> {
        while self.listen() {}
        self.child.wait().unwrap();
        self.runs
    }
}

/// Queries the file with SQL, without this crate.
fn ask(path: &Path, sql: &str) -> String {
    if let Ok(out) = Command::new("sqlite3").arg(path).arg(sql).output() {
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        return String::from_utf8(out.stdout).unwrap().trim().to_string();
    }
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .query_row(sql, [], |row| {
            row.get_ref(0).map(|cell| match cell {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                other => other.as_str().unwrap().to_string(),
            })
        })
        .unwrap()
}

#[test]
fn a_kill_loses_at_most_the_chunk_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metier.db");
    let location = StoreLocation::Sqlite(path.clone());
    let mut everything: Vec<(RunId, RunState, i64)> = Vec::new();
    let mut random = SplitMix64::new(1);
    for round in 0..50 {
        let mut writer = Writer::start(&path, 1000);
        if round < 15 {
            // The kill may come before the file exists.
            std::thread::sleep(Duration::from_micros(random.next_below(15_000) as u64));
        } else {
            while writer.runs.is_empty() && writer.listen() {}
            std::thread::sleep(Duration::from_micros(random.next_below(50_000) as u64));
        }
        writer.child.kill().unwrap();
        everything.extend(writer.acknowledged());
        if path.exists() && std::fs::metadata(&path).unwrap().len() > 0 {
            assert_eq!(ask(&path, "PRAGMA integrity_check"), "ok", "round {round}");
        }
        for (id, state, appends) in &everything {
            let id = id.to_string().replace('-', "");
            let found = ask(&path, &format!("SELECT state FROM run WHERE id = '{id}'"));
            match state {
                RunState::Finished => assert_eq!(found, "finished", "round {round}"),
                // The end may have been stored but not acknowledged.
                _ => assert!(found == "running" || found == "finished", "round {round}: {found:?}"),
            }
            if found == "running" {
                let count: i64 =
                    ask(&path, &format!("SELECT count(*) FROM chunk WHERE run = '{id}'")).parse().unwrap();
                assert!((*appends..=appends + 1).contains(&count), "round {round}: {count} of {appends}");
            } else {
                let rows = ask(&path, &format!("SELECT sum(rows) FROM block WHERE run = '{id}'"));
                assert_eq!(rows, (CHUNK_ROWS * RUN_CHUNKS).to_string(), "round {round}");
            }
        }
        // Each round rechecks only the last few, so that the test stays quick.
        let keep = everything.len().saturating_sub(20);
        if round < 49 {
            everything.drain(..keep);
        }
    }
    let store = RecordStore::open(&location).unwrap();
    let swept = store.mark_interrupted_runs("device-1", &|_| false).unwrap();
    assert!(swept.len() >= 10, "the kills must hit runs under way, hit {}", swept.len());
    for id in swept {
        let run = store.run(id).unwrap().unwrap();
        assert_eq!(run.state, RunState::Interrupted);
        for series in store.series(id, None).unwrap() {
            assert_eq!(series, chunk(id, "use", 0, series.times.len() as i64));
        }
    }
    let running = RunFilter { state: Some(RunState::Running), ..Default::default() };
    assert_eq!(store.runs(&running).unwrap().total, 0);
    assert_eq!(ask(&path, "SELECT count(*) FROM chunk"), "0");
    assert_eq!(store.check_health().unwrap().problems, Vec::<String>::new());
}

#[test]
fn processes_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/metier.db");
    let children: Vec<Writer> = (0..4).map(|_| Writer::start(&path, 5)).collect();
    let mut seen = 0;
    for child in children {
        for (id, state, appends) in child.acknowledged() {
            assert_eq!((state, appends), (RunState::Finished, RUN_CHUNKS));
            let store = RecordStore::open_read_only(&StoreLocation::Sqlite(path.clone())).unwrap();
            assert_eq!(store.series(id, None).unwrap(), [chunk(id, "use", 0, CHUNK_ROWS * RUN_CHUNKS)]);
            seen += 1;
        }
    }
    assert_eq!(seen, 20);
}
