//! Trials: thousands of small measurements for training predictors. Their content depends on their
//! kind. The store sees a key, so that no trial is repeated, and a JSON text.

use metier_types::{DeviceId, UtcTimestamp};

use super::memo::check_text;
use super::{RecordStore, to_microseconds};
use crate::Error;
use crate::codec::row_sum;

const MAX_KEY_BYTES: usize = 4096;
const MAX_RECORD_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTrial {
    pub key: String,
    /// Result of the trial, as JSON.
    pub record: String,
}

impl RecordStore {
    /// Stores trials of a kind on a device, all or none; existing records of the same keys are
    /// replaced.
    pub fn put_trials(&self, device: &DeviceId, kind: &str, trials: &[StoredTrial]) -> Result<(), Error> {
        for trial in trials {
            check_text("key of a trial", &trial.key, MAX_KEY_BYTES)?;
            check_text("record of a trial", &trial.record, MAX_RECORD_BYTES)?;
        }
        let now = to_microseconds(UtcTimestamp::now());
        self.write_transaction("recording trials", |session| {
            let sql = "INSERT INTO trial (device, kind, key, made, record, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                       ON CONFLICT (device, kind, key) DO UPDATE SET made = excluded.made, \
                       record = excluded.record, sum = excluded.sum";
            for trial in trials {
                let parts = [device.as_str(), kind, &trial.key, &trial.record].map(str::as_bytes);
                let (key, record) = (trial.key.as_str().into(), trial.record.as_str().into());
                let sum = row_sum(&parts).into();
                session.execute(sql, &[device.as_str().into(), kind.into(), key, now.into(), record, sum])?;
            }
            Ok(())
        })
    }

    /// All trials of a kind on a device, sorted by key.
    pub fn trials(&self, device: &DeviceId, kind: &str) -> Result<Vec<StoredTrial>, Error> {
        let sql = "SELECT key, record FROM trial WHERE device = ?1 AND kind = ?2 ORDER BY key";
        let rows = self.read_transaction("listing trials", |session| {
            session.query_rows(sql, &[device.as_str().into(), kind.into()])
        })?;
        Ok(rows
            .into_iter()
            .map(|mut row| StoredTrial { key: row.next_text(), record: row.next_text() })
            .collect())
    }

    /// Removes all trials of a kind on a device; returns their number.
    pub fn remove_trials(&self, device: &DeviceId, kind: &str) -> Result<u64, Error> {
        let sql = "DELETE FROM trial WHERE device = ?1 AND kind = ?2";
        self.write_transaction("removing trials", |session| {
            session.execute(sql, &[device.as_str().into(), kind.into()])
        })
    }
}
