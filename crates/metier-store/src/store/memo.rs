//! A small key-value cache for values that are slow to compute, such as digests of executables.

use metier_types::UtcTimestamp;

use super::{RecordStore, to_microseconds};
use crate::Error;
use crate::codec::row_sum;

const MAX_KEY_BYTES: usize = 1024;
const MAX_VALUE_BYTES: usize = 64 << 10;
/// Above this number of keys, the oldest half is deleted.
const MAX_MEMO_KEYS: i64 = 8192;

impl RecordStore {
    /// Stores a text (at most 64 KiB) under a key (at most 1 KiB) and replaces the old one. It may
    /// be evicted after thousands of later entries.
    pub fn put_memo(&self, key: &str, value: &str) -> Result<(), Error> {
        check_text("key", key, MAX_KEY_BYTES)?;
        check_text("value to remember", value, MAX_VALUE_BYTES)?;
        self.write_transaction("remembering", |session| {
            let sql = "INSERT INTO memo (key, value, used, sum) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT (key) DO UPDATE SET value = excluded.value, used = excluded.used, sum = excluded.sum";
            let (now, sum) = (to_microseconds(UtcTimestamp::now()), row_sum(&[key.as_bytes(), value.as_bytes()]));
            session.execute(sql, &[key.into(), value.into(), now.into(), sum.into()])?;
            let count = session.query_row("SELECT count(*) FROM memo", &[])?.map_or(0, |mut row| row.next_int());
            if count > MAX_MEMO_KEYS {
                let sql = "DELETE FROM memo WHERE used < (SELECT used FROM memo ORDER BY used DESC LIMIT 1 OFFSET ?1)";
                session.execute(sql, &[(MAX_MEMO_KEYS / 2).into()])?;
            }
            Ok(())
        })
    }

    /// The text stored under a key, if it is still there.
    pub fn get_memo(&self, key: &str) -> Result<Option<String>, Error> {
        check_text("key", key, MAX_KEY_BYTES)?;
        let row = self.read_transaction("recalling", |session| {
            session.query_row("SELECT value FROM memo WHERE key = ?1", &[key.into()])
        })?;
        Ok(row.map(|mut row| row.next_text()))
    }
}

/// Rejects a text that is too long or that PostgreSQL cannot store.
pub(super) fn check_text(what: &'static str, text: &str, longest: usize) -> Result<(), Error> {
    if text.len() > longest || text.contains('\0') {
        let got = format!("{} bytes{}", text.len(), if text.contains('\0') { ", with a NUL" } else { "" });
        return Err(Error::Refused { what, got, want: format!("at most {longest} bytes without NUL") });
    }
    Ok(())
}
