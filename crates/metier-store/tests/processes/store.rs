//! A helper process for the tests of this crate: `write FILE RUNS`, `open FILE`, `check URL`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a part of the tests")]

#[path = "../it/common/records.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod records;

use std::io::Write;
use std::path::Path;

use metier_store::{Error, RecordStore, StoreLocation};
use records::{CHUNK_ROWS, RUN_CHUNKS, chunk, over, owner, run_at};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["write", file, runs] => write(Path::new(file), runs.parse().unwrap()),
        ["open", file] => open(Path::new(file)),
        ["check", url] => check(url),
        _ => panic!("{words:?}"),
    }
}

/// Writes runs and prints each acknowledgement of the store.
fn write(file: &Path, runs: i64) {
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
    };
    for second in 0..runs {
        // Reopened each time, as `metier run` does; the kill may hit that too.
        let store = RecordStore::open(&StoreLocation::Sqlite(file.into())).unwrap();
        let run = run_at(second, "killed");
        store.begin_run(&run, &owner(std::process::id())).unwrap();
        say(format!("begun {}", run.id));
        for part in 0..RUN_CHUNKS {
            store.append_series(run.id, &[chunk(run.id, "use", part * CHUNK_ROWS, CHUNK_ROWS)]).unwrap();
            say(format!("appended {} {}", run.id, part + 1));
        }
        store.finish_run(&over(&run)).unwrap();
        say(format!("finished {}", run.id));
    }
}

/// Opens a store for writing and read-only, and prints the kinds of the errors.
fn open(file: &Path) {
    let verdict = |opened: Result<RecordStore, Error>| match opened {
        Ok(_) => "opened".to_string(),
        Err(error) => format!("{error:?}").chars().take_while(|c| c.is_alphanumeric()).collect(),
    };
    let location = StoreLocation::Sqlite(file.into());
    eprintln!(
        "verdict {} {}",
        verdict(RecordStore::open(&location)),
        verdict(RecordStore::open_read_only(&location))
    );
}

/// Opens a store with the root certificates of the environment; prints the engine or the error.
fn check(url: &str) {
    match RecordStore::open(&url.parse().unwrap()).and_then(|store| store.check_health()) {
        Ok(health) => eprintln!("verdict opened {}", health.engine),
        Err(error) => eprintln!("verdict {}", error.to_string().replace('\n', " ")),
    }
}
