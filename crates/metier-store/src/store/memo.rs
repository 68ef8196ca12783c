//! A small key-value cache for values that are slow to compute, such as digests of executables.

use metier_types::Timestamp;

use super::{Store, moment};
use crate::Error;

const LONGEST_KEY: usize = 1024;
const LONGEST_VALUE: usize = 64 << 10;
/// Above this number of keys, the oldest half is deleted.
const MOST_KEYS: i64 = 8192;

impl Store {
    /// Stores a text (at most 64 KiB) under a key (at most 1 KiB) and replaces the old one. It may
    /// be evicted after thousands of later entries.
    pub fn remember(&self, key: &str, value: &str) -> Result<(), Error> {
        check("key", key, LONGEST_KEY)?;
        check("value to remember", value, LONGEST_VALUE)?;
        self.write("remembering", |session| {
            let sql = "INSERT INTO memo (key, value, used) VALUES (?1, ?2, ?3) \
                       ON CONFLICT (key) DO UPDATE SET value = excluded.value, used = excluded.used";
            session.run(sql, &[key.into(), value.into(), moment(Timestamp::now()).into()])?;
            let count = session.row("SELECT count(*) FROM memo", &[])?.map_or(0, |mut row| row.int());
            if count > MOST_KEYS {
                let sql = "DELETE FROM memo WHERE used < (SELECT used FROM memo ORDER BY used DESC LIMIT 1 OFFSET ?1)";
                session.run(sql, &[(MOST_KEYS / 2).into()])?;
            }
            Ok(())
        })
    }

    /// The text stored under a key, if it is still there.
    pub fn recall(&self, key: &str) -> Result<Option<String>, Error> {
        check("key", key, LONGEST_KEY)?;
        let row = self.read("recalling", |session| {
            session.row("SELECT value FROM memo WHERE key = ?1", &[key.into()])
        })?;
        Ok(row.map(|mut row| row.text()))
    }
}

/// Rejects a text that is too long or that PostgreSQL cannot store.
pub(super) fn check(what: &'static str, text: &str, longest: usize) -> Result<(), Error> {
    if text.len() > longest || text.contains('\0') {
        let got = format!("{} bytes{}", text.len(), if text.contains('\0') { ", with a NUL" } else { "" });
        return Err(Error::Refused { what, got, want: format!("at most {longest} bytes without NUL") });
    }
    Ok(())
}
