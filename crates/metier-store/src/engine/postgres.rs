//! The PostgreSQL engine: one connection behind the store's lock.
//!
//! - After a lost connection the engine reconnects once and repeats the whole transaction. All
//!   transactions are idempotent, so repeating a committed one changes nothing.
//! - All operations have time limits: 5 s to connect, 30 s per statement, 10 s for a lock.
//! - Migrations run under an advisory lock, so that several programs may start at once on an empty
//!   database.
//!
//! The tables are in the first schema of the search path (`public`, unless the URL says
//! `?options=-csearch_path%3DNAME`).

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use ::postgres::config::SslMode;
use ::postgres::error::SqlState;
use ::postgres::types::{ToSql, Type};
use ::postgres::{Client, Config, NoTls, Statement};
use metier_types::Bytes;

use super::{SCHEMA_VERSION, SqlCell, SqlRow, SqlTransaction, SqlValue, TransactionMode};
use crate::{Error, StoreHealth};

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of cached prepared statements. There are about 60, and more only through
/// combinations of filters.
const MAX_PREPARED_STATEMENTS: usize = 200;

/// Key of the advisory lock: `mtir` twice, unlikely to collide with other programs.
const MIGRATION_LOCK: i64 = 0x6d74_6972_6d74_6972;

const MIGRATIONS: [&str; SCHEMA_VERSION as usize] = [
    include_str!("../migrations/1.postgres.sql"),
    include_str!("../migrations/2.postgres.sql"),
    include_str!("../migrations/3.postgres.sql"),
    include_str!("../migrations/4.postgres.sql"),
];

const TABLE_NAMES: &str = "'run','tag','chunk','block','artefact','artefact_part','run_artefact','device','workload','memo',\
    'session','session_log','session_lane','passport','predictor','trial'";

/// A connection to a server.
pub(crate) struct PostgresEngine {
    client: Client,
    statements: HashMap<String, Statement>,
    url: String,
    store: String,
    doing: &'static str,
    read_only: bool,
}

impl PostgresEngine {
    /// Connects and migrates the schema to the present version.
    pub fn open(url: &str, store: &str) -> Result<Self, Error> {
        let mut this = Self::connect(url, store, false)?;
        this.migrate()?;
        this.doing = "reading";
        Ok(this)
    }

    /// Connects for reading only.
    pub fn open_read_only(url: &str, store: &str) -> Result<Self, Error> {
        let mut this = Self::connect(url, store, true)?;
        match this.schema_version()? {
            None => Err(Error::Absent { store: this.store }),
            Some(found) if found < SCHEMA_VERSION => {
                let why = format!(
                    "its schema version {found} must be brought up to date first; open it once for writing, for example with `metier run -- true`"
                );
                Err(Error::CannotOpen { store: this.store, why })
            }
            Some(found) => this.refuse_newer(found).map(|()| this),
        }
    }

    fn connect(url: &str, store: &str, read_only: bool) -> Result<Self, Error> {
        let client = connect_client(url, store, read_only)?;
        Ok(Self {
            client,
            statements: HashMap::new(),
            url: url.to_string(),
            store: store.to_string(),
            doing: "opening",
            read_only,
        })
    }

    /// Schema version; `None` in a database without a store.
    fn schema_version(&mut self) -> Result<Option<i64>, Error> {
        let there =
            self.query_row("SELECT count(*) FROM pg_class WHERE oid = to_regclass('metier_schema')", &[])?;
        if there.is_none_or(|mut row| row.next_int() == 0) {
            return Ok(None);
        }
        let version = self.query_row("SELECT max(version) FROM metier_schema", &[])?;
        Ok(version.map(|mut row| row.next_int()))
    }

    fn refuse_newer(&self, found: i64) -> Result<(), Error> {
        if found > SCHEMA_VERSION {
            return Err(Error::Newer { store: self.store.clone(), found, known: SCHEMA_VERSION });
        }
        Ok(())
    }

    fn migrate(&mut self) -> Result<(), Error> {
        if let Some(found) = self.schema_version()? {
            self.refuse_newer(found)?;
            if found == SCHEMA_VERSION {
                return Ok(());
            }
        }
        self.transaction("bringing the schema up to date", TransactionMode::Write, &mut |session| {
            session
                .query_rows("SELECT 1::bigint FROM pg_advisory_xact_lock(?1)", &[MIGRATION_LOCK.into()])?;
            let version = session.schema_version()?.unwrap_or(0);
            session.refuse_newer(version)?;
            if version == 0 {
                session.execute_script("CREATE TABLE metier_schema (version BIGINT NOT NULL)")?;
                session.execute_script("INSERT INTO metier_schema VALUES (0)")?;
            }
            for (number, sql) in (1..).zip(MIGRATIONS) {
                if number > version {
                    session.execute_script(sql)?;
                }
            }
            session.execute("UPDATE metier_schema SET version = ?1", &[SCHEMA_VERSION.into()])?;
            Ok(())
        })
    }

