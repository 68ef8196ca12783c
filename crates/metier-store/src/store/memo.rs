//! Small texts by key, for what is slow to find out and may be forgotten: digests of executables, for example.

use metier_types::Timestamp;

use super::{Store, moment};
use crate::Error;

const LONGEST_KEY: usize = 1024;
const LONGEST_VALUE: usize = 64 << 10;
/// When there are more keys than this, the oldest half goes.
const MOST_KEYS: i64 = 8192;

impl Store {
    /// Keeps a small text (64 KiB at most) under a key (1 KiB at most), in place of what was there. It may be forgotten
    /// when thousands of later ones came.
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

    /// What was kept under a key.
    pub fn recall(&self, key: &str) -> Result<Option<String>, Error> {
        check("key", key, LONGEST_KEY)?;
        let row = self.read("recalling", |session| {
            session.row("SELECT value FROM memo WHERE key = ?1", &[key.into()])
        })?;
        Ok(row.map(|mut row| row.text()))
    }
}

/// Refuses a text that is too long, or that PostgreSQL could not keep.
pub(super) fn check(what: &'static str, text: &str, longest: usize) -> Result<(), Error> {
    if text.len() > longest || text.contains('\0') {
        let got = format!("{} bytes{}", text.len(), if text.contains('\0') { ", with a NUL" } else { "" });
        return Err(Error::Refused { what, got, want: format!("at most {longest} bytes without NUL") });
    }
    Ok(())
}
