//! Artefacts: contents addressed by SHA-256, stored once, in parts of 1 MiB.
//!
//! The digest is known only after the last byte. So parts are written under the id of the upload,
//! each in a small transaction. A slow upload therefore never blocks the sampler of a run. The last
//! transaction assigns the digest to the upload. The next [`RecordStore::delete_run`] after a day
//! removes the parts of a killed upload.

use std::io::{ErrorKind, Read, Write};

use metier_types::{ArtefactRef, Bytes, ContentDigest, RunId, UtcTimestamp};
use sha2::{Digest as _, Sha256};

use super::runs::stored_run_json;
use super::{RecordStore, hex_id, to_microseconds};
use crate::Error;
use crate::engine::SqlTransaction;

const PART_BYTES: usize = 1 << 20;
const MAX_ARTEFACT_BYTES: u64 = 4 << 30;
/// Retention of unlinked artefacts; longer than any delay between storing and linking.
const UNUSED_KEPT_MICROSECONDS: i64 = 24 * 3600 * 1_000_000;

impl RecordStore {
    /// Stores a content once, by its SHA-256; at most 4 GiB.
    pub fn put_artefact(&self, content: &mut dyn Read) -> Result<(ContentDigest, Bytes), Error> {
        let upload = hex_id(uuid::Uuid::now_v7().as_bytes());
        let done = self.upload_artefact(content, &upload);
        if done.is_err() {
            // Best effort; otherwise a later removal of a run deletes it.
            let _ =
                self.write_transaction("removing a failed upload", |session| delete_upload(session, &upload));
        }
        done
    }

    fn upload_artefact(&self, content: &mut dyn Read, upload: &str) -> Result<(ContentDigest, Bytes), Error> {
        let mut hash = Sha256::new();
        let (mut size, mut number) = (0u64, 0i64);
        let mut part = read_part(content)?;
        loop {
            hash.update(&part);
            size += part.len() as u64;
            if size > MAX_ARTEFACT_BYTES {
                let (got, want) = ("more than 4 GiB".to_string(), "at most 4 GiB".to_string());
                return Err(Error::Refused { what: "size of an artefact", got, want });
            }
            let is_last = part.len() < PART_BYTES;
            if is_last {
                let digest = ContentDigest::from_bytes(hash.finalize().into());
                let is_known = self.write_transaction("storing an artefact", |session| {
                    write_part(session, upload, number, &part)?;
                    let sql = "INSERT INTO artefact (digest, size, upload, stored) VALUES (?1, ?2, ?3, ?4) \
                               ON CONFLICT (digest) DO NOTHING";
                    let now = to_microseconds(UtcTimestamp::now());
                    let values = [digest.to_string().into(), (size as i64).into(), upload.into(), now.into()];
                    if session.execute(sql, &values)? == 0 {
                        // The digest exists already. Renew its time, so that it is kept until it is
                        // linked. A repeated transaction finds its own upload here and changes
                        // nothing.
                        let sql = "UPDATE artefact SET stored = ?1 WHERE digest = ?2 AND upload <> ?3";
                        if session.execute(sql, &[now.into(), digest.to_string().into(), upload.into()])? > 0
                        {
                            delete_upload(session, upload)?;
                            return Ok(true);
                        }
                    }
                    Ok(false)
                })?;
                if is_known && number > 0 {
                    self.reclaim_space();
                }
                return Ok((digest, Bytes(size)));
            }
            self.write_transaction("storing an artefact", |session| {
                write_part(session, upload, number, &part)
            })?;
            number += 1;
            part = read_part(content)?;
        }
    }

    /// Writes a stored content to `into` and verifies its digest. After an error the output is
    /// invalid.
    pub fn read_artefact(&self, digest: &ContentDigest, into: &mut dyn Write) -> Result<Bytes, Error> {
        let row = self.read_transaction("reading an artefact", |session| {
            session.query_row(
                "SELECT upload, size FROM artefact WHERE digest = ?1",
                &[digest.to_string().into()],
            )
        })?;
        let mut row = row.ok_or_else(|| Error::NoArtefact { store: self.name(), digest: *digest })?;
        let (upload, size) = (row.next_text(), row.next_int().max(0) as u64);
        let mut hash = Sha256::new();
        let mut written = 0;
        let mut number = 0i64;
        while written < size {
            let part = self.artefact_part(&upload, number)?;
            if part.is_empty() {
                break;
            }
            hash.update(&part);
            written += part.len() as u64;
            number += 1;
            into.write_all(&part).map_err(|source| Error::Io { doing: "writing an artefact out", source })?;
        }
        if written != size || hash.finalize().as_slice() != digest.as_bytes() {
            return Err(Error::DamagedArtefact { store: self.name(), digest: *digest });
        }
        Ok(Bytes(size))
    }