    fn execute_script(&mut self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).map_err(|error| self.to_store_error(&error))
    }

    /// Runs `each` in a transaction that commits as a whole or not at all. Repeats it once after a
    /// lost connection.
    pub fn transaction<T>(
        &mut self,
        doing: &'static str,
        access: TransactionMode,
        each: &mut dyn FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.doing = doing;
        if self.read_only && access == TransactionMode::Write {
            let why = "it was opened for reading only".to_string();
            return Err(Error::ReadOnly { store: self.store.clone(), why });
        }
        match self.try_transaction(access, each) {
            Err(_) if self.client.is_closed() => {
                self.client = connect_client(&self.url, &self.store, self.read_only)?;
                self.statements.clear();
                self.try_transaction(access, each)
            }
            done => done,
        }
    }

    fn try_transaction<T>(
        &mut self,
        access: TransactionMode,
        each: &mut dyn FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // BEGIN in a transaction left open by a panic only gives a warning from the server.
        self.execute_script(match access {
            TransactionMode::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            TransactionMode::Write => "BEGIN",
        })?;
        let done = each(self).and_then(|value| self.execute_script("COMMIT").map(|()| value));
        if done.is_err() && !self.client.is_closed() {
            // Report the first error, not that of the rollback.
            let _ = self.client.batch_execute("ROLLBACK");
        }
        done
    }

    /// Values for readiness checks.
    pub fn check_health(&mut self) -> Result<StoreHealth, Error> {
        self.transaction("checking", TransactionMode::Read, &mut |session| {
            let mut row = session
                .query_row(
                    &format!(
                        "SELECT current_setting('server_version'), \
                         (SELECT coalesce(sum(pg_total_relation_size(to_regclass(name))), 0)::bigint \
                          FROM unnest(ARRAY[{}]) AS name), \
                         (SELECT count(*) FROM run)",
                        TABLE_NAMES
                    ),
                    &[],
                )?
                .ok_or_else(|| session.engine_error("the server returned no row"))?;
            let (engine_version, size, runs) = (row.next_text(), row.next_int(), row.next_int());
            Ok(StoreHealth {
                engine: "postgresql",
                engine_version,
                location: session.store.clone(),
                schema_version: session.schema_version()?.unwrap_or(0),
                size_bytes: Bytes(size.max(0) as u64),
                runs: runs.max(0) as u64,
                read_only: session.read_only,
                problems: Vec::new(),
            })
        })
    }

    fn prepare_statement(&mut self, sql: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        if self.statements.len() >= MAX_PREPARED_STATEMENTS {
            self.statements.clear();
        }
        // The SQL statements of this crate contain `?` only as parameters.
        let statement =
            self.client.prepare(&sql.replace('?', "$")).map_err(|error| self.to_store_error(&error))?;
        self.statements.insert(sql.to_string(), statement.clone());
        Ok(statement)
    }

    fn engine_error(&self, why: &str) -> Error {
        Error::Engine { store: self.store.clone(), doing: self.doing, why: why.to_string() }
    }

    fn to_store_error(&self, error: &::postgres::Error) -> Error {
        convert_error(error, &self.store, self.doing)
    }
}

