//! Any bytes as an archive of runs. It is refused, or it is imported, and importing it again
//! changes nothing.

use std::cell::RefCell;

use metier_store::{RecordStore, StoreLocation, archive};

use super::{FuzzTarget, repository_files};

pub const TARGET: FuzzTarget = FuzzTarget { name: "archive", seeds, run };

/// Imports into one store; a new one is made afterwards.
const IMPORTS_PER_STORE: u32 = 200;

struct ImportStore {
    _folder: tempfile::TempDir,
    store: RecordStore,
    imports: u32,
}

thread_local! {
    static STORE: RefCell<Option<ImportStore>> = const { RefCell::new(None) };
}

fn seeds() -> Vec<Vec<u8>> {
    repository_files("crates/metier/tests/fixtures", "archive.jsonl")
}

fn new_store() -> ImportStore {
    let folder = tempfile::tempdir().unwrap();
    let store = RecordStore::open(&StoreLocation::Sqlite(folder.path().join("metier.db"))).unwrap();
    ImportStore { _folder: folder, store, imports: 0 }
}

fn run(bytes: &[u8]) {
    STORE.with_borrow_mut(|slot| {
        let used = slot.take().filter(|used| used.imports < IMPORTS_PER_STORE);
        let used = slot.insert(used.unwrap_or_else(new_store));
        let Ok(contents) = archive::check(bytes, &used.store) else { return };
        used.imports += 1;
        if archive::import(bytes, &used.store, &contents, || ()).is_ok() {
            let again = archive::check(bytes, &used.store).expect("what was imported can be checked");
            archive::import(bytes, &used.store, &again, || ()).expect("importing again changes nothing");
        }
    });
}
