//! The SQLite engine: one file, write-ahead log, one connection behind the store's lock.
//!
//! - `synchronous=NORMAL` with the write-ahead log: a killed process loses no committed data. A
//!   power cut may lose the last transactions but never damages the file.
//! - Closing does not checkpoint the log: that would cost two disk flushes per `metier run`. SQLite
//!   checkpoints by itself when the log has 1000 pages.
//! - Concurrent programs wait up to [`BUSY_TIMEOUT`] for each other. Write transactions take their
//!   lock at the start, so they never fail halfway.
//! - SQLite opens a file only after its header identified it as a metier store or as new. A foreign
//!   database is not touched, not even its journal.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_types::Bytes;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::sqlite_file::{
    ConnectionClaim, OpenFilesGuard, SqliteHeader, absolute_path, create_file, is_non_empty, sibling_path,
};
use super::{SCHEMA_VERSION, SqlCell, SqlRow, SqlTransaction, SqlValue, TransactionMode};
use crate::{Error, StoreHealth};

/// Application id `mtir` in the file's header marks a metier store (`file` and SQLite itself show
/// it).
pub(super) const APPLICATION_ID: i32 = 0x6d74_6972;

/// Maximum wait for another program's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Free pages (of 4096 bytes) that may remain after a run; more are returned to the file system.
const MAX_FREE_PAGES: i64 = 512;

/// How long the result of an integrity check is cached.
const INTEGRITY_CHECK_TTL: Duration = Duration::from_secs(600);

const MIGRATIONS: [&str; SCHEMA_VERSION as usize] = [
    include_str!("../migrations/1.sqlite.sql"),
    include_str!("../migrations/2.sqlite.sql"),
    include_str!("../migrations/3.sqlite.sql"),
    include_str!("../migrations/4.sqlite.sql"),
];

pub(crate) struct SqliteEngine {
    connection: Connection,
    path: PathBuf,
    store: String,
    doing: &'static str,
    read_only: bool,
    /// Time and result of the last integrity check.
    walked: Option<(Instant, Vec<String>)>,
    /// Must be the last field: fields drop in order, and the claim must outlive the connection.
    #[allow(dead_code, reason = "kept for its drop")]
    claim: Option<ConnectionClaim>,
}

impl SqliteEngine {
    /// Opens the file for reading and writing; creates it if it does not exist.
    pub fn open(path: &Path, store: &str) -> Result<Self, Error> {
        let path = absolute_path(path, store)?;
        let mut opening = OpenFilesGuard::lock();
        create_file(&path, store)?;
        let head = if opening.is_open(&path) { None } else { Some(SqliteHeader::read(&path, store)?) };
        head.as_ref().map_or(Ok(()), |head| head.check_compatible(store))?;
        Self::connect_with_claim(&mut opening, &path, || Self::open_for_writing(&path, store, head.as_ref()))
    }

