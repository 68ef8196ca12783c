//! The store: one interface over both engines. Each file here is one part of it.

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

/// Runs, series, artefacts, devices and workloads. Cheap to clone; all clones are the same store.
///
/// Calls from several threads wait for each other: there is one connection.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    location: Location,
    /// The location as errors show it.
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
    /// Opens the store for reading and writing. Makes the folder (for its owner only) and the file where they do
    /// not exist, and brings an older schema up to date. Waits at most 5 seconds for a server.
    pub fn open(at: &Location) -> Result<Store, Error> {
        let name = at.to_string();
        let engine = match at {
            Location::Sqlite(path) => Engine::Sqlite(Box::new(Mutex::new(Sqlite::open(path, &name)?))),
            Location::Postgres(url) => Engine::Postgres(Box::new(Mutex::new(Postgres::open(url, &name)?))),
        };
        Ok(Self::with(at, name, engine))
    }

    /// Opens the store for reading only; makes and changes nothing, also works on a read-only file system.
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

    /// Whether the store can be used: engine, version, size and a quick check of its integrity.
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

    /// Gives space back that a long run needed only while it was under way.
    fn tidy(&self) {
        if let Engine::Sqlite(engine) = &self.shared.engine {
            lock(engine).tidy();
        }
    }

    /// A number that is larger than all before it, also of earlier processes: the time, pushed forward if needed.
    /// It is drawn once for each call, so that a repeated transaction writes the same row again.
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

/// A panic of another thread leaves no half-done transaction: the next one rolls it back first.
fn lock<T>(engine: &Mutex<T>) -> MutexGuard<'_, T> {
    engine.lock_unpoisoned()
}

/// An id as it stands in the database: 32 hexadecimal digits.
fn key(id: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*id).simple().to_string()
}

/// A text to search by: without NUL, which PostgreSQL does not have, and short enough for an index.
fn indexed(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(600).collect()
}

/// A moment as it stands in the database.
fn moment(at: Timestamp) -> i64 {
    at.as_microsecond()
}
