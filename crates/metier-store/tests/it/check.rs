//! `RecordStore::check`: damage anywhere is found, or changes nothing that the store returns.

use std::fs;
use std::path::Path;

use crate::common::*;
use metier_store::{RecordStore, SessionEnd, StoreLocation, StoredTrial};
use metier_types::random::SplitMix64;
use metier_types::{ArtefactRef, DeviceId, Run, RunId, SessionState};

/// A store with something in every table; returns its runs.
fn fill(store: &RecordStore) -> Vec<Run> {
    let device_id: DeviceId = serde_json::from_value("device-1".into()).unwrap();
    store.put_device(&device("device-1", "bench")).unwrap();
    store.put_workload(&workload("train", "2026-01-01T00:00:00Z")).unwrap();
    let mut runs = Vec::new();
    for number in 0..4 {
        let mut run = run_at(number, "train");
        run.tags.push(format!("tag-{number}"));
        store.begin_run(&run, &owner(1)).unwrap();
        for part in 0..3 {
            store.append_series(run.id, &[chunk(run.id, "use", part * 50, 50)]).unwrap();
        }
        let content: Vec<u8> =
            (0..9000u32).map(|at| (at.wrapping_mul(number as u32 + 7) >> 3) as u8).collect();
        let (digest, size) = store.put_artefact(&mut content.as_slice()).unwrap();
        let file = ArtefactRef::new("out.bin", "application/octet-stream", digest, size);
        store.link_artefact(run.id, &file).unwrap();
        store.finish_run(&over(&run)).unwrap();
        runs.push(store.run(run.id).unwrap().unwrap());
    }
    let session = store.add_session(&new_session("nightly"), 10).unwrap();
    let claimed = store.claim_session(&runs[0].device, &owner(2)).unwrap().unwrap();
    assert_eq!(claimed.id, session.id);
    store.append_session_log(session.id, 0, b"some output of the session\n").unwrap();
    let end = SessionEnd { state: SessionState::Finished, exit_code: Some(0), reason: None };
    store.end_session(session.id, &owner(2), &end).unwrap();
    store.add_session(&new_session("waiting"), 10).unwrap();
    let trial = |key: &str| StoredTrial { key: key.into(), record: "{\"seconds\": 0.125}".into() };
    store.put_trials(&device_id, "latency", &[trial("a"), trial("b")]).unwrap();
    store.put_memo("executable-digest 1:2:3", "sha256:0123").unwrap();
    runs
}

/// All that a store returns, as one text; `None` if something cannot be read.
fn view(store: &RecordStore, runs: &[RunId]) -> Option<String> {
    let mut text = String::new();
    let mut add = |value: String| text.push_str(&value);
    add(format!("{:?}", store.runs(&Default::default()).ok()?.runs));
    for id in runs {
        let run = store.run(*id).ok()??;
        add(serde_json::to_string(&run).ok()?);
        add(format!("{:?}", store.series(*id, None).ok()?));
        for file in &run.artefacts {
            let mut content = Vec::new();
            store.read_artefact(&file.digest, &mut content).ok()?;
            add(format!("{content:?}"));
        }
        for tag in &run.tags {
            let filter = metier_store::RunFilter { tag: Some(tag.clone()), ..Default::default() };
            add(format!("{:?}", store.runs(&filter).ok()?.total));
        }
    }
    add(format!("{:?} {:?}", store.devices().ok()?, store.workloads().ok()?));
    for session in store.sessions(&Default::default()).ok()? {
        add(format!("{session:?} {:?}", store.session_log(session.id, 0).ok()?));
        add(format!("{:?}", store.is_cancel_requested(session.id).ok()?));
    }
    let device_id: DeviceId = serde_json::from_value("device-1".into()).unwrap();
    add(format!("{:?}", store.trials(&device_id, "latency").ok()?));
    add(format!("{:?}", store.get_memo("executable-digest 1:2:3").ok()?));
    Some(text)
}

