//! Checks of devices, workloads, passports, sessions, predictors, trials and cached values.

use metier_types::{ContentDigest, Device, Passport, Predictor, SessionRecord, Workload};
use serde::de::DeserializeOwned;

use super::{StoreChecker, holds};
use crate::Error;
use crate::engine::{SqlCell, SqlRow, SqlValue};
use crate::store::{hex_id, to_index_text, to_microseconds};

impl StoreChecker<'_> {
    pub(super) fn check_named_records(&mut self) -> Result<(), Error> {
        self.check_table("device", |device: &Device| (device.id.as_str().to_string(), device.name.clone()))?;
        self.check_table("workload", |workload: &Workload| {
            (workload.id.as_str().to_string(), workload.name.clone())
        })?;
        self.check_table("passport", |passport: &Passport| (passport.id.clone(), passport.name.clone()))
    }

    /// Checks a table of records with an id and a name.
    fn check_table<T: DeserializeOwned>(
        &mut self,
        table: &'static str,
        key: impl Fn(&T) -> (String, String),
    ) -> Result<(), Error> {
        let sql = format!("SELECT id, name, record, sum FROM {table} ORDER BY id LIMIT ?1 OFFSET ?2");
        self.for_each_row(&sql, |this, mut row| {
            this.count(table);
            let (id, name) = (row.next_text(), row.next_text());
            if let Some(record) = this.read_summed::<T>(&format!("{table} {id}"), &mut row) {
                let (own_id, own_name) = key(&record);
                if own_id != id || to_index_text(&own_name) != name {
                    this.problem(format!("{table} {id}"), "its id or name differs from its record");
                }
            }
            Ok(())
        })
    }

    /// Reads the next two columns, a record and its checksum; `None` after a finding.
    fn read_summed<T: DeserializeOwned>(&mut self, object: &str, row: &mut SqlRow) -> Option<T> {
        let (record, sum) = (row.next_text(), row.next_cell());
        if !self.is_sum_right(&sum, &[record.as_bytes()]) {
            self.problem(object, "the checksum of its record is wrong");
            return None;
        }
        match serde_json::from_str(&record) {
            Ok(record) => Some(record),
            Err(error) => {
                self.problem(object, format!("its record cannot be read: {error}"));
                None
            }
        }
    }

    pub(super) fn check_sessions(&mut self) -> Result<(), Error> {
        let sql = "SELECT id, record, sum, number, state, device, job, worker, cancel FROM session \
                   ORDER BY id LIMIT ?1 OFFSET ?2";
        self.for_each_row(sql, |this, mut row| {
            this.count("sessions");
            let id = row.next_text();
            let object = format!("session {id}");
            let Some(record) = this.read_summed::<SessionRecord>(&object, &mut row) else { return Ok(()) };
            let worker = record.measured_by.as_ref().filter(|_| record.state.word() == "running");
            let expected: [SqlValue<'_>; 5] = [
                (record.number as i64).into(),
                record.state.word().into(),
                record.device.as_deref().map(to_index_text).into(),
                record.job.as_deref().map(to_index_text).into(),
                worker.map(|device| to_index_text(device.id.as_str())).into(),
            ];
            let cells: Vec<SqlCell> = expected.iter().map(|_| row.next_cell()).collect();
            let is_equal = cells.iter().zip(&expected).all(|(cell, value)| holds(cell, value));
            if !is_equal || hex_id(record.id.as_bytes()) != id {
                this.problem(&object, "its columns differ from its record");
            }
            let cancel = row.next_int();
            if cancel != 0 && (cancel != 1 || record.state.word() == "queued") {
                this.problem(&object, format!("its column cancel is {cancel}; want 0 while it waits"));
            }
            Ok(())
        })?;
        let sql =
            "SELECT session, part, content, sum FROM session_log ORDER BY session, part LIMIT ?1 OFFSET ?2";
        let mut previous: Option<(String, i64)> = None;
        self.for_each_row(sql, |this, mut row| {
            this.count("parts of output");
            let (session, part, content) = (row.next_text(), row.next_int(), row.next_blob());
            let sum = row.next_cell();
            let object = format!("session {session} output {part}");
            if !this.is_sum_right(&sum, &[&content]) {
                this.problem(&object, "its checksum is wrong");
            }
            let first = match &previous {
                Some((before, number)) if *before == session => number + 1,
                _ => 0,
            };
            if part != first {
                this.problem(&object, "a part before it is missing");
            }
            previous = Some((session, part));
            Ok(())
        })?;
        let lane = "SELECT coalesce(max(last), 0), (SELECT coalesce(max(number), 0) FROM session) \
                    FROM session_lane WHERE lane = ''";
        let row = self.store.read_transaction("checking", |session| session.query_row(lane, &[]))?;
        if row.is_some_and(|mut row| row.next_int() < row.next_int()) {
            self.problem("table session_lane", "its last number is below that of a session");
        }
        Ok(())
    }

    pub(super) fn check_predictors(&mut self) -> Result<(), Error> {
        let sql = "SELECT id, record, sum, kind, device, made FROM predictor ORDER BY id LIMIT ?1 OFFSET ?2";
        self.for_each_row(sql, |this, mut row| {
            this.count("predictors");
            let id = row.next_text();
            let object = format!("predictor {id}");
            if let Some(record) = this.read_summed::<Predictor>(&object, &mut row) {
                let expected: [SqlValue<'_>; 3] = [
                    record.kind.as_str().into(),
                    record.device.as_ref().map(|device| device.id.as_str()).into(),
                    to_microseconds(record.made).into(),
                ];
                let is_equal = expected.iter().all(|value| holds(&row.next_cell(), value));
                if !is_equal || record.id.to_string() != id {
                    this.problem(&object, "its columns differ from its record");
                }
            }
            let file = match id.parse::<ContentDigest>() {
                Ok(digest) => {
                    this.store.predictor_file(&digest).map(|_| ()).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(problem) = file {
                this.problem(&object, problem);
            }
            Ok(())
        })
    }

    /// Trials and memos: rows whose checksum covers all of their texts. A memo can be made again,
    /// so a damaged one is removed.
    pub(super) fn check_cached_rows(&mut self) -> Result<(), Error> {
        let sql =
            "SELECT device, kind, key, record, sum FROM trial ORDER BY device, kind, key LIMIT ?1 OFFSET ?2";
        self.for_each_row(sql, |this, mut row| {
            this.count("trials");
            let texts = [row.next_text(), row.next_text(), row.next_text(), row.next_text()];
            let sum = row.next_cell();
            if !this.is_sum_right(&sum, &texts.each_ref().map(|text| text.as_bytes())) {
                let [device, kind, key, _] = texts;
                this.problem(format!("trial {kind} {key} of device {device}"), "its checksum is wrong");
            }
            Ok(())
        })?;
        let sql = "SELECT key, value, sum FROM memo ORDER BY key LIMIT ?1 OFFSET ?2";
        let mut damaged = Vec::new();
        self.for_each_row(sql, |this, mut row| {
            this.count("cached values");
            let (key, value, sum) = (row.next_text(), row.next_text(), row.next_cell());
            if !this.is_sum_right(&sum, &[key.as_bytes(), value.as_bytes()]) {
                damaged.push(key);
            }
            Ok(())
        })?;
        for key in damaged {
            let object = format!("cached value {key:?}");
            self.repairable(object, "its checksum is wrong", "removes it; it is made again", |store| {
                store.write_transaction("removing a cached value", |session| {
                    session.execute("DELETE FROM memo WHERE key = ?1", &[(&key).into()]).map(|_| ())
                })
            });
        }
        Ok(())
    }
}
