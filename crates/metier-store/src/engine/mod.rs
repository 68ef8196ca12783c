//! The operations of both engines: SQL statements inside transactions.
//!
//! The modules above use SQL that both engines accept, with parameters `?1`, `?2` …. The engines'
//! own files hold the differences: opening, migration, errors and health.

pub(crate) mod postgres;
pub(crate) mod sqlite;
mod sqlite_file;
#[cfg(feature = "postgres-tls")]
mod tls;

use std::borrow::Cow;

use crate::Error;

/// The schema version that this program writes.
pub(crate) const SCHEMA_VERSION: i64 = 4;

/// A parameter of a statement.
#[derive(Debug)]
pub(crate) enum SqlValue<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    Blob(&'a [u8]),
}

impl From<i64> for SqlValue<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}
impl<'a> From<&'a str> for SqlValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}
impl<'a> From<&'a String> for SqlValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}
impl From<String> for SqlValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}
impl<'a> From<&'a [u8]> for SqlValue<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(bytes)
    }
}
impl<'a, T: Into<SqlValue<'a>>> From<Option<T>> for SqlValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A column value of a result row.
#[derive(Debug)]
pub(crate) enum SqlCell {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

/// A result row. Its columns are read from left to right.
pub(crate) struct SqlRow {
    cells: std::vec::IntoIter<SqlCell>,
}

impl SqlRow {
    fn new(cells: Vec<SqlCell>) -> Self {
        Self { cells: cells.into_iter() }
    }

    /// Reads the next column as a number. A column of another type occurs only in a damaged store.
    /// It reads as 0 here, and as an empty text or blob below; the parser or checksum of the record
    /// then reports the damage.
    pub fn next_int(&mut self) -> i64 {
        match self.cells.next() {
            Some(SqlCell::Int(number)) => number,
            _ => 0,
        }
    }

    /// Reads the next column as it is.
    pub fn next_cell(&mut self) -> SqlCell {
        self.cells.next().unwrap_or(SqlCell::Null)
    }

    /// Reads the next column as a text.
    pub fn next_text(&mut self) -> String {
        self.next_optional_text().unwrap_or_default()
    }

    /// Reads the next column as a text that may be NULL.
    pub fn next_optional_text(&mut self) -> Option<String> {
        match self.cells.next() {
            Some(SqlCell::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Reads the next column as bytes.
    pub fn next_blob(&mut self) -> Vec<u8> {
        match self.cells.next() {
            Some(SqlCell::Blob(bytes)) => bytes,
            _ => Vec::new(),
        }
    }
}

pub(crate) trait SqlTransaction {
    /// Executes a statement; returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[SqlValue<'_>]) -> Result<u64, Error>;
    fn query_rows(&mut self, sql: &str, values: &[SqlValue<'_>]) -> Result<Vec<SqlRow>, Error>;
    /// Runs a query and returns its first row.
    fn query_row(&mut self, sql: &str, values: &[SqlValue<'_>]) -> Result<Option<SqlRow>, Error> {
        Ok(self.query_rows(sql, values)?.into_iter().next())
    }
}

/// Access mode of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionMode {
    Read,
    Write,
}
