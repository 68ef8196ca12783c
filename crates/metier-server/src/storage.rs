//! The store handle of the server; it never uses a file that is no longer at its path.
//!
//! SQLite continues to read and write a file that was deleted or replaced, and such writes would be
//! lost. So each call first checks whether the path still leads to the opened file. Another file
//! there is opened instead; a missing file is an error until one exists.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::RwLock;

use axum::http::StatusCode;
use metier_store::{RecordStore, StoreLocation};
use metier_types::{Bytes, ShareUnpoisoned};

use crate::http::problem::{FieldError, ProblemDetails};

/// The store; reopened if its file was replaced.
pub struct StoreHandle {
    opened: RwLock<OpenedStore>,
}

struct OpenedStore {
    store: RecordStore,
    file: Option<FileIdentity>,
}

/// Device and inode: the same path may lead to another file later.
type FileIdentity = (u64, u64);

fn file_identity(path: &Path) -> std::io::Result<FileIdentity> {
    std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

impl OpenedStore {
    fn new(store: RecordStore) -> Self {
        let file = match store.location() {
            StoreLocation::Sqlite(path) => file_identity(path).ok(),
            StoreLocation::Postgres(_) => None,
        };
        Self { store, file }
    }
}

impl StoreHandle {
    /// For an open store.
    pub fn new(store: RecordStore) -> Self {
        Self { opened: RwLock::new(OpenedStore::new(store)) }
    }

    /// The store, if its file is still there. Blocks.
    pub fn store(&self) -> Result<RecordStore, ProblemDetails> {
        let (store, known) = {
            let opened = self.opened.read_unpoisoned();
            (opened.store.clone(), opened.file)
        };
        let StoreLocation::Sqlite(path) = store.location() else { return Ok(store) };
        match file_identity(path) {
            Ok(found) if Some(found) == known => Ok(store),
            Ok(_) => self.reopen(store.location()),
            Err(error) => {
                let path = path.display();
                Err(ProblemDetails::unavailable(format!(
                    "the store {path} is gone ({error}); put the file back, or start again to begin a new one"
                )))
            }
        }
    }

    fn reopen(&self, location: &StoreLocation) -> Result<RecordStore, ProblemDetails> {
        let mut opened = self.opened.write_unpoisoned();
        let store = RecordStore::open(location)
            .or_else(|_| RecordStore::open_read_only(location))
            .map_err(store_problem)?;
        tracing::warn!(store = %location, "the store's file was replaced; the new one is used from now on");
        *opened = OpenedStore::new(store.clone());
        Ok(store)
    }

    /// Size of the store.
    pub fn size(&self, store: &RecordStore) -> Option<Bytes> {
        match store.location() {
            // A check of the whole file would cost far too much at each scrape.
            StoreLocation::Sqlite(path) => {
                let beside = |end: &str| {
                    let mut name = path.as_os_str().to_owned();
                    name.push(end);
                    std::fs::metadata(name).map_or(0, |meta| meta.len())
                };
                std::fs::metadata(path).ok().map(|meta| Bytes(meta.len() + beside("-wal")))
            }
            StoreLocation::Postgres(_) => store.check_health().ok().map(|health| health.size_bytes),
        }
    }
}

/// Converts a store error into a problem: the client's fault, not found, unreadable data, or a
/// store that does not respond.
pub fn store_problem(error: metier_store::Error) -> ProblemDetails {
    use metier_store::Error;
    match &error {
        Error::NoRun { .. } | Error::NoArtefact { .. } | Error::NoSession { .. } => {
            ProblemDetails::new(StatusCode::NOT_FOUND, error.to_string())
        }
        Error::Refused { what, got, want } => {
            ProblemDetails::fields(StatusCode::BAD_REQUEST, vec![FieldError::new(*what, got, want)])
        }
        Error::Ambiguous { .. } => ProblemDetails::new(StatusCode::BAD_REQUEST, error.to_string()),
        Error::DamagedArtefact { .. } | Error::Series { .. } | Error::Record { .. } => {
            ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        }
        _ => ProblemDetails::unavailable(error.to_string()),
    }
}
