//! The store: one interface over both engines. Each file here implements one part.

mod artefacts;
mod check;
mod memo;
mod predictors;
mod records;
mod run_search;
mod runs;
mod series;
mod session_queue;
mod spooled;
mod trials;

pub use check::{StoreCheckReport, StoreFinding};
pub use session_queue::{CancelOutcome, ClaimedSession, NewSession, SessionEnd, SessionFilter};
pub(crate) use spooled::ArtefactReader;
pub use trials::StoredTrial;

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use metier_types::{LockUnpoisoned, RunId, UtcTimestamp};

use crate::engine::postgres::PostgresEngine;
use crate::engine::sqlite::SqliteEngine;
use crate::engine::{SqlTransaction, TransactionMode};
use crate::{Error, StoreHealth, StoreLocation};

/// The store of runs, series, artefacts, devices and workloads. Clones are cheap and share one
/// connection.
///
/// Concurrent calls wait for each other, because there is one connection.
#[derive(Clone)]
pub struct RecordStore {
    shared: Arc<StoreState>,
}

struct StoreState {
    location: StoreLocation,
    /// The location as errors show it, without the password.
    name: String,
    engine: StoreEngine,
    /// The last number given to a chunk.
    sequence: AtomicI64,
}

enum StoreEngine {
    Sqlite(Box<Mutex<SqliteEngine>>),
    Postgres(Box<Mutex<PostgresEngine>>),
}

impl RecordStore {
    /// Opens the store for reading and writing. Creates the folder (for its owner only) and the
    /// file if they do not exist, and migrates an older schema. Waits at most 5 seconds for a
    /// server.
    pub fn open(at: &StoreLocation) -> Result<RecordStore, Error> {
        let name = at.to_string();
        let engine = match at {
            StoreLocation::Sqlite(path) => {
                StoreEngine::Sqlite(Box::new(Mutex::new(SqliteEngine::open(path, &name)?)))
            }
            StoreLocation::Postgres(url) => {
                StoreEngine::Postgres(Box::new(Mutex::new(PostgresEngine::open(url, &name)?)))
            }
        };
        Ok(Self::from_engine(at, name, engine))
    }

    /// Opens the store for reading only. Creates and changes nothing; works on a read-only file
    /// system.
    pub fn open_read_only(at: &StoreLocation) -> Result<RecordStore, Error> {
        let name = at.to_string();
        let engine = match at {
            StoreLocation::Sqlite(path) => {
                StoreEngine::Sqlite(Box::new(Mutex::new(SqliteEngine::open_read_only(path, &name)?)))
            }
            StoreLocation::Postgres(url) => {
                StoreEngine::Postgres(Box::new(Mutex::new(PostgresEngine::open_read_only(url, &name)?)))
            }
        };
        Ok(Self::from_engine(at, name, engine))
    }

    fn from_engine(at: &StoreLocation, name: String, engine: StoreEngine) -> RecordStore {
        let shared = StoreState { location: at.clone(), name, engine, sequence: AtomicI64::new(0) };
        RecordStore { shared: Arc::new(shared) }
    }

    pub fn location(&self) -> &StoreLocation {
        &self.shared.location
    }

    /// Checks whether the store is usable: engine, version, size and a quick integrity check.
    pub fn check_health(&self) -> Result<StoreHealth, Error> {
        match &self.shared.engine {
            StoreEngine::Sqlite(engine) => lock_engine(engine).check_health(),
            StoreEngine::Postgres(engine) => lock_engine(engine).check_health(),
        }
    }

    fn write_transaction<T>(
        &self,
        doing: &'static str,
        each: impl FnMut(&mut dyn SqlTransaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.transaction(doing, TransactionMode::Write, each)
    }

    fn read_transaction<T>(
        &self,
        doing: &'static str,
        each: impl FnMut(&mut dyn SqlTransaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.transaction(doing, TransactionMode::Read, each)
    }

    fn transaction<T>(
        &self,
        doing: &'static str,
        access: TransactionMode,
        mut each: impl FnMut(&mut dyn SqlTransaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &self.shared.engine {
            StoreEngine::Sqlite(engine) => {
                lock_engine(engine).transaction(doing, access, &mut |session| each(session))
            }
            StoreEngine::Postgres(engine) => {
                lock_engine(engine).transaction(doing, access, &mut |session| each(session))
            }
        }
    }

    /// Returns space that a long run used only while it was active.
    fn reclaim_space(&self) {
        if let StoreEngine::Sqlite(engine) = &self.shared.engine {
            lock_engine(engine).reclaim_free_pages();
        }
    }

    /// A number larger than all before it, also of earlier processes: the time, incremented if
    /// needed. Each call draws it once, so that a repeated transaction writes the same row again.
    fn next_chunk_number(&self) -> i64 {
        let now = UtcTimestamp::now().as_microsecond();
        let next = |last: i64| Some(now.max(last.saturating_add(1)));
        match self.shared.sequence.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(last) | Err(last) => now.max(last.saturating_add(1)),
        }
    }

    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn run_not_found(&self, run: RunId) -> Error {
        Error::NoRun { store: self.name(), text: run.to_string() }
    }

    fn record_error(&self, record: &'static str, key: impl ToString, why: impl ToString) -> Error {
        Error::Record { store: self.name(), record, key: key.to_string(), why: why.to_string() }
    }
}

impl fmt::Debug for RecordStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.shared.name)
    }
}

/// A panic in another thread leaves no partial transaction: the next transaction rolls it back
/// first.
fn lock_engine<T>(engine: &Mutex<T>) -> MutexGuard<'_, T> {
    engine.lock_unpoisoned()
}

/// An id as stored in the database: 32 hexadecimal digits.
fn hex_id(id: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*id).simple().to_string()
}

/// A text for an indexed column: without NUL, which PostgreSQL rejects, and at most 600 characters.
fn to_index_text(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(600).collect()
}

/// A time as stored in the database: microseconds.
fn to_microseconds(at: UtcTimestamp) -> i64 {
    at.as_microsecond()
}
