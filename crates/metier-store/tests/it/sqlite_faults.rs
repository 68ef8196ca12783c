//! Behaviour of an SQLite store when the file, its folder or the disk fails: a clear error and no
//! damage.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;
use metier_store::{Error, RecordStore, RunFilter, StoreLocation};
use metier_types::random::SplitMix64;

fn at(path: &Path) -> StoreLocation {
    StoreLocation::Sqlite(path.to_path_buf())
}

fn refusal(location: &StoreLocation) -> Error {
    match RecordStore::open(location) {
        Ok(_) => panic!("{location} was opened"),
        Err(error) => error,
    }
}

/// A closed store with one finished run; its log is checkpointed into the file.
fn filled(path: &Path) -> metier_types::Run {
    let store = RecordStore::open(&at(path)).unwrap();
    let run = run_at(0, "train");
    store.begin_run(&run, &owner(1)).unwrap();
    store.append_series(run.id, &[chunk(run.id, "use", 0, 5000)]).unwrap();
    store.finish_run(&over(&run)).unwrap();
    drop(store);
    checkpoint(path);
    over(&run)
}

fn checkpoint(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[test]
fn file_and_folder_are_for_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/metier.db");
    filled(&path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metier.db");
    filled(&path);
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    checkpoint(&path);
    let before = fs::read(&path).unwrap();
    for error in [refusal(&at(&path)), RecordStore::open_read_only(&at(&path)).map(|_| ()).unwrap_err()] {
        assert!(matches!(error, Error::Newer { found: 99, known: 4, .. }), "{error}");
        assert!(error.to_string().contains("newer metier"), "{error}");
    }
    assert!(fs::read(&path).unwrap() == before);
    // Also while the new version is only in the log.
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 3").unwrap();
    checkpoint(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA user_version = 98").unwrap();
    assert!(matches!(refusal(&at(&path)), Error::Newer { found: 98, .. }));
}

#[test]
fn every_earlier_schema_is_brought_up_to_date() {
    // Each version's SQL as it shipped. A new version adds its file here; it is never edited again.
    let shipped = [
        include_str!("../golden/schema-1.sqlite.sql"),
        include_str!("../golden/schema-2.sqlite.sql"),
        include_str!("../golden/schema-3.sqlite.sql"),
        include_str!("../golden/schema-4.sqlite.sql"),
    ];
    for version in 1..=shipped.len() {
        let sql = shipped[..version].concat();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metier.db");
        let run = over(&run_at(0, "train"));
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(&sql).unwrap();
        connection
            .execute_batch(&format!(
                "PRAGMA application_id = {}; PRAGMA user_version = {version}",
                0x6d74_6972
            ))
            .unwrap();
        let id = run.id.to_string().replace('-', "");
        connection
            .execute(
                "INSERT INTO run (id, batch, workload, workload_name, device, device_name, state, started, warmup, \
                 search, record) VALUES (?1, 'b', 'train', 'train', 'd', 'd', 'finished', 1, 0, 'train', ?2)",
                (&id, serde_json::to_string(&run).unwrap()),
            )
            .unwrap();
        drop(connection);
        let store = RecordStore::open(&at(&path)).unwrap();
        assert_eq!(store.check_health().unwrap().schema_version, 4);
        assert_eq!(store.run(run.id).unwrap().unwrap(), run);
        assert_eq!(store.find_run("train").unwrap(), run.id);
        store.put_device(&device("1", "a")).unwrap();
    }
    let now = [
        include_str!("../../src/migrations/1.sqlite.sql"),
        include_str!("../../src/migrations/2.sqlite.sql"),
        include_str!("../../src/migrations/3.sqlite.sql"),
        include_str!("../../src/migrations/4.sqlite.sql"),
    ];
    assert_eq!(shipped, now, "these versions have shipped: add another");
}

#[test]
fn what_is_not_a_store_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "dear diary, ".repeat(1000)).unwrap();
    let short = folder.path().join("short");
    fs::write(&short, "x").unwrap();
    let foreign = folder.path().join("foreign.db");
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE run (x); INSERT INTO run VALUES (1)")
        .unwrap();
    drop(connection);
    for path in [text, short, foreign] {
        let before = fs::read(&path).unwrap();
        for error in [refusal(&at(&path)), RecordStore::open_read_only(&at(&path)).map(|_| ()).unwrap_err()] {
            assert!(matches!(error, Error::Foreign { .. }), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        assert!(fs::read(&path).unwrap() == before);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no file was made beside them");
}

#[test]
fn a_foreign_database_with_an_unfinished_change_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA cache_size = 1; CREATE TABLE x (y); BEGIN").unwrap();
    for _ in 0..200 {
        connection.execute("INSERT INTO x VALUES (zeroblob(4000))", []).unwrap();
    }
    // As a killed program leaves it: pages written, with the journal.
    let (copy, journal) = (folder.path().join("copy.db"), folder.path().join("copy.db-journal"));
    fs::copy(&path, &copy).unwrap();
    fs::copy(folder.path().join("foreign.db-journal"), &journal).unwrap();
    let error = refusal(&at(&copy));
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let connection = rusqlite::Connection::open(&copy).unwrap();
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_directory_or_a_file_in_the_way_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = refusal(&at(folder.path()));
    assert!(error.to_string().contains("is a directory"), "{error}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = refusal(&at(&file.join("metier.db")));
    assert!(matches!(error, Error::CannotOpen { .. }), "{error}");
    let error = RecordStore::open_read_only(&at(&folder.path().join("none.db"))).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Absent { .. }), "{error}");
    assert!(!folder.path().join("none.db").exists());
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metier.db");
    fs::write(&path, "").unwrap();
    assert!(matches!(RecordStore::open_read_only(&at(&path)).map(|_| ()), Err(Error::Absent { .. })));
    filled(&path);
    // Names that SQLite would interpret in another way.
    let odd = folder.path().join("file:x?mode=memory&a=%20#b");
    let run = filled(&odd);
    assert_eq!(RecordStore::open_read_only(&at(&odd)).unwrap().run(run.id).unwrap(), Some(run));
}

#[test]
fn damage_is_told_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metier.db");
    let run = filled(&path);
    let sound = fs::read(&path).unwrap();
    let mut random = SplitMix64::new(99);
    let mut next = move || random.next_below(1 << 31);
    let (mut refused, mut told) = (0, 0);
    for round in 0..150 {
        let mut bytes = sound.clone();
        // Keep the header, which identifies the store; damage anything else.
        for _ in 0..=round % 4 {
            let page = 100 + next() % (bytes.len() - 4196);
            for byte in &mut bytes[page..page + 1 + next() % 4000] {
                *byte = next() as u8;
            }
        }
        if round % 10 == 0 {
            bytes.truncate(4096 * (1 + next() % (bytes.len() / 4096)));
        }
        let path = folder.path().join(format!("{round}.db"));
        fs::write(&path, &bytes).unwrap();
        match RecordStore::open(&at(&path)) {
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. } | Error::Engine { .. }), "{error}");
                assert!(fs::read(&path).unwrap() == bytes, "opening changed a damaged file");
                refused += 1;
            }
            Ok(store) => {
                let mut errors: Vec<Error> = Vec::new();
                errors.extend(store.run(run.id).err());
                errors.extend(store.series(run.id, None).err());
                errors.extend(store.runs(&RunFilter::default()).err());
                errors.extend(store.find_run("last").err());
                errors.extend(store.mark_interrupted_runs("device-1", &|_| false).err());
                let problems = store.check_health().map_or(1, |health| health.problems.len());
                told += usize::from(!errors.is_empty() || problems > 0);
                // Data is read correctly or not at all.
                if let Ok(series) = store.series(run.id, None) {
                    assert!(series.is_empty() || series == [chunk(run.id, "use", 0, 5000)]);
                }
            }
        }
        fs::remove_file(&path).unwrap();
    }
    eprintln!("of 150 damaged files {refused} were refused on opening, {told} told when used");
    assert!(refused + told >= 50, "damage must be noticed: {refused} + {told}");
}

