//! Runs and sessions that moved through a spool: what a spool keeps, and what a store accepts.
//!
//! A spool keeps the samples of a run as chunks with the numbers that the store would have given
//! them. So a chunk whose commit was not acknowledged is not doubled.

use std::io::{self, Read};

use metier_types::{ContentDigest, ExitCause, Run, RunId, RunState, SessionId, SessionRecord};

use super::runs::{interrupted_run, stored_run_json};
use super::series::{PIECE_LIMITS, SeriesChunk, chunks_after, insert_chunk};
use super::session_queue::{insert_log_part, replace_session, session_json};
use super::{RecordStore, SessionEnd, hex_id};
use crate::codec;
use crate::engine::{SqlTransaction, SqlValue};
use crate::{Error, OwnerProcess};

/// A session whose end is in a spool.
pub(crate) struct SpooledSession {
    pub id: SessionId,
    /// The record after its end.
    pub record: SessionRecord,
    /// The worker that held it, as JSON.
    pub held_by: String,
}

impl RecordStore {
    /// Replaces or inserts the record of an ended run. Its samples stay chunks.
    pub(crate) fn spool_ended_run(&self, run: &Run) -> Result<(), Error> {
        let json = self.to_checked_json(run)?;
        self.write_transaction("spooling a run", |session| match stored_run_json(session, run.id)? {
            Some(was) => self.replace_begun(session, run, &json, &was),
            None => self.insert_run(session, run, &json, None).map(|_| ()),
        })
    }

    /// Ids of all runs, oldest first, with the owners of those under way.
    pub(crate) fn run_owners(&self) -> Result<Vec<(RunId, Option<OwnerProcess>)>, Error> {
        let rows = self.read_transaction("looking for spooled runs", |session| {
            session.query_rows("SELECT id, owner FROM run ORDER BY started, id", &[])
        })?;
        rows.into_iter()
            .map(|mut row| {
                let id = row.next_text();
                let owner = row.next_optional_text().and_then(|text| serde_json::from_str(&text).ok());
                Ok((id.parse().map_err(|error| self.record_error("run", &id, error))?, owner))
            })
            .collect()
    }

    /// Whether a spool holds anything.
    pub(crate) fn is_spool_empty(&self) -> Result<bool, Error> {
        let row = self.read_transaction("looking for spooled runs", |session| {
            session.query_row("SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM session)", &[])
        })?;
        Ok(row.is_none_or(|mut row| row.next_int() == 0))
    }

    /// Takes over a run from a spool, in one transaction: its record replaces that of its begin,
    /// and its samples follow those that were stored. Returns `false` if the end of the run was
    /// already here.
    pub(crate) fn accept_spooled_run(&self, run: &Run, spool: &RecordStore) -> Result<bool, Error> {
        let run = match run.state {
            RunState::Running => &interrupted_run(run.clone()),
            _ => run,
        };
        let json = self.to_checked_json(run)?;
        let id = hex_id(run.id.as_bytes());
        let accepted = self.write_transaction("delivering a spooled run", |session| {
            // Locks the row, so that deliveries of the same run come one after the other.
            session.execute("UPDATE run SET state = state WHERE id = ?1", &[(&id).into()])?;
            match stored_run_json(session, run.id)? {
                None if self.insert_run(session, run, &json, None)? => {}
                None => return Err(Error::Busy { store: self.name() }),
                Some(was) => {
                    let known = self.parse_run(run.id, &was)?;
                    if is_same_end(&known, run) {
                        return Ok(false);
                    }
                    if !is_replaceable(&known) {
                        return Err(Error::Conflict { store: self.name(), run: run.id });
                    }
                    self.replace_begun(session, run, &json, &was)?;
                }
            }
            spool.for_each_chunk(run.id, &mut |chunk| {
                if is_in_blocks(session, &id, &chunk)? { Ok(()) } else { insert_chunk(session, &id, &chunk) }
            })?;
            self.compact_chunks(session, run.id)?;
            Ok(true)
        })?;
        if accepted {
            self.reclaim_space();
        }
        Ok(accepted)
    }