    /// A part of an upload; empty after the last.
    pub(super) fn artefact_part(&self, upload: &str, number: i64) -> Result<Vec<u8>, Error> {
        let part = self.read_transaction("reading an artefact", |session| {
            let sql = "SELECT content FROM artefact_part WHERE upload = ?1 AND part = ?2";
            session.query_row(sql, &[upload.into(), number.into()])
        })?;
        Ok(part.map(|mut row| row.next_blob()).unwrap_or_default())
    }

    /// Links a stored content to a run and adds it to `Run.artefacts`. A file of the same name is
    /// replaced.
    pub fn link_artefact(&self, run: RunId, artefact: &ArtefactRef) -> Result<(), Error> {
        self.write_transaction("linking an artefact", |session| {
            let sql = "SELECT size FROM artefact WHERE digest = ?1";
            let Some(mut row) = session.query_row(sql, &[artefact.digest.to_string().into()])? else {
                return Err(Error::NoArtefact { store: self.name(), digest: artefact.digest });
            };
            let size = row.next_int().max(0) as u64;
            if size != artefact.size_bytes.get() {
                let (got, want) = (artefact.size_bytes.get().to_string(), size.to_string());
                return Err(Error::Refused { what: "size of the artefact", got, want });
            }
            let json = stored_run_json(session, run)?.ok_or_else(|| self.run_not_found(run))?;
            let mut record = self.parse_run(run, &json)?;
            if record.artefacts.contains(artefact) {
                return Ok(());
            }
            record.artefacts.retain(|other| other.name != artefact.name);
            record.artefacts.push(artefact.clone());
            self.replace_record(session, &record)
        })
    }

    /// Removes artefacts that no run links, and parts of failed uploads, both after a day.
    /// Artefacts in `just_unlinked`, of a run removed just now, go at once.
    pub(super) fn delete_unused_artefacts(
        &self,
        session: &mut dyn SqlTransaction,
        just_unlinked: &[String],
    ) -> Result<(), Error> {
        let before = to_microseconds(UtcTimestamp::now()).saturating_sub(UNUSED_KEPT_MICROSECONDS);
        let unused = "NOT EXISTS (SELECT 1 FROM run_artefact WHERE run_artefact.digest = artefact.digest)";
        session.execute(&format!("DELETE FROM artefact WHERE stored < ?1 AND {unused}"), &[before.into()])?;
        for digest in just_unlinked {
            session
                .execute(&format!("DELETE FROM artefact WHERE digest = ?1 AND {unused}"), &[digest.into()])?;
        }
        // An upload id begins with its time, which tells recent uploads from old ones.
        let young = format!("{:012x}", (before / 1000).max(0));
        let gone = "DELETE FROM artefact_part WHERE upload < ?1 \
                    AND NOT EXISTS (SELECT 1 FROM artefact WHERE artefact.upload = artefact_part.upload)";
        session.execute(gone, &[young.into()])?;
        Ok(())
    }
}

fn write_part(session: &mut dyn SqlTransaction, upload: &str, number: i64, part: &[u8]) -> Result<(), Error> {
    let sql = "INSERT INTO artefact_part (upload, part, content) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    session.execute(sql, &[upload.into(), number.into(), part.into()]).map(|_| ())
}

fn delete_upload(session: &mut dyn SqlTransaction, upload: &str) -> Result<(), Error> {
    session.execute("DELETE FROM artefact_part WHERE upload = ?1", &[upload.into()]).map(|_| ())
}

/// Reads one part; the last part may be shorter.
fn read_part(content: &mut dyn Read) -> Result<Vec<u8>, Error> {
    let mut part = Vec::new();
    match content.take(PART_BYTES as u64).read_to_end(&mut part) {
        Ok(_) => Ok(part),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(part),
        Err(source) => Err(Error::Io { doing: "reading the content of an artefact", source }),
    }
}
