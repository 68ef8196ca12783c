//! Trials: thousands of small measurements for training predictors. Their content depends on their
//! kind. The store sees a key, so that no trial is repeated, and a JSON text.

use metier_types::{DeviceId, Timestamp};

use super::memo::check;
use super::{Store, moment};
use crate::Error;

const LONGEST_KEY: usize = 4096;
const LONGEST_RECORD: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub key: String,
    /// Result of the trial, as JSON.
    pub record: String,
}

impl Store {
    /// Stores trials of a kind on a device, all or none; existing records of the same keys are
    /// replaced.
    pub fn put_trials(&self, device: &DeviceId, kind: &str, trials: &[Trial]) -> Result<(), Error> {
        for trial in trials {
            check("key of a trial", &trial.key, LONGEST_KEY)?;
            check("record of a trial", &trial.record, LONGEST_RECORD)?;
        }
        let now = moment(Timestamp::now());
        self.write("recording trials", |session| {
            let sql = "INSERT INTO trial (device, kind, key, made, record) VALUES (?1, ?2, ?3, ?4, ?5) \
                       ON CONFLICT (device, kind, key) DO UPDATE SET made = excluded.made, record = excluded.record";
            for trial in trials {
                let (key, record) = (trial.key.as_str().into(), trial.record.as_str().into());
                session.run(sql, &[device.as_str().into(), kind.into(), key, now.into(), record])?;
            }
            Ok(())
        })
    }

    /// All trials of a kind on a device, sorted by key.
    pub fn trials(&self, device: &DeviceId, kind: &str) -> Result<Vec<Trial>, Error> {
        let sql = "SELECT key, record FROM trial WHERE device = ?1 AND kind = ?2 ORDER BY key";
        let rows =
            self.read("listing trials", |session| session.rows(sql, &[device.as_str().into(), kind.into()]))?;
        Ok(rows.into_iter().map(|mut row| Trial { key: row.text(), record: row.text() }).collect())
    }

    /// Removes all trials of a kind on a device; returns their number.
    pub fn remove_trials(&self, device: &DeviceId, kind: &str) -> Result<u64, Error> {
        let sql = "DELETE FROM trial WHERE device = ?1 AND kind = ?2";
        self.write("removing trials", |session| session.run(sql, &[device.as_str().into(), kind.into()]))
    }
}