    /// The pieces of all series of a run, in the order of their numbers within a series. Blocks,
    /// which a spool has only after another command opened it as a store, come before chunks.
    fn for_each_chunk(
        &self,
        run: RunId,
        each: &mut dyn FnMut(SeriesChunk) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let id = hex_id(run.as_bytes());
        let sql = "SELECT series, part, content FROM block WHERE run = ?1 ORDER BY series, part";
        let blocks = self.read_transaction("reading spooled samples", |session| {
            session.query_rows(sql, &[(&id).into()])
        })?;
        for mut row in blocks {
            let (series, part, content) = (row.next_text(), row.next_int(), row.next_blob());
            each(SeriesChunk { series, number: (i64::MIN + 1).saturating_add(part), content })?;
        }
        let sql = "SELECT DISTINCT series FROM chunk WHERE run = ?1 ORDER BY series";
        let names = self.read_transaction("reading spooled samples", |session| {
            session.query_rows(sql, &[(&id).into()])
        })?;
        for mut row in names {
            let series = row.next_text();
            let mut after = i64::MIN;
            loop {
                let chunks = self.read_transaction("reading spooled samples", |session| {
                    chunks_after(session, &id, &series, after)
                })?;
                let Some((last, _)) = chunks.last() else { break };
                after = *last;
                for (number, content) in chunks {
                    each(SeriesChunk { series: series.clone(), number, content })?;
                }
            }
        }
        Ok(())
    }

    /// Whether a content with this digest is stored.
    pub(crate) fn has_artefact(&self, digest: &ContentDigest) -> Result<bool, Error> {
        let row = self.read_transaction("looking for an artefact", |session| {
            let sql = "SELECT size FROM artefact WHERE digest = ?1";
            session.query_row(sql, &[digest.to_string().into()])
        })?;
        Ok(row.is_some())
    }

    /// Keeps the end of a session and the rest of its output, for a store that is away. Part
    /// numbers are those of the store.
    pub(crate) fn spool_session_end(
        &self,
        record: &SessionRecord,
        owner: &OwnerProcess,
        end: &SessionEnd,
        log: Option<(u32, &[u8])>,
    ) -> Result<(), Error> {
        let mut record = record.clone();
        end.apply_to(&mut record, metier_types::UtcTimestamp::now());
        let owner = super::session_queue::owner_json(owner)?;
        let id = hex_id(record.id.as_bytes());
        self.write_transaction("spooling the end of a session", |session| {
            let sql = "INSERT INTO session (id, number, state, owner, cancel, record, sum) \
                       VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6) ON CONFLICT (id) DO NOTHING";
            let json = session_json(&record)?;
            let sum = codec::row_sum(&[json.as_bytes()]);
            let values: [SqlValue<'_>; 6] = [
                (&id).into(),
                (record.number as i64).into(),
                record.state.word().into(),
                (&owner).into(),
                json.into(),
                sum.into(),
            ];
            session.execute(sql, &values)?;
            if let Some((part, content)) = log {
                insert_log_part(session, record.id, part, content)?;
            }
            Ok(())
        })
    }

    pub(crate) fn spooled_sessions(&self) -> Result<Vec<SpooledSession>, Error> {
        let rows = self.read_transaction("looking for spooled sessions", |session| {
            session.query_rows("SELECT id, record, owner FROM session ORDER BY number", &[])
        })?;
        rows.into_iter()
            .map(|mut row| {
                let (id, json) = (row.next_text(), row.next_text());
                let record: SessionRecord =
                    serde_json::from_str(&json).map_err(|error| self.record_error("session", &id, error))?;
                Ok(SpooledSession { id: record.id, record, held_by: row.next_text() })
            })
            .collect()
    }

