//! The file of an SQLite store before SQLite opens it: its creation, and the check of its header.
//!
//! POSIX file locks belong to the process. Closing *any* descriptor of a file drops all locks of
//! the process on it, including SQLite's. Another program may then modify the file during a
//! transaction (<https://www.sqlite.org/howtocorrupt.html>, 2.2). So the header is read only while
//! this process has no connection to the file; [`ConnectionClaim`] counts connections. An open
//! connection implies that the header was checked before.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use metier_types::LockUnpoisoned;

use super::SCHEMA_VERSION;
use super::sqlite::APPLICATION_ID;
use crate::Error;

/// Device and inode of a file.
type FileId = (u64, u64);

/// Number of connections of this process to each file. Global, because POSIX locks are per process.
static OPEN_FILES: Mutex<Option<HashMap<FileId, usize>>> = Mutex::new(None);

/// Guard for opening files: no other thread of this process opens one while it is held.
pub(super) struct OpenFilesGuard(MutexGuard<'static, Option<HashMap<FileId, usize>>>);

/// Counts one connection to a file; must be dropped after the connection.
pub(super) struct ConnectionClaim(FileId);

impl OpenFilesGuard {
    pub fn lock() -> Self {
        Self(OPEN_FILES.lock_unpoisoned())
    }

    /// Whether this process has a connection to the file already.
    pub fn is_open(&self, path: &Path) -> bool {
        let counts = self.0.as_ref();
        file_id(path).is_some_and(|id| counts.is_some_and(|counts| counts.contains_key(&id)))
    }

    /// Counts a connection before it is made.
    pub fn claim(&mut self, path: &Path) -> Option<ConnectionClaim> {
        let id = file_id(path)?;
        *self.0.get_or_insert_default().entry(id).or_default() += 1;
        Some(ConnectionClaim(id))
    }

    /// Releases a claim while the guard is held; dropping it here would deadlock.
    pub fn release_claim(&mut self, claim: ConnectionClaim) {
        release_file(&mut self.0, claim.0);
        std::mem::forget(claim);
    }
}

impl Drop for ConnectionClaim {
    fn drop(&mut self) {
        release_file(&mut OPEN_FILES.lock_unpoisoned(), self.0);
    }
}

fn release_file(counts: &mut Option<HashMap<FileId, usize>>, id: FileId) {
    let Some(counts) = counts else { return };
    if let Some(count) = counts.get_mut(&id) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&id);
        }
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

/// The header of the file (<https://www.sqlite.org/fileformat.html>, 1.3).
pub(super) struct SqliteHeader {
    bytes: Vec<u8>,
    is_recovering: bool,
}

impl SqliteHeader {
    pub fn read(path: &Path, store: &str) -> Result<Self, Error> {
        let cannot = |why: String| Error::CannotOpen { store: store.to_string(), why };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Absent { store: store.to_string() },
            ErrorKind::PermissionDenied => cannot("you have no right to read it".to_string()),
            _ => cannot(error.to_string()),
        })?;
        if file.metadata().is_ok_and(|about| !about.is_file()) {
            return Err(cannot("it is not a file; want the path of a file such as metier.db".to_string()));
        }
        file.take(105).read_to_end(&mut bytes).map_err(|error| cannot(error.to_string()))?;
        // With a journal, the first page may be half written; SQLite will roll it back.
        Ok(Self { bytes, is_recovering: is_non_empty(&sibling_path(path, "-journal")) })
    }

    /// Whether the file is empty or a database without tables, as an interrupted creation leaves
    /// it.
    pub fn is_new(&self) -> bool {
        let has_no_table = self.bytes.get(103..105) == Some(&[0, 0]) && self.bytes.get(100) == Some(&13);
        self.bytes.is_empty()
            || self.is_sqlite() && self.i32_at(68) == 0 && self.i32_at(60) == 0 && has_no_table
    }

    fn is_sqlite(&self) -> bool {
        self.bytes.starts_with(b"SQLite format 3\0") && self.bytes.len() >= 105
    }

    pub fn uses_write_ahead_log(&self) -> bool {
        self.bytes.get(18..20) == Some(&[2, 2])
    }

    fn i32_at(&self, at: usize) -> i32 {
        self.bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_be_bytes)
    }

    pub fn check_compatible(&self, store: &str) -> Result<(), Error> {
        if self.is_new() || self.is_recovering {
            return Ok(());
        }
        let foreign = |why: &str| Err(Error::Foreign { store: store.to_string(), why: why.to_string() });
        if !self.is_sqlite() {
            return foreign("it is not an SQLite file, or its beginning is damaged");
        }
        if self.i32_at(68) != APPLICATION_ID {
            return foreign("it is an SQLite database of another program");
        }
        let found = i64::from(self.i32_at(60));
        if found > SCHEMA_VERSION {
            return Err(Error::Newer { store: store.to_string(), found, known: SCHEMA_VERSION });
        }
        Ok(())
    }
}

/// Makes a path absolute. A relative path would follow changes of the working directory, and SQLite
/// does not treat `:memory:` as a file.
pub(super) fn absolute_path(path: &Path, store: &str) -> Result<PathBuf, Error> {
    let cannot = |why: String| Error::CannotOpen { store: store.to_string(), why };
    if path.is_dir() {
        return Err(cannot("it is a directory; want the path of a file such as metier.db in it".to_string()));
    }
    std::path::absolute(path).map_err(|error| cannot(error.to_string()))
}

/// Creates the file and its folder if they do not exist, accessible to the owner only.
pub(super) fn create_file(path: &Path, store: &str) -> Result<(), Error> {
    let failed = |error: std::io::Error, at: &Path| {
        let store = store.to_string();
        let why = format!("{}: {error}", at.display());
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { store, why },
            ErrorKind::StorageFull => Error::Full { store },
            _ => Error::CannotOpen { store, why },
        }
    };
    if path.exists() {
        return Ok(());
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed(error, folder))?;
    }
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map(|_| ())
        .map_err(|error| failed(error, path))
}

/// Path of a companion file: the database path with a suffix.
pub(super) fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

pub(super) fn is_non_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
}
