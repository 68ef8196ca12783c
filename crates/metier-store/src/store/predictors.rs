//! Predictors: a record and a file each, identified by the SHA-256 of the file.

use metier_types::{Digest, Predictor};
use sha2::{Digest as _, Sha256};

use super::records::json_of;
use super::{Store, moment};
use crate::Error;
use crate::engine::Value;

/// Maximum size of a predictor file.
const LARGEST: usize = 256 << 20;

impl Store {
    /// Stores a predictor and its file. An existing record of the same id is replaced; the file is
    /// identical by its digest.
    pub fn put_predictor(&self, predictor: &Predictor, file: &[u8]) -> Result<(), Error> {
        if file.len() > LARGEST {
            let (got, want) = (format!("{} bytes", file.len()), format!("at most {LARGEST} bytes"));
            return Err(Error::Refused { what: "file of a predictor", got, want });
        }
        let digest = Digest::from_bytes(Sha256::digest(file).into());
        if digest != predictor.id {
            let (got, want) = (digest.to_string(), format!("{}, the predictor's id", predictor.id));
            return Err(Error::Refused { what: "digest of a predictor's file", got, want });
        }
        let json = json_of("record of a predictor", predictor)?;
        self.write("recording a predictor", |session| {
            let sql = "INSERT INTO predictor (id, kind, device, made, record, file) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                       ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, device = excluded.device, \
                       made = excluded.made, record = excluded.record";
            let device = predictor.device.as_ref().map_or(Value::Null, |device| device.id.as_str().into());
            let id = predictor.id.to_string();
            let made = moment(predictor.made).into();
            let values =
                [id.into(), predictor.kind.as_str().into(), device, made, json.as_str().into(), file.into()];
            session.run(sql, &values).map(|_| ())
        })
    }

    /// Replaces the record of a stored predictor; returns whether it exists.
    pub fn update_predictor(&self, predictor: &Predictor) -> Result<bool, Error> {
        let json = json_of("record of a predictor", predictor)?;
        let sql = "UPDATE predictor SET record = ?1 WHERE id = ?2";
        self.write("recording a predictor", |session| {
            Ok(session.run(sql, &[json.as_str().into(), predictor.id.to_string().into()])? > 0)
        })
    }

    /// All predictors of a kind, or of all kinds, newest first.
    pub fn predictors(&self, kind: Option<&str>) -> Result<Vec<Predictor>, Error> {
        let rows = self.read("listing predictors", |session| match kind {
            Some(kind) => session.rows(
                "SELECT id, record FROM predictor WHERE kind = ?1 ORDER BY made DESC, id",
                &[kind.into()],
            ),
            None => session.rows("SELECT id, record FROM predictor ORDER BY made DESC, id", &[]),
        })?;
        rows.into_iter()
            .map(|mut row| {
                let (id, json) = (row.text(), row.text());
                serde_json::from_str(&json).map_err(|error| self.bad_record("predictor", id, error))
            })
            .collect()
    }

    /// The predictor with this id.
    pub fn predictor(&self, id: &Digest) -> Result<Option<Predictor>, Error> {
        let row = self.read("reading a predictor", |session| {
            session.row("SELECT record FROM predictor WHERE id = ?1", &[id.to_string().into()])
        })?;
        row.map(|mut row| {
            serde_json::from_str(&row.text())
                .map_err(|error| self.bad_record("predictor", id.to_string(), error))
        })
        .transpose()
    }

    /// The file of the predictor with this id, verified against its digest.
    pub fn predictor_file(&self, id: &Digest) -> Result<Option<Vec<u8>>, Error> {
        let row = self.read("reading a predictor's file", |session| {
            session.row("SELECT file FROM predictor WHERE id = ?1", &[id.to_string().into()])
        })?;
        let Some(file) = row.map(|mut row| row.blob()) else { return Ok(None) };
        let digest = Digest::from_bytes(Sha256::digest(&file).into());
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
    pub fn remove_predictor(&self, id: &Digest) -> Result<bool, Error> {
        let sql = "DELETE FROM predictor WHERE id = ?1";
        self.write("removing a predictor", |session| Ok(session.run(sql, &[id.to_string().into()])? > 0))
    }
}