#[test]
fn a_damaged_chunk_does_not_cost_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metier.db");
    let store = RecordStore::open(&at(&path)).unwrap();
    let (run, other) = (run_at(0, "train"), run_at(1, "other"));
    for run in [&run, &other] {
        store.begin_run(run, &owner(1)).unwrap();
        for part in 0..3 {
            let both = [chunk(run.id, "use", part * 40_000, 40_000), chunk(run.id, "host", part, 1)];
            store.append_series(run.id, &both).unwrap();
        }
    }
    let broken = "UPDATE chunk SET content = zeroblob(50) WHERE series = 'use' \
                  AND seq IN (SELECT max(seq) FROM chunk WHERE series = 'use' GROUP BY run)";
    assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(broken, []).unwrap(), 2);
    store.finish_run(&over(&run)).unwrap();
    assert_eq!(store.run(run.id).unwrap().unwrap(), over(&run));
    assert_eq!(store.series(run.id, Some("host")).unwrap(), [chunk(run.id, "host", 0, 3)]);
    let error = store.series(run.id, Some("use")).unwrap_err();
    assert!(matches!(error, Error::Series { .. }), "{error}");
    assert_eq!(store.mark_interrupted_runs("device-1", &|_| false).unwrap(), [other.id]);
    // The intact chunks of the damaged series are all still there.
    let count = "SELECT count(*) FROM chunk WHERE series = 'use'";
    let kept: i64 =
        rusqlite::Connection::open(&path).unwrap().query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 6);
}

