//! Devices, their passports, and workloads: the latest record of each.

use metier_types::{Device, DeviceId, Passport, Workload, WorkloadId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Store, indexed};
use crate::Error;
use crate::engine::Session;

/// The SQL statements of one record table.
#[derive(Clone, Copy)]
struct Shelf {
    record: &'static str,
    get: &'static str,
    all: &'static str,
    put: &'static str,
}

/// Builds the statements of a table with id and name columns.
macro_rules! shelf {
    ($table:literal) => {
        Shelf {
            record: $table,
            get: concat!("SELECT record FROM ", $table, " WHERE id = ?1"),
            all: concat!("SELECT id, record FROM ", $table, " ORDER BY name, id"),
            put: concat!(
                "INSERT INTO ",
                $table,
                " (id, name, record) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, record = excluded.record"
            ),
        }
    };
}

const DEVICES: Shelf = shelf!("device");
const WORKLOADS: Shelf = shelf!("workload");
const PASSPORTS: Shelf = shelf!("passport");

impl Store {
    /// Stores a device; an existing record is replaced.
    pub fn put_device(&self, device: &Device) -> Result<(), Error> {
        let json = json_of("record of a device", device)?;
        self.write("recording a device", |session| {
            put(session, DEVICES, device.id.as_str(), &device.name, &json)
        })
    }

    /// The device with this id.
    pub fn device(&self, id: &DeviceId) -> Result<Option<Device>, Error> {
        self.read("reading a device", |session| self.get(session, DEVICES, id.as_str()))
    }

    /// All devices, sorted by name.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        self.all(DEVICES)
    }

    /// Stores a passport; an existing record is replaced.
    pub fn put_passport(&self, passport: &Passport) -> Result<(), Error> {
        let json = json_of("record of a passport", passport)?;
        self.write("recording a passport", |session| {
            put(session, PASSPORTS, &passport.id, &passport.name, &json)
        })
    }

    /// The passport with this id.
    pub fn passport(&self, id: &str) -> Result<Option<Passport>, Error> {
        self.read("reading a passport", |session| self.get(session, PASSPORTS, id))
    }

    /// All passports, sorted by name.
    pub fn passports(&self) -> Result<Vec<Passport>, Error> {
        self.all(PASSPORTS)
    }

    /// Removes the passport with this id; returns whether it existed.
    pub fn remove_passport(&self, id: &str) -> Result<bool, Error> {
        let sql = "DELETE FROM passport WHERE id = ?1";
        self.write("removing a passport", |session| Ok(session.run(sql, &[id.into()])? > 0))
    }

    /// Stores a workload; an existing record is replaced, but the earliest `first_seen` is kept.
    pub fn put_workload(&self, workload: &Workload) -> Result<(), Error> {
        let id = workload.id.as_str();
        let json = json_of("record of a workload", workload)?;
        self.write("recording a workload", |session| {
            let known: Option<Workload> = self.get(session, WORKLOADS, id)?;
            match known {
                // Unchanged, as on most runs: skip the write.
                Some(known) if known == *workload => Ok(()),
                Some(known) if known.first_seen < workload.first_seen => {
                    let kept = Workload { first_seen: known.first_seen, ..workload.clone() };
                    if kept == known {
                        return Ok(());
                    }
                    put(session, WORKLOADS, id, &kept.name, &json_of("record of a workload", &kept)?)
                }
                _ => put(session, WORKLOADS, id, &workload.name, &json),
            }
        })
    }

    /// The workload with this id.
    pub fn workload(&self, id: &WorkloadId) -> Result<Option<Workload>, Error> {
        self.read("reading a workload", |session| self.get(session, WORKLOADS, id.as_str()))
    }

    /// All workloads, sorted by name.
    pub fn workloads(&self) -> Result<Vec<Workload>, Error> {
        self.all(WORKLOADS)
    }

    fn get<T: DeserializeOwned>(
        &self,
        session: &mut dyn Session,
        shelf: Shelf,
        id: &str,
    ) -> Result<Option<T>, Error> {
        let row = session.row(shelf.get, &[id.into()])?;
        row.map(|mut row| {
            serde_json::from_str(&row.text()).map_err(|error| self.bad_record(shelf.record, id, error))
        })
        .transpose()
    }

    fn all<T: DeserializeOwned>(&self, shelf: Shelf) -> Result<Vec<T>, Error> {
        let rows = self.read("listing records", |session| session.rows(shelf.all, &[]))?;
        rows.into_iter()
            .map(|mut row| {
                let (id, json) = (row.text(), row.text());
                serde_json::from_str(&json).map_err(|error| self.bad_record(shelf.record, id, error))
            })
            .collect()
    }
}

fn put(session: &mut dyn Session, shelf: Shelf, id: &str, name: &str, json: &str) -> Result<(), Error> {
    session.run(shelf.put, &[id.into(), indexed(name).into(), json.into()]).map(|_| ())
}

/// Serialises a record and checks that it can be read back.
pub(super) fn json_of<T: Serialize + DeserializeOwned>(
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