    /// Parts of the output of a session.
    pub(crate) fn session_log_parts(&self, id: SessionId) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        let rows = self.read_transaction("reading the log of a session", |session| {
            let sql = "SELECT part, content FROM session_log WHERE session = ?1 ORDER BY part";
            session.query_rows(sql, &[hex_id(id.as_bytes()).into()])
        })?;
        Ok(rows
            .into_iter()
            .map(|mut row| (u32::try_from(row.next_int()).unwrap_or(0), row.next_blob()))
            .collect())
    }

    /// Takes over the end of a session from a spool, if its worker still holds it or it was settled
    /// as interrupted meanwhile. Returns `false` if it had another end, or is gone.
    pub(crate) fn accept_spooled_session(&self, spooled: &SpooledSession) -> Result<bool, Error> {
        let id = hex_id(spooled.id.as_bytes());
        let runs = super::session_queue::runs_of_batch(self, spooled.record.batch)?;
        self.write_transaction("delivering the end of a session", |session| {
            let sql = "SELECT id FROM session WHERE id = ?1 \
                       AND (state = 'running' AND owner = ?2 OR state = 'interrupted')";
            if session.query_row(sql, &[(&id).into(), (&spooled.held_by).into()])?.is_none() {
                return Ok(false);
            }
            let mut record = spooled.record.clone();
            record.runs.clone_from(&runs);
            replace_session(session, &mut record)?;
            Ok(true)
        })
    }

    pub(crate) fn delete_session(&self, id: SessionId) -> Result<(), Error> {
        self.write_transaction("removing a spooled session", |session| {
            session.execute("DELETE FROM session WHERE id = ?1", &[hex_id(id.as_bytes()).into()]).map(|_| ())
        })
    }
}

/// Whether a stored record is that of this end: only one process ends a run, so the moment tells.
fn is_same_end(known: &Run, run: &Run) -> bool {
    known.state == run.state && known.ended == run.ended && known.exit == run.exit
}

/// Whether a stored record was written before the end of the run: when it began, or when its
/// process was found gone.
fn is_replaceable(known: &Run) -> bool {
    known.state == RunState::Running
        || known.state == RunState::Interrupted
            && known.exit.as_ref().is_some_and(|exit| exit.cause == ExitCause::Lost)
}

/// Whether the rows of a chunk are already in blocks: another process found the run without its
/// owner and compacted what was there.
fn is_in_blocks(session: &mut dyn SqlTransaction, id: &str, chunk: &SeriesChunk) -> Result<bool, Error> {
    let sql = "SELECT max(last_time), count(*) FROM block WHERE run = ?1 AND series = ?2";
    let Some(mut row) = session.query_row(sql, &[id.into(), (&chunk.series).into()])? else {
        return Ok(false);
    };
    let (last, blocks) = (row.next_int(), row.next_int());
    // A damaged chunk goes on: reading the series reports it.
    Ok(blocks > 0
        && codec::last_time(&chunk.content, PIECE_LIMITS).ok().flatten().is_some_and(|time| time <= last))
}

/// Reads a stored content piece by piece, for a transfer to another store.
pub(crate) struct ArtefactReader<'a> {
    store: &'a RecordStore,
    upload: String,
    number: i64,
    part: io::Cursor<Vec<u8>>,
}

impl<'a> ArtefactReader<'a> {
    /// `None` if there is no such content.
    pub fn open(store: &'a RecordStore, digest: &ContentDigest) -> Result<Option<Self>, Error> {
        let row = store.read_transaction("reading an artefact", |session| {
            let sql = "SELECT upload FROM artefact WHERE digest = ?1";
            session.query_row(sql, &[digest.to_string().into()])
        })?;
        Ok(row.map(|mut row| Self {
            store,
            upload: row.next_text(),
            number: 0,
            part: io::Cursor::new(Vec::new()),
        }))
    }
}

impl Read for ArtefactReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.part.read(into)?;
        if count > 0 || into.is_empty() {
            return Ok(count);
        }
        let next = self.store.artefact_part(&self.upload, self.number).map_err(io::Error::other)?;
        self.number += 1;
        self.part = io::Cursor::new(next);
        self.part.read(into)
    }
}
