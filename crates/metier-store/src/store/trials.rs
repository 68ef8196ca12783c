//! Trials: small measurements that are made in order to learn, thousands of them. What a trial is, its kind knows: here it is a key,
//! so that nothing is tried twice, and a JSON text.

use metier_types::{DeviceId, Timestamp};

use super::memo::check;
use super::{Store, moment};
use crate::Error;

const LONGEST_KEY: usize = 4096;
const LONGEST_RECORD: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub key: String,
    /// What came of it, as JSON.
    pub record: String,
}

impl Store {
    /// Keeps trials of a kind on a device, each in place of what was known of its key. All of them or none.
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

    /// All trials of a kind on a device, by key.
    pub fn trials(&self, device: &DeviceId, kind: &str) -> Result<Vec<Trial>, Error> {
        let sql = "SELECT key, record FROM trial WHERE device = ?1 AND kind = ?2 ORDER BY key";
        let rows =
            self.read("listing trials", |session| session.rows(sql, &[device.as_str().into(), kind.into()]))?;
        Ok(rows.into_iter().map(|mut row| Trial { key: row.text(), record: row.text() }).collect())
    }

    /// Forgets all trials of a kind on a device; says how many there were.
    pub fn remove_trials(&self, device: &DeviceId, kind: &str) -> Result<u64, Error> {
        let sql = "DELETE FROM trial WHERE device = ?1 AND kind = ?2";
        self.write("removing trials", |session| session.run(sql, &[device.as_str().into(), kind.into()]))
    }
}