#[test]
fn opening_a_store_again_keeps_the_locks_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metier.db");
    let store = RecordStore::open(&at(&path)).unwrap();
    store.put_device(&device("1", "a")).unwrap();
    drop(RecordStore::open(&at(&path)).unwrap());
    drop(RecordStore::open_read_only(&at(&path)).unwrap());
    // A program that sees no other user checkpoints the log into the file and removes it at exit.
    // (The program is Python's SQLite where installed: a connection of this process would not be
    // another program.)
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(*c.execute('SELECT count(*) FROM device').fetchone()); c.close()";
    let Ok(out) = Command::new("python3").args(["-c", script]).arg(&path).output() else {
        eprintln!("SKIP: locks of a store that is opened twice, because python3 is not installed");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "1", "{out:?}");
    assert!(path.with_file_name("metier.db-wal").exists(), "the log was taken from under an open store");
    store.put_device(&device("2", "b")).unwrap();
    assert_eq!(RecordStore::open_read_only(&at(&path)).unwrap().devices().unwrap().len(), 2);
}

#[test]
fn a_store_that_hangs_costs_samples_and_no_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metier.db");
    let store = RecordStore::open(&at(&path)).unwrap();
    let run = run_at(0, "train");
    store.begin_run(&run, &owner(1)).unwrap();
    // Another program holds the file while more samples come than the queue takes. If the queue
    // blocked its caller, this test would wait for the store's own limit and find nothing dropped.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writer = metier_store::SeriesWriter::start(store.clone());
    for part in 0..1000 {
        writer.append(run.id, vec![chunk(run.id, "use", part * 10, 10)]);
    }
    other.execute_batch("ROLLBACK").unwrap();
    let written = writer.finish().unwrap();
    assert!(written.dropped >= 800 && written.problem.is_none(), "{written:?}");
    assert_eq!(written.chunks + written.dropped, 1000);
    let rows = store.series(run.id, None).unwrap()[0].times.len() as u64;
    assert_eq!(rows, written.chunks * 10);
}

/// A small separate file system, unmounted on drop. `None`, with a message, where mounting is not
/// allowed.
struct Disk {
    at: tempfile::TempDir,
}

impl Disk {
    fn new(options: &str) -> Option<Disk> {
        let at = tempfile::tempdir().unwrap();
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at.path()).output();
        if done.as_ref().is_ok_and(|done| done.status.success()) {
            return Some(Disk { at });
        }
        eprintln!(
            "SKIP: a test with a small disk, because a tmpfs cannot be mounted here (root is needed): {done:?}"
        );
        None
    }

    fn path(&self) -> PathBuf {
        self.at.path().join("metier.db")
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        // A child that another test has just forked holds these files open until it calls exec.
        let mounted = (0..100).any(|_| {
            let done = Command::new("mount").args(["-o", &options]).arg(self.at.path()).output().unwrap();
            if !done.status.success() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            done.status.success()
        });
        assert!(mounted, "{} cannot be remounted with {options}", self.at.path().display());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.at.path()).status();
    }
}