/// Whether a check finds something in the file. A store that cannot be opened is found.
fn is_found(path: &Path) -> bool {
    match RecordStore::open_read_only(&StoreLocation::Sqlite(path.to_path_buf())) {
        Ok(store) => store.check(false, &|_| true).has_problems(),
        Err(_) => true,
    }
}

/// A filled SQLite store in one file, without a log.
fn filled_file(folder: &Path) -> (std::path::PathBuf, Vec<RunId>) {
    let path = folder.join("metier.db");
    let store = RecordStore::open(&StoreLocation::Sqlite(path.clone())).unwrap();
    let runs = fill(&store).iter().map(|run| run.id).collect();
    drop(store);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE").unwrap();
    (path, runs)
}

#[test]
fn an_intact_store_has_no_findings_in_either_engine() {
    for place in [Some(Place::sqlite()), Place::postgres()].into_iter().flatten() {
        let store = place.open();
        fill(&store);
        for is_repairing in [false, true] {
            let report = store.check(is_repairing, &|_| true);
            assert_eq!(report.findings, [], "{}", report.store);
            for (kind, count) in [("runs", 4), ("blocks", 4), ("files", 4), ("sessions", 2), ("trials", 2)] {
                assert_eq!(report.checked.get(kind), Some(&count), "{kind}");
            }
            assert_eq!(report.checked.get("rows without checksum"), None);
        }
    }
}

#[test]
fn a_changed_byte_anywhere_is_found_or_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, runs) = filled_file(folder.path());
    let bytes = fs::read(&path).unwrap();
    let open = |path: &Path| RecordStore::open_read_only(&StoreLocation::Sqlite(path.to_path_buf()));
    let expected = view(&open(&path).unwrap(), &runs).unwrap();
    assert!(!is_found(&path));
    let damaged = folder.path().join("damaged.db");
    let mut random = SplitMix64::new(20_261_119);
    let (mut found, mut harmless) = (0, 0);
    // Two places in every 512 bytes, so that every page is met, its head and its content.
    for start in (0..bytes.len()).step_by(256) {
        let at = start + (random.next_u64() % 256) as usize;
        let mut copy = bytes.clone();
        copy[at] ^= 1 << (random.next_u64() % 8);
        fs::write(&damaged, &copy).unwrap();
        if is_found(&damaged) {
            found += 1;
            continue;
        }
        // Bytes of free space and of counters that SQLite keeps for itself.
        let got = open(&damaged).ok().and_then(|store| view(&store, &runs));
        assert_eq!(got.as_ref(), Some(&expected), "byte {at} was changed and nothing was found");
        harmless += 1;
    }
    eprintln!("{found} of {} changed bytes found, {harmless} without effect", found + harmless);
    assert!(found > harmless / 4, "{found} found, {harmless} without effect");
}

#[test]
fn a_file_that_was_cut_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = filled_file(folder.path());
    let bytes = fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged.db");
    for part in 1..20 {
        fs::write(&damaged, &bytes[..bytes.len() * part / 20]).unwrap();
        assert!(is_found(&damaged), "cut to {part} twentieths");
    }
    fs::write(&damaged, &bytes[..bytes.len() - 1]).unwrap();
    assert!(is_found(&damaged), "cut by one byte");
}

/// Damage by SQL that both engines understand, what is said, and whether a repair mends it.
const DAMAGES: [(&str, &str, bool); 15] = [
    ("UPDATE run SET record = replace(record, 'bench', 'bank!')", "checksum", false),
    ("UPDATE run SET workload_name = 'other'", "column workload_name", true),
    ("UPDATE run SET started = started + 1", "column started", true),
    ("UPDATE run SET state = 'running'", "column state", true),
    ("DELETE FROM tag WHERE tag = 'night'", "tags", true),
    ("DELETE FROM run_artefact", "links to files", true),
    ("UPDATE block SET rows = rows - 1", "columns differ from its content", true),
    ("UPDATE block SET part = part + 1", "a block before it is missing", false),
    ("DELETE FROM artefact_part", "has another digest or length", false),
    ("DELETE FROM artefact", "is missing", false),
    ("UPDATE device SET name = 'other'", "differs from its record", false),
    ("UPDATE session SET number = number + 100", "columns differ", false),
    ("UPDATE session_log SET part = 3", "a part before it is missing", false),
    ("UPDATE trial SET key = 'z' WHERE key = 'a'", "checksum", false),
    ("UPDATE memo SET value = 'sha256:4567'", "checksum", true),
];

