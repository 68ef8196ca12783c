//! Predictors: a record and a file each, identified by the SHA-256 of the file.

use metier_types::{ContentDigest, Predictor};
use sha2::{Digest as _, Sha256};

use super::records::to_checked_json;
use super::{RecordStore, to_microseconds};
use crate::Error;
use crate::codec::row_sum;
use crate::engine::SqlValue;

/// Maximum size of a predictor file.
const MAX_PREDICTOR_BYTES: usize = 256 << 20;

impl RecordStore {
    /// Stores a predictor and its file. An existing record of the same id is replaced; the file is
    /// identical by its digest.
    pub fn put_predictor(&self, predictor: &Predictor, file: &[u8]) -> Result<(), Error> {
        if file.len() > MAX_PREDICTOR_BYTES {
            let (got, want) =
                (format!("{} bytes", file.len()), format!("at most {MAX_PREDICTOR_BYTES} bytes"));
            return Err(Error::Refused { what: "file of a predictor", got, want });
        }
        let digest = ContentDigest::from_bytes(Sha256::digest(file).into());
        if digest != predictor.id {
            let (got, want) = (digest.to_string(), format!("{}, the predictor's id", predictor.id));
            return Err(Error::Refused { what: "digest of a predictor's file", got, want });
        }
        let json = to_checked_json("record of a predictor", predictor)?;
        self.write_transaction("recording a predictor", |session| {
            let sql = "INSERT INTO predictor (id, kind, device, made, record, file, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
                       ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, device = excluded.device, \
                       made = excluded.made, record = excluded.record, sum = excluded.sum";
            let device = predictor.device.as_ref().map_or(SqlValue::Null, |device| device.id.as_str().into());
            let id = predictor.id.to_string();
            let made = to_microseconds(predictor.made).into();
            let (kind, sum) = (predictor.kind.as_str().into(), row_sum(&[json.as_bytes()]).into());
            let values = [id.into(), kind, device, made, json.as_str().into(), file.into(), sum];
            session.execute(sql, &values).map(|_| ())
        })
    }

    /// Replaces the record of a stored predictor; returns whether it exists.
    pub fn update_predictor(&self, predictor: &Predictor) -> Result<bool, Error> {
        let json = to_checked_json("record of a predictor", predictor)?;
        let sql = "UPDATE predictor SET record = ?1, sum = ?3 WHERE id = ?2";
        self.write_transaction("recording a predictor", |session| {
            let sum = row_sum(&[json.as_bytes()]).into();
            Ok(session.execute(sql, &[json.as_str().into(), predictor.id.to_string().into(), sum])? > 0)
        })
    }

    /// All predictors of a kind, or of all kinds, newest first.
    pub fn predictors(&self, kind: Option<&str>) -> Result<Vec<Predictor>, Error> {
        let rows = self.read_transaction("listing predictors", |session| match kind {
            Some(kind) => session.query_rows(
                "SELECT id, record FROM predictor WHERE kind = ?1 ORDER BY made DESC, id",
                &[kind.into()],
            ),
            None => session.query_rows("SELECT id, record FROM predictor ORDER BY made DESC, id", &[]),
        })?;
        rows.into_iter()
            .map(|mut row| {
                let (id, json) = (row.next_text(), row.next_text());
                serde_json::from_str(&json).map_err(|error| self.record_error("predictor", id, error))
            })
            .collect()
    }

    /// The predictor with this id.
    pub fn predictor(&self, id: &ContentDigest) -> Result<Option<Predictor>, Error> {
        let row = self.read_transaction("reading a predictor", |session| {
            session.query_row("SELECT record FROM predictor WHERE id = ?1", &[id.to_string().into()])
        })?;
        row.map(|mut row| {
            serde_json::from_str(&row.next_text())
                .map_err(|error| self.record_error("predictor", id.to_string(), error))
        })
        .transpose()
    }

    /// The file of the predictor with this id, verified against its digest.
    pub fn predictor_file(&self, id: &ContentDigest) -> Result<Option<Vec<u8>>, Error> {
        let row = self.read_transaction("reading a predictor's file", |session| {
            session.query_row("SELECT file FROM predictor WHERE id = ?1", &[id.to_string().into()])
        })?;
        let Some(file) = row.map(|mut row| row.next_blob()) else { return Ok(None) };
        let digest = ContentDigest::from_bytes(Sha256::digest(&file).into());
        if digest != *id {
            let want = format!("{id}; the file was damaged, remove the predictor and learn it again");
            return Err(Error::Refused {
                what: "digest of a predictor's file",
                got: digest.to_string(),
                want,
            });
        }
        Ok(Some(file))
    }

    /// Removes a predictor and its file; returns whether it existed.
    pub fn remove_predictor(&self, id: &ContentDigest) -> Result<bool, Error> {
        let sql = "DELETE FROM predictor WHERE id = ?1";
        self.write_transaction("removing a predictor", |session| {
            Ok(session.execute(sql, &[id.to_string().into()])? > 0)
        })
    }
}