#[test]
fn a_full_disk_is_said_so_and_damages_nothing() {
    // From a disk without space for the empty store to one that fills up during a run.
    for size in ["4k", "16k", "64k", "128k", "1m", "2m"] {
        let Some(disk) = Disk::new(&format!("size={size}")) else { return };
        let full = |error: Error| assert!(matches!(error, Error::Full { .. }), "size {size}: {error:?}");
        let store = match RecordStore::open(&at(&disk.path())) {
            Ok(store) => store,
            Err(error) => {
                full(error);
                disk.remount("size=8m");
                filled(&disk.path());
                continue;
            }
        };
        let run = run_at(0, "train");
        let mut kept = Vec::new();
        match store.begin_run(&run, &owner(1)) {
            Err(error) => full(error),
            Ok(()) => {
                for part in 0..10_000 {
                    match store.append_series(run.id, &[chunk(run.id, "use", part * 100, 100)]) {
                        Ok(()) => kept.push(part),
                        Err(error) => {
                            full(error);
                            break;
                        }
                    }
                }
                assert!(kept.len() < 10_000);
                let series = store.series(run.id, None).unwrap();
                assert_eq!(
                    series.first().map_or(0, |series| series.times.len()),
                    kept.len() * 100,
                    "size {size}"
                );
                if let Err(error) = store.finish_run(&over(&run)) {
                    full(error);
                }
            }
        }
        // The same store continues when there is space again.
        disk.remount("size=16m");
        if !kept.is_empty() {
            store.append_series(run.id, &[chunk(run.id, "use", kept.len() as i64 * 100, 100)]).unwrap();
            store.finish_run(&over(&run)).unwrap();
            let want = chunk(run.id, "use", 0, kept.len() as i64 * 100 + 100);
            assert_eq!(store.series(run.id, None).unwrap(), [want], "size {size}");
        }
        assert_eq!(store.check_health().unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_read_only_disk_can_be_read_and_not_written() {
    let Some(disk) = Disk::new("size=8m") else { return };
    let run = filled(&disk.path());
    disk.remount("ro");
    let error = refusal(&at(&disk.path()));
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let error = refusal(&at(&disk.path().with_file_name("new.db")));
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let reader = RecordStore::open_read_only(&at(&disk.path())).unwrap();
    assert_eq!(reader.run(run.id).unwrap().unwrap(), run);
    assert_eq!(reader.series(run.id, None).unwrap().len(), 1);

    // Left by a program that ended without a checkpoint, as metier does.
    drop(reader);
    disk.remount("rw");
    let store = RecordStore::open(&at(&disk.path())).unwrap();
    let second = run_at(9, "second");
    store.begin_run(&second, &owner(1)).unwrap();
    drop(store);
    assert!(fs::metadata(disk.path().with_file_name("metier.db-wal")).unwrap().len() > 0);
    disk.remount("ro");
    let reader = RecordStore::open_read_only(&at(&disk.path())).unwrap();
    assert_eq!(reader.find_run("last").unwrap(), second.id);
    drop(reader);

    // The index of the log is gone: nothing can be read without writing, and the error says so.
    disk.remount("rw");
    fs::remove_file(disk.path().with_file_name("metier.db-shm")).unwrap();
    disk.remount("ro");
    let error = RecordStore::open_read_only(&at(&disk.path())).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, Error::CannotOpen { .. }) && error.to_string().contains("copy both files"),
        "{error}"
    );
}

#[test]
fn missing_rights_are_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    chmod(folder.path(), 0o755);
    let path = folder.path().join("metier.db");
    let run = filled(&path);
    // Copied to a folder where another user can run it: build folders are often private.
    let program = folder.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_store-process"), &program).unwrap();
    chmod(&program, 0o755);
    let as_other = |path: &Path| {
        let mut command = Command::new(&program);
        command.arg("open").arg(path).current_dir("/");
        // Root ignores file permissions.
        if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
            command.uid(65_534).gid(65_534);
        }
        let out = match command.output() {
            Ok(out) => String::from_utf8_lossy(&out.stderr).into_owned(),
            Err(error) => {
                eprintln!("SKIP: missing rights, because another user cannot run the test program: {error}");
                return None;
            }
        };
        let verdict = out.lines().find_map(|line| line.strip_prefix("verdict ")).map(str::to_string);
        Some(verdict.unwrap_or_else(|| panic!("{out}")))
    };
    chmod(&path, 0o000);
    let Some(verdict) = as_other(&path) else { return };
    assert_eq!(verdict, "CannotOpen CannotOpen");
    chmod(&path, 0o444);
    chmod(folder.path(), 0o555);
    assert_eq!(as_other(&path).unwrap(), "ReadOnly opened", "another's store can be read");
    assert_eq!(as_other(&folder.path().join("new.db")).unwrap(), "ReadOnly Absent");
    chmod(&path, 0o666);
    assert_eq!(as_other(&path).unwrap(), "ReadOnly opened", "a folder that takes no log");
    chmod(folder.path(), 0o755);
    assert_eq!(RecordStore::open(&at(&path)).unwrap().run(run.id).unwrap(), Some(run));
}