#[test]
fn damage_in_any_table_is_found_and_repaired_where_that_is_safe() {
    for (sql, words, is_mended) in DAMAGES {
        for place in [Some(Place::sqlite()), Place::postgres()].into_iter().flatten() {
            let store = place.open();
            let runs: Vec<RunId> = fill(&store).iter().map(|run| run.id).collect();
            let before = view(&store, &runs).unwrap();
            let changed = match &place {
                Place::Folder(folder) => {
                    let path = folder.path().join("deep/er/metier.db");
                    rusqlite::Connection::open(path).unwrap().execute(sql, []).unwrap() as u64
                }
                Place::Schema { url, .. } => {
                    postgres::Client::connect(url, postgres::NoTls).unwrap().execute(sql, &[]).unwrap()
                }
            };
            assert!(changed > 0, "{sql}");
            let report = store.check(false, &|_| true);
            assert!(report.has_problems(), "{sql}: not found");
            let said = format!("{:?}", report.findings);
            assert!(said.contains(words), "{sql}: {said}");
            assert!(report.findings.iter().all(|finding| !finding.repaired));
            let repaired = store.check(true, &|_| true);
            assert_eq!(!repaired.has_problems(), is_mended, "{sql}: {:?}", repaired.findings);
            if is_mended {
                assert_eq!(store.check(false, &|_| true).findings, [], "{sql}");
                if !sql.contains("memo") {
                    assert!(view(&store, &runs).unwrap() == before, "{sql}: the repair changed something");
                }
            }
        }
    }
}

#[test]
fn a_run_without_its_process_is_found_and_marked() {
    for place in [Some(Place::sqlite()), Place::postgres()].into_iter().flatten() {
        let store = place.open();
        let run = run_at(0, "train");
        store.begin_run(&run, &owner(1)).unwrap();
        store.append_series(run.id, &[chunk(run.id, "use", 0, 10)]).unwrap();
        assert_eq!(store.check(true, &|_| true).findings, []);
        let report = store.check(false, &|_| false);
        assert!(report.has_problems() && report.findings[0].problem.contains("process 1 is gone"));
        assert!(!store.check(true, &|_| false).has_problems());
        assert_eq!(store.run(run.id).unwrap().unwrap().state, metier_types::RunState::Interrupted);
        assert_eq!(store.check(false, &|_| false).findings, []);
    }
}

#[test]
fn rows_without_their_run_and_damaged_indexes_are_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = filled_file(folder.path());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA foreign_keys = OFF; INSERT INTO tag (run, tag) VALUES ('none', 'x');
             PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, '(batch)', '(device)') WHERE name = 'run_batch'",
        )
        .unwrap();
    drop(connection);
    // With the wrong definition, SQLite itself writes an index that does not fit the right one.
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "REINDEX run_batch; PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, '(device)', '(batch)') WHERE name = 'run_batch'",
        )
        .unwrap();
    drop(connection);
    let store = RecordStore::open(&StoreLocation::Sqlite(path)).unwrap();
    let said = format!("{:?}", store.check(false, &|_| true).findings);
    assert!(said.contains("run_batch") && said.contains("belong to no run"), "{said}");
    let repaired = store.check(true, &|_| true);
    assert!(!repaired.has_problems(), "{:?}", repaired.findings);
    assert_eq!(store.check(false, &|_| true).findings, []);
}
