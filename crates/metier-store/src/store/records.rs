//! Devices, their passports, and workloads: the latest record of each.

use metier_types::{Device, DeviceId, Passport, Workload, WorkloadId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{RecordStore, to_index_text};
use crate::Error;
use crate::codec::row_sum;
use crate::engine::SqlTransaction;

/// The SQL statements of one record table.
#[derive(Clone, Copy)]
struct RecordTable {
    record: &'static str,
    get: &'static str,
    all: &'static str,
    put: &'static str,
}

/// Builds the statements of a table with id and name columns.
macro_rules! shelf {
    ($table:literal) => {
        RecordTable {
            record: $table,
            get: concat!("SELECT record FROM ", $table, " WHERE id = ?1"),
            all: concat!("SELECT id, record FROM ", $table, " ORDER BY name, id"),
            put: concat!(
                "INSERT INTO ",
                $table,
                " (id, name, record, sum) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, record = excluded.record, \
                 sum = excluded.sum"
            ),
        }
    };
}

const DEVICES: RecordTable = shelf!("device");
const WORKLOADS: RecordTable = shelf!("workload");
const PASSPORTS: RecordTable = shelf!("passport");

impl RecordStore {
    /// Stores a device; an existing record is replaced.
    pub fn put_device(&self, device: &Device) -> Result<(), Error> {
        let json = to_checked_json("record of a device", device)?;
        self.write_transaction("recording a device", |session| {
            put_record(session, DEVICES, device.id.as_str(), &device.name, &json)
        })
    }

    /// The device with this id.
    pub fn device(&self, id: &DeviceId) -> Result<Option<Device>, Error> {
        self.read_transaction("reading a device", |session| self.read_record(session, DEVICES, id.as_str()))
    }

    /// All devices, sorted by name.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        self.list_records(DEVICES)
    }

    /// Stores a passport; an existing record is replaced.
    pub fn put_passport(&self, passport: &Passport) -> Result<(), Error> {
        let json = to_checked_json("record of a passport", passport)?;
        self.write_transaction("recording a passport", |session| {
            put_record(session, PASSPORTS, &passport.id, &passport.name, &json)
        })
    }

    /// The passport with this id.
    pub fn passport(&self, id: &str) -> Result<Option<Passport>, Error> {
        self.read_transaction("reading a passport", |session| self.read_record(session, PASSPORTS, id))
    }

    /// All passports, sorted by name.
    pub fn passports(&self) -> Result<Vec<Passport>, Error> {
        self.list_records(PASSPORTS)
    }

    /// Removes the passport with this id; returns whether it existed.
    pub fn remove_passport(&self, id: &str) -> Result<bool, Error> {
        let sql = "DELETE FROM passport WHERE id = ?1";
        self.write_transaction("removing a passport", |session| Ok(session.execute(sql, &[id.into()])? > 0))
    }

    /// Stores a workload; an existing record is replaced, but the earliest `first_seen` is kept.
    pub fn put_workload(&self, workload: &Workload) -> Result<(), Error> {
        let id = workload.id.as_str();
        let json = to_checked_json("record of a workload", workload)?;
        self.write_transaction("recording a workload", |session| {
            let known: Option<Workload> = self.read_record(session, WORKLOADS, id)?;
            match known {
                // Unchanged, as on most runs: skip the write.
                Some(known) if known == *workload => Ok(()),
                Some(known) if known.first_seen < workload.first_seen => {
                    let workload = Workload { first_seen: known.first_seen, ..workload.clone() };
                    if workload == known {
                        return Ok(());
                    }
                    put_record(
                        session,
                        WORKLOADS,
                        id,
                        &workload.name,
                        &to_checked_json("record of a workload", &workload)?,
                    )
                }
                _ => put_record(session, WORKLOADS, id, &workload.name, &json),
            }
        })
    }

    /// The workload with this id.
    pub fn workload(&self, id: &WorkloadId) -> Result<Option<Workload>, Error> {
        self.read_transaction("reading a workload", |session| {
            self.read_record(session, WORKLOADS, id.as_str())
        })
    }

    /// All workloads, sorted by name.
    pub fn workloads(&self) -> Result<Vec<Workload>, Error> {
        self.list_records(WORKLOADS)
    }

    fn read_record<T: DeserializeOwned>(
        &self,
        session: &mut dyn SqlTransaction,
        shelf: RecordTable,
        id: &str,
    ) -> Result<Option<T>, Error> {
        let row = session.query_row(shelf.get, &[id.into()])?;
        row.map(|mut row| {
            serde_json::from_str(&row.next_text()).map_err(|error| self.record_error(shelf.record, id, error))
        })
        .transpose()
    }

    fn list_records<T: DeserializeOwned>(&self, shelf: RecordTable) -> Result<Vec<T>, Error> {
        let rows = self.read_transaction("listing records", |session| session.query_rows(shelf.all, &[]))?;
        rows.into_iter()
            .map(|mut row| {
                let (id, json) = (row.next_text(), row.next_text());
                serde_json::from_str(&json).map_err(|error| self.record_error(shelf.record, id, error))
            })
            .collect()
    }
}

fn put_record(
    session: &mut dyn SqlTransaction,
    shelf: RecordTable,
    id: &str,
    name: &str,
    json: &str,
) -> Result<(), Error> {
    let sum = row_sum(&[json.as_bytes()]).into();
    session.execute(shelf.put, &[id.into(), to_index_text(name).into(), json.into(), sum]).map(|_| ())
}

/// Serialises a record and checks that it can be read back.
pub(super) fn to_checked_json<T: Serialize + DeserializeOwned>(
    what: &'static str,
    record: &T,
) -> Result<String, Error> {
    let refused = |error: serde_json::Error| Error::Refused {
        what,
        got: error.to_string(),
        want: "only finite numbers where a number is required".to_string(),
    };
    let json = serde_json::to_string(record).map_err(refused)?;
    serde_json::from_str::<T>(&json).map_err(refused)?;
    Ok(json)
}
