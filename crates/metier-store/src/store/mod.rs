//! The store: one interface over both engines. Each file here implements one part.

mod artefacts;
mod find;
mod memo;
mod predictors;
mod records;
mod runs;
mod series;
mod sessions;
mod trials;

pub use sessions::{Cancelled, HeldSession, NewSession, SessionEnd, SessionFilter};
pub use trials::Trial;

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use metier_types::{LockUnpoisoned, RunId, Timestamp};

use crate::engine::postgres::Postgres;
use crate::engine::sqlite::Sqlite;
use crate::engine::{Access, Session};
use crate::{Error, Health, Location};

/// The store of runs, series, artefacts, devices and workloads. Clones are cheap and share one
/// connection.
///
/// Concurrent calls wait for each other, because there is one connection.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    location: Location,
    /// The location as errors show it, without the password.
    name: String,
    engine: Engine,
    /// The last number given to a chunk.
    sequence: AtomicI64,
}

enum Engine {
    Sqlite(Box<Mutex<Sqlite>>),
    Postgres(Box<Mutex<Postgres>>),
}

impl Store {
    /// Opens the store for reading and writing. Creates the folder (for its owner only) and the
    /// file if they do not exist, and migrates an older schema. Waits at most 5 seconds for a
    /// server.
    pub fn open(at: &Location) -> Result<Store, Error> {
        let name = at.to_string();
        let engine = match at {
            Location::Sqlite(path) => Engine::Sqlite(Box::new(Mutex::new(Sqlite::open(path, &name)?))),
            Location::Postgres(url) => Engine::Postgres(Box::new(Mutex::new(Postgres::open(url, &name)?))),
        };
        Ok(Self::with(at, name, engine))
    }

    /// Opens the store for reading only. Creates and changes nothing; works on a read-only file
    /// system.
    pub fn open_read_only(at: &Location) -> Result<Store, Error> {
        let name = at.to_string();
        let engine = match at {
            Location::Sqlite(path) => {
                Engine::Sqlite(Box::new(Mutex::new(Sqlite::open_read_only(path, &name)?)))
            }
            Location::Postgres(url) => {
                Engine::Postgres(Box::new(Mutex::new(Postgres::open_read_only(url, &name)?)))
            }
        };
        Ok(Self::with(at, name, engine))
    }

    fn with(at: &Location, name: String, engine: Engine) -> Store {
        let shared = Shared { location: at.clone(), name, engine, sequence: AtomicI64::new(0) };
        Store { shared: Arc::new(shared) }
    }

    pub fn location(&self) -> &Location {
        &self.shared.location
    }

    /// Checks whether the store is usable: engine, version, size and a quick integrity check.
    pub fn check(&self) -> Result<Health, Error> {
        match &self.shared.engine {
            Engine::Sqlite(engine) => lock(engine).check(),
            Engine::Postgres(engine) => lock(engine).check(),
        }
    }

    fn write<T>(
        &self,
        doing: &'static str,
        each: impl FnMut(&mut dyn Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.transaction(doing, Access::Write, each)
    }

    fn read<T>(
        &self,
        doing: &'static str,
        each: impl FnMut(&mut dyn Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.transaction(doing, Access::Read, each)
    }

    fn transaction<T>(
        &self,
        doing: &'static str,
        access: Access,
        mut each: impl FnMut(&mut dyn Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &self.shared.engine {
            Engine::Sqlite(engine) => lock(engine).transaction(doing, access, &mut |session| each(session)),
            Engine::Postgres(engine) => lock(engine).transaction(doing, access, &mut |session| each(session)),
        }
    }

    /// Returns space that a long run used only while it was active.
    fn tidy(&self) {
        if let Engine::Sqlite(engine) = &self.shared.engine {
            lock(engine).tidy();
        }
    }

    /// A number larger than all before it, also of earlier processes: the time, incremented if
    /// needed. Each call draws it once, so that a repeated transaction writes the same row again.
    fn next_number(&self) -> i64 {
        let now = Timestamp::now().as_microsecond();
        let next = |last: i64| Some(now.max(last.saturating_add(1)));
        match self.shared.sequence.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(last) | Err(last) => now.max(last.saturating_add(1)),
        }
    }

    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn no_run(&self, run: RunId) -> Error {
        Error::NoRun { store: self.name(), text: run.to_string() }
    }

    fn bad_record(&self, record: &'static str, key: impl ToString, why: impl ToString) -> Error {
        Error::Record { store: self.name(), record, key: key.to_string(), why: why.to_string() }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.shared.name)
    }
}

/// A panic in another thread leaves no partial transaction: the next transaction rolls it back
/// first.
fn lock<T>(engine: &Mutex<T>) -> MutexGuard<'_, T> {
    engine.lock_unpoisoned()
}

/// An id as stored in the database: 32 hexadecimal digits.
fn key(id: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*id).simple().to_string()
}

/// A text for an indexed column: without NUL, which PostgreSQL rejects, and at most 600 characters.
fn indexed(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(600).collect()
}

/// A time as stored in the database: microseconds.
fn moment(at: Timestamp) -> i64 {
    at.as_microsecond()
}
