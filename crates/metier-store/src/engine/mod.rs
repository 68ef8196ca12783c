//! What both engines can do: run a statement inside a transaction.
//!
//! Everything above speaks the SQL that both understand, with parameters `?1`, `?2` …; what differs
//! (opening, migrating, errors, health) is each engine's own file. There is no further layer.

mod file;
pub(crate) mod postgres;
pub(crate) mod sqlite;
#[cfg(feature = "postgres-tls")]
mod tls;

use std::borrow::Cow;

use crate::Error;

/// The schema version that this program writes.
pub(crate) const SCHEMA_VERSION: i64 = 3;

/// A parameter of a statement.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    Blob(&'a [u8]),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}
impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}
impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}
impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}
impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(bytes)
    }
}
impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A column of a row that was read.
#[derive(Debug)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

/// A row that was read. Columns are taken from left to right.
pub(crate) struct Row {
    cells: std::vec::IntoIter<Cell>,
}

impl Row {
    fn new(cells: Vec<Cell>) -> Self {
        Self { cells: cells.into_iter() }
    }

    /// The next column, as a number. A column of another type (which only a damaged store has) reads as 0,
    /// and as an empty text or content below: the record or checksum made of it then says what is wrong.
    pub fn int(&mut self) -> i64 {
        match self.cells.next() {
            Some(Cell::Int(number)) => number,
            _ => 0,
        }
    }

    /// The next column, as a text.
    pub fn text(&mut self) -> String {
        self.optional_text().unwrap_or_default()
    }

    /// The next column, as a text that may be absent.
    pub fn optional_text(&mut self) -> Option<String> {
        match self.cells.next() {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The next column, as bytes.
    pub fn blob(&mut self) -> Vec<u8> {
        match self.cells.next() {
            Some(Cell::Blob(bytes)) => bytes,
            _ => Vec::new(),
        }
    }
}

pub(crate) trait Session {
    /// Runs a statement; returns how many rows it changed.
    fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error>;
    fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error>;
    /// Runs a query of which only the first row matters.
    fn row(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}