impl SqlTransaction for PostgresEngine {
    fn execute(&mut self, sql: &str, values: &[SqlValue<'_>]) -> Result<u64, Error> {
        let statement = self.prepare_statement(sql)?;
        let values: Vec<_> = values.iter().map(to_parameter).collect();
        self.client.execute(&statement, &values).map_err(|error| self.to_store_error(&error))
    }

    fn query_rows(&mut self, sql: &str, values: &[SqlValue<'_>]) -> Result<Vec<SqlRow>, Error> {
        let statement = self.prepare_statement(sql)?;
        let values: Vec<_> = values.iter().map(to_parameter).collect();
        let found = self.client.query(&statement, &values).map_err(|error| self.to_store_error(&error))?;
        found
            .iter()
            .map(|row| {
                let cells = row.columns().iter().enumerate().map(|(at, column)| {
                    Ok(match *column.type_() {
                        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map_or(SqlCell::Null, SqlCell::Int),
                        Type::BYTEA => {
                            row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(SqlCell::Null, SqlCell::Blob)
                        }
                        _ => row.try_get::<_, Option<String>>(at)?.map_or(SqlCell::Null, SqlCell::Text),
                    })
                });
                cells.collect::<Result<_, _>>().map(SqlRow::new).map_err(|error| self.to_store_error(&error))
            })
            .collect()
    }
}

fn to_parameter<'a>(value: &'a SqlValue<'_>) -> &'a (dyn ToSql + Sync) {
    match value {
        SqlValue::Null => &None::<&str>,
        SqlValue::Int(number) => number,
        SqlValue::Text(text) => text,
        SqlValue::Blob(bytes) => bytes,
    }
}

/// Connects within [`CONNECT_TIMEOUT`]. The library's timeout covers only the TCP connection. A
/// separate thread enforces the limit for servers that accept and then do not respond.
fn connect_client(url: &str, store: &str, read_only: bool) -> Result<Client, Error> {
    let bad = |want: String| Error::BadLocation { got: store.to_string(), want };
    let mut config: Config = url.parse().map_err(|error: ::postgres::Error| bad(error.to_string()))?;
    if config.get_connect_timeout().is_none_or(|timeout| *timeout > CONNECT_TIMEOUT) {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("metier");
    }
    config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(Duration::from_secs(30));
    let line = PostgresTransport::from_config(&config).map_err(bad)?;
    let (give, take) = mpsc::sync_channel(1);
    let connecting = move || {
        let connected = line.open_client(&config).and_then(|mut client| {
            client.batch_execute(
                "SET statement_timeout = '30s'; SET lock_timeout = '10s'; \
                 SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = 'error'",
            )?;
            if read_only {
                client.batch_execute("SET default_transaction_read_only = on")?;
            }
            Ok(client)
        });
        let _ = give.send(connected);
    };
    let away = |why: String| Error::Unreachable { store: store.to_string(), why, is_refusal: false };
    std::thread::Builder::new()
        .name("metier-connect".to_string())
        .spawn(connecting)
        .map_err(|error| away(error.to_string()))?;
    match take.recv_timeout(CONNECT_TIMEOUT) {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(Error::Unreachable {
            store: store.to_string(),
            why: error_message(&error),
            is_refusal: error.code().is_some_and(|code| !is_passing(code)),
        }),
        Err(_) => Err(away(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))),
    }
}

/// Unencrypted unless the URL requires encryption. The default `prefer` would silently accept
/// either, so it means unencrypted here.
enum PostgresTransport {
    Plain,
    #[cfg(feature = "postgres-tls")]
    Encrypted(tokio_postgres_rustls::MakeRustlsConnect),
}

impl PostgresTransport {
    fn from_config(config: &Config) -> Result<Self, String> {
        if config.get_ssl_mode() != SslMode::Require {
            return Ok(Self::Plain);
        }
        #[cfg(feature = "postgres-tls")]
        return super::tls::tls_connector().map(Self::Encrypted);
        #[cfg(not(feature = "postgres-tls"))]
        Err("sslmode=require needs a metier that was built with the feature `postgres-tls`".to_string())
    }

    fn open_client(self, config: &Config) -> Result<Client, ::postgres::Error> {
        match self {
            Self::Plain => config.connect(NoTls),
            #[cfg(feature = "postgres-tls")]
            Self::Encrypted(connector) => config.connect(connector),
        }
    }
}

/// The message of the server or the network, without the library's prefix.
fn error_message(error: &::postgres::Error) -> String {
    if let Some(db_error) = error.as_db_error() {
        return db_error.message().to_string();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

/// Whether a server with this error will answer later: it stops, starts, or has no free connection.
fn is_passing(code: &SqlState) -> bool {
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
    ]
    .contains(code)
}

fn convert_error(error: &::postgres::Error, store: &str, doing: &'static str) -> Error {
    let store = store.to_string();
    let why = error_message(error);
    let Some(code) = error.code() else {
        return if error.is_closed() {
            Error::Unreachable { store, why, is_refusal: false }
        } else {
            Error::Engine { store, doing, why }
        };
    };
    match *code {
        SqlState::DISK_FULL => Error::Full { store },
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INSUFFICIENT_PRIVILEGE => {
            Error::ReadOnly { store, why }
        }
        SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => Error::Busy { store },
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Error::Damaged { store, why },
        ref code if is_passing(code) => Error::Unreachable { store, why, is_refusal: false },
        SqlState::DUPLICATE_TABLE => Error::Foreign {
            store,
            why: format!(
                "{why}: the database has tables of another program; give metier a database or schema of its own"
            ),
        },
        _ => Error::Engine { store, doing, why },
    }
}