    fn open_for_writing(path: &Path, store: &str, head: Option<&SqliteHeader>) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut this = Self::connect(path, flags, store, false)?;
        let connection = &this.connection;
        if connection.is_readonly("main").unwrap_or(false) {
            let why = "the file is not writable for you".to_string();
            return Err(Error::ReadOnly { store: store.to_string(), why });
        }
        let set = |sql: &str| connection.execute_batch(sql).map_err(|error| this.to_store_error(error));
        if head.is_some_and(SqliteHeader::is_new) {
            // Takes effect only before the first table is created.
            set("PRAGMA auto_vacuum = INCREMENTAL")?;
        }
        set("PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304")?;
        this.migrate()?;
        if head.is_some_and(|head| !head.uses_write_ahead_log()) {
            this.enable_write_ahead_log()?;
        }
        this.doing = "reading";
        Ok(this)
    }

    /// Opens the file for reading only.
    pub fn open_read_only(path: &Path, store: &str) -> Result<Self, Error> {
        let path = absolute_path(path, store)?;
        let mut opening = OpenFilesGuard::lock();
        if !opening.is_open(&path) {
            let head = SqliteHeader::read(&path, store)?;
            if head.is_new() {
                return Err(Error::Absent { store: store.to_string() });
            }
            head.check_compatible(store)?;
        }
        Self::connect_with_claim(&mut opening, &path, || Self::open_for_reading(&path, store))
    }

    fn open_for_reading(path: &Path, store: &str) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let usual = Self::connect(path, flags, store, true).and_then(|mut this| {
            let version = this.schema_version()?;
            Ok((this, version))
        });
        let log = sibling_path(path, "-wal");
        let (this, version) = match usual {
            Err(Error::CannotOpen { .. } | Error::ReadOnly { .. }) if !is_non_empty(&log) => {
                // The folder is read-only and has no log index. Without log content there is no
                // active writer, so the file can be read as immutable.
                let mut this = Self::connect_immutable(path, store)?;
                let version = this.schema_version()?;
                (this, version)
            }
            Err(Error::CannotOpen { store, .. } | Error::ReadOnly { store, .. }) => {
                let why = format!(
                    "its write-ahead log {} has content that cannot be read in a read-only folder; \
                     copy both files to a writable folder and open the copy",
                    log.display()
                );
                return Err(Error::CannotOpen { store, why });
            }
            other => other?,
        };
        this.refuse_newer(version)?;
        if version < SCHEMA_VERSION {
            let why = format!(
                "its schema version {version} must be brought up to date first; \
                 open it once for writing, for example with `metier run -- true`"
            );
            return Err(Error::CannotOpen { store: store.to_string(), why });
        }
        Ok(this)
    }

    /// Connects with a claim that exists from before the connection until after its end.
    fn connect_with_claim(
        opening: &mut OpenFilesGuard,
        path: &Path,
        connect: impl FnOnce() -> Result<Self, Error>,
    ) -> Result<Self, Error> {
        let claim = opening.claim(path);
        match connect() {
            Ok(this) => Ok(Self { claim, ..this }),
            Err(error) => {
                if let Some(claim) = claim {
                    opening.release_claim(claim);
                }
                Err(error)
            }
        }
    }

    fn connect(path: &Path, flags: OpenFlags, store: &str, read_only: bool) -> Result<Self, Error> {
        let opened = Connection::open_with_flags(path, flags);
        Self::configure(opened, path, store, read_only)
    }

    fn connect_immutable(path: &Path, store: &str) -> Result<Self, Error> {
        let mut uri = "file:".to_string();
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    uri.push(*byte as char)
                }
                _ => uri.push_str(&format!("%{byte:02x}")),
            }
        }
        uri.push_str("?immutable=1");
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        Self::configure(Connection::open_with_flags(uri, flags), path, store, true)
    }

    fn configure(
        opened: rusqlite::Result<Connection>,
        path: &Path,
        store: &str,
        read_only: bool,
    ) -> Result<Self, Error> {
        let connection = opened.map_err(|error| convert_error(error, store, "opening"))?;
        let this = Self {
            connection,
            path: path.to_path_buf(),
            store: store.to_string(),
            doing: "opening",
            read_only,
            walked: None,
            claim: None,
        };
        let set = |option, on| {
            this.connection.set_db_config(option, on).map_err(|error| this.to_store_error(error))
        };
        set(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // A crafted file must not run functions through its schema while it is read.
        set(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        this.connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| this.to_store_error(error))?;
        this.connection.set_prepared_statement_cache_capacity(64);
        Ok(this)
    }

    fn schema_version(&mut self) -> Result<i64, Error> {
        self.connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| self.to_store_error(error))
    }

    fn refuse_newer(&self, found: i64) -> Result<(), Error> {
        if found > SCHEMA_VERSION {
            return Err(Error::Newer { store: self.store.clone(), found, known: SCHEMA_VERSION });
        }
        Ok(())
    }

    /// The header check covers this, except when a journal of an unfinished transaction was
    /// present.
    fn refuse_foreign(&self, version: i64) -> Result<(), Error> {
        let number = |sql: &str| {
            self.connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .map_err(|error| self.to_store_error(error))
        };
        let is_ours = match version {
            0 => number("SELECT count(*) FROM sqlite_schema")? == 0,
            _ => number("PRAGMA application_id")? == i64::from(APPLICATION_ID),
        };
        if is_ours {
            return Ok(());
        }
        let why = "it is an SQLite database of another program".to_string();
        Err(Error::Foreign { store: self.store.clone(), why })
    }

    /// Migrates the schema to the present version, in one transaction.
    fn migrate(&mut self) -> Result<(), Error> {
        let version = self.schema_version()?;
        self.refuse_newer(version)?;
        if version == SCHEMA_VERSION {
            return Ok(());
        }
        self.doing = "bringing the schema up to date";
        self.transaction(self.doing, TransactionMode::Write, &mut |session| {
            // Another program may have migrated it during the wait for the lock.
            let version = session.schema_version()?;
            session.refuse_newer(version)?;
            session.refuse_foreign(version)?;
            for (number, sql) in (1..).zip(MIGRATIONS) {
                if number > version {
                    session.connection.execute_batch(sql).map_err(|error| session.to_store_error(error))?;
                }
            }
            let stamp =
                format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}");
            session.connection.execute_batch(&stamp).map_err(|error| session.to_store_error(error))
        })
    }

    /// Turns on the write-ahead log, which needs exclusive access for a moment. SQLite's busy
    /// timeout does not cover this in every case, so this function retries.
    fn enable_write_ahead_log(&mut self) -> Result<(), Error> {
        let until = Instant::now() + BUSY_TIMEOUT;
        loop {
            let mode: rusqlite::Result<String> =
                self.connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
            match mode.map_err(|error| self.to_store_error(error)) {
                Ok(mode) if mode == "wal" => return Ok(()),
                // File systems without shared memory (some network ones) keep the rollback journal:
                // slower, but as safe.
                Ok(_) => return Ok(()),
                Err(Error::Busy { .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs `each` in a transaction that commits as a whole or not at all.
    pub fn transaction<T>(
        &mut self,
        doing: &'static str,
        access: TransactionMode,
        each: &mut dyn FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.doing = doing;
        if !self.connection.is_autocommit() {
            // A panic of the caller left a transaction open.
            self.execute_command("ROLLBACK")?;
        }
        if self.read_only && access == TransactionMode::Write {
            let why = "it was opened for reading only".to_string();
            return Err(Error::ReadOnly { store: self.store.clone(), why });
        }
        self.execute_command(match access {
            TransactionMode::Read => "BEGIN",
            TransactionMode::Write => "BEGIN IMMEDIATE",
        })?;
        let done = each(self).and_then(|value| self.execute_command("COMMIT").map(|()| value));
        if done.is_err() && !self.connection.is_autocommit() {
            // Report the first error, not that of the rollback; SQLite has often rolled back
            // already.
            let _ = self.execute_command("ROLLBACK");
        }
        done
    }

    fn execute_command(&self, sql: &str) -> Result<(), Error> {
        let run = || self.connection.prepare_cached(sql)?.raw_execute();
        run().map(|_| ()).map_err(|error| self.to_store_error(error))
    }

    /// Returns free pages to the file system if there are many. Best effort: nothing depends on it.
    pub fn reclaim_free_pages(&mut self) {
        let free = self.connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
        if free.unwrap_or(0) <= MAX_FREE_PAGES {
            return;
        }
        // Each step of this statement frees one page.
        let vacuum = || {
            let mut statement = self.connection.prepare("PRAGMA incremental_vacuum")?;
            let mut steps = statement.query([])?;
            while steps.next()?.is_some() {}
            Ok::<_, rusqlite::Error>(())
        };
        // If the file is busy, skip this; a later call frees the pages.
        let _ = self.connection.busy_timeout(Duration::from_millis(20));
        if vacuum().is_ok() {
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
    }

    /// Values for readiness checks.
    pub fn check_health(&mut self) -> Result<StoreHealth, Error> {
        self.doing = "checking";
        let number = |this: &Self, sql: &str| {
            this.connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .map_err(|error| this.to_store_error(error))
        };
        let pages = number(self, "PRAGMA page_count")?.saturating_mul(number(self, "PRAGMA page_size")?);
        let log = std::fs::metadata(sibling_path(&self.path, "-wal")).map_or(0, |file| file.len());
        let runs = number(self, "SELECT count(*) FROM run")?;
        let problems = match &self.walked {
            Some((at, problems)) if at.elapsed() < INTEGRITY_CHECK_TTL => problems.clone(),
            _ => self.check_integrity()?,
        };
        Ok(StoreHealth {
            engine: "sqlite",
            engine_version: rusqlite::version().to_string(),
            location: self.store.clone(),
            schema_version: self.schema_version()?,
            size_bytes: Bytes(pages.max(0) as u64 + log),
            runs: runs.max(0) as u64,
            read_only: self.read_only,
            problems,
        })
    }

    /// Checks the integrity of the central tables. Series and artefacts, most of the file, carry
    /// checksums and are left out. The result is cached: a check takes milliseconds for a thousand
    /// runs, and readiness probes come every few seconds.
    fn check_integrity(&mut self) -> Result<Vec<String>, Error> {
        let mut problems = Vec::new();
        for table in ["run", "tag", "workload", "device", "session"] {
            let lines = self.query_lines(&format!("PRAGMA quick_check('{table}')"))?;
            problems.extend(
                lines.iter().take(10).filter(|line| *line != "ok").map(|line| format!("{table}: {line}")),
            );
        }
        self.walked = Some((Instant::now(), problems.clone()));
        Ok(problems)
    }

    /// SQLite's full check: pages, indexes, constraints. At most 100 lines.
    pub fn find_damage(&mut self) -> Result<Vec<String>, Error> {
        self.doing = "checking";
        let mut lines = self.query_lines("PRAGMA integrity_check(100)")?;
        lines.retain(|line| line != "ok");
        Ok(lines)
    }

    /// Definitions of tables and indexes that differ from those of this version.
    pub fn find_schema_differences(&mut self) -> Result<Vec<String>, Error> {
        self.doing = "checking";
        let sql =
            "SELECT type || ' ' || name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name";
        let found = self.query_lines(sql)?;
        let fresh = Connection::open_in_memory().map_err(|error| self.to_store_error(error))?;
        for script in MIGRATIONS {
            fresh.execute_batch(script).map_err(|error| self.to_store_error(error))?;
        }
        let fresh = Self {
            connection: fresh,
            store: self.store.clone(),
            path: PathBuf::new(),
            claim: None,
            walked: None,
            ..*self
        };
        let expected = fresh.query_lines(sql)?;
        let names = |lines: &[String], others: &[String]| -> Vec<String> {
            let differing = lines.iter().filter(|line| !others.contains(line));
            differing.map(|line| line.split(':').next().unwrap_or_default().to_string()).collect()
        };
        let mut differing = names(&expected, &found);
        differing.extend(names(&found, &expected));
        differing.sort();
        differing.dedup();
        Ok(differing
            .into_iter()
            .map(|name| format!("the definition of {name} differs from version {SCHEMA_VERSION}"))
            .collect())
    }

    /// Builds all indexes again from their tables.
    pub fn rebuild_indexes(&mut self) -> Result<(), Error> {
        self.doing = "building indexes again";
        self.connection.execute_batch("REINDEX").map_err(|error| self.to_store_error(error))
    }

    /// The first column of a query, as texts.
    fn query_lines(&self, sql: &str) -> Result<Vec<String>, Error> {
        let read = || {
            let mut statement = self.connection.prepare(sql)?;
            let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
            lines.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(|error| self.to_store_error(error))
    }

    fn to_store_error(&self, error: rusqlite::Error) -> Error {
        convert_error(error, &self.store, self.doing)
    }
}

impl rusqlite::ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl SqlTransaction for SqliteEngine {
    fn execute(&mut self, sql: &str, values: &[SqlValue<'_>]) -> Result<u64, Error> {
        let run = || self.connection.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values));
        run().map(|count| count as u64).map_err(|error| self.to_store_error(error))
    }

    fn query_rows(&mut self, sql: &str, values: &[SqlValue<'_>]) -> Result<Vec<SqlRow>, Error> {
        let run = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let columns = statement.column_count();
            let mut found = statement.query(rusqlite::params_from_iter(values))?;
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                let mut cells = Vec::with_capacity(columns);
                for column in 0..columns {
                    cells.push(match row.get_ref(column)? {
                        ValueRef::Null | ValueRef::Real(_) => SqlCell::Null,
                        ValueRef::Integer(number) => SqlCell::Int(number),
                        ValueRef::Text(text) => SqlCell::Text(String::from_utf8_lossy(text).into_owned()),
                        ValueRef::Blob(bytes) => SqlCell::Blob(bytes.to_vec()),
                    });
                }
                rows.push(SqlRow::new(cells));
            }
            Ok(rows)
        };
        run().map_err(|error| self.to_store_error(error))
    }
}

fn convert_error(error: rusqlite::Error, store: &str, doing: &'static str) -> Error {
    let store = store.to_string();
    let why = error.to_string();
    let rusqlite::Error::SqliteFailure(code, _) = &error else {
        return Error::Engine { store, doing, why };
    };
    match (code.code, code.extended_code) {
        (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => Error::Full { store },
        (ErrorCode::DatabaseCorrupt, _) => Error::Damaged { store, why },
        (ErrorCode::NotADatabase, _) => Error::Damaged { store, why },
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Error::Busy { store },
        (ErrorCode::ReadOnly, _) => Error::ReadOnly { store, why },
        (ErrorCode::CannotOpen, _) => Error::CannotOpen {
            store,
            why: format!("{why}; SQLite must be able to read it and to create files in its folder"),
        },
        _ => Error::Engine { store, doing, why },
    }
}
