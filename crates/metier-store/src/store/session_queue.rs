//! The session queue: submit, claim, cancel and end sessions, and release those of dead workers.
//!
//! Each submission and each claim first updates the row of a lane. So both engines serialise them:
//! a number is never given twice, and a device never has two active sessions (an index also
//! enforces this). Every call may be repeated after its commit, as everywhere in the store.

use metier_types::schema::RecordSchema;
use metier_types::{
    BatchId, DeviceRef, ExtraFields, RunId, SessionId, SessionRecord as Record, SessionRequester,
    SessionState, UtcTimestamp,
};

use super::{RecordStore, hex_id, to_index_text, to_microseconds};
use crate::codec::row_sum;
use crate::engine::{SqlRow, SqlTransaction, SqlValue};
use crate::{Error, OwnerProcess, RunFilter};

/// Maximum size of a record: a run file has a few kB, and the interfaces accept at most 1 MiB.
const MAX_RECORD_BYTES: usize = 4 << 20;
/// Finished sessions that are retained.
const MAX_FINISHED_SESSIONS: i64 = 10_000;
/// Maximum number of runs that a record lists.
const MAX_LISTED_RUNS: usize = 1000;
/// Maximum page size of a list.
const MAX_PAGE_SIZE: u32 = 1000;
/// The lane of submissions.
const SUBMIT_LANE: &str = "";
/// Minimum number of id digits in a search.
const MIN_ID_DIGITS: usize = 4;

/// A session to submit.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Id drawn by the client: submitting the same id again returns the same session.
    pub id: SessionId,
    /// Display name.
    pub name: String,
    pub asker: SessionRequester,
    /// The job of the session, if the interface has jobs.
    pub job: Option<String>,
    /// Id or name of the target device.
    pub device: Option<String>,
    pub file: serde_json::Value,
    /// Base folder of relative paths.
    pub folder: Option<String>,
}

/// Filter of a list of sessions.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    pub state: Option<SessionState>,
    /// The job that submitted it.
    pub job: Option<String>,
    /// Upper bound (exclusive) of the number.
    pub before: Option<u64>,
    /// Page size; 0 means 100.
    pub limit: u32,
}

/// A running session and the processes that work on it.
#[derive(Debug, Clone)]
pub struct ClaimedSession {
    pub session: Record,
    /// The worker process; `None` if its record cannot be parsed, so that it cannot be checked.
    pub owner: Option<OwnerProcess>,
    /// The measuring process, once it has started.
    pub child: Option<OwnerProcess>,
    held_by: String,
}

/// Result of a session.
#[derive(Debug, Clone)]
pub struct SessionEnd {
    /// The new state.
    pub state: SessionState,
    /// Exit code of the measuring process.
    pub exit_code: Option<i32>,
    pub reason: Option<String>,
}

impl SessionEnd {
    pub(super) fn apply_to(&self, record: &mut Record, now: UtcTimestamp) {
        record.state = self.state;
        record.ended = Some(now);
        record.exit_code = self.exit_code;
        record.reason.clone_from(&self.reason);
    }
}

/// Outcome of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It was queued and is removed from the queue.
    Removed,
    /// It is running; the worker is notified.
    WorkerNotified,
    /// It was already over.
    AlreadyOver,
}

impl RecordStore {
    /// Adds a session to the end of the queue, if fewer than `most` are queued.
    pub fn add_session(&self, new: &NewSession, most: u64) -> Result<Record, Error> {
        let asked = UtcTimestamp::now();
        self.write_transaction("adding a session", |session| {
            if let Some(known) = self.read_session(session, "id = ?1", hex_id(new.id.as_bytes()).into())? {
                return Ok(known);
            }
            lock_lane(session, SUBMIT_LANE)?;
            let waiting = waiting_sessions(session)?;
            if waiting.len() as u64 >= most {
                return Err(Error::QueueFull { waiting: waiting.len() as u64, most });
            }
            let number = next_session_number(session)?;
            let record = Record {
                schema: RecordSchema::new(),
                id: new.id,
                number: number.max(0) as u64,
                state: SessionState::Queued,
                position: None,
                name: new.name.chars().take(200).collect(),
                asker: new.asker.clone(),
                job: new.job.clone(),
                device: new.device.clone(),
                measured_by: None,
                file: new.file.clone(),
                folder: new.folder.clone(),
                asked,
                started: None,
                ended: None,
                batch: BatchId::new(),
                runs: Vec::new(),
                exit_code: None,
                reason: None,
                turns: 0,
                extra: ExtraFields::new(),
            };
            let sql = "INSERT INTO session (id, number, state, device, job, cancel, record, sum) \
                       VALUES (?1, ?2, 'queued', ?3, ?4, 0, ?5, ?6)";
            let json = session_json(&record)?;
            let sum = row_sum(&[json.as_bytes()]);
            let values: [SqlValue<'_>; 6] = [
                hex_id(new.id.as_bytes()).into(),
                number.into(),
                new.device.as_deref().map(to_index_text).into(),
                new.job.as_deref().map(to_index_text).into(),
                json.into(),
                sum.into(),
            ];
            session.execute(sql, &values)?;
            let old = "DELETE FROM session WHERE number <= ?1 AND state NOT IN ('queued', 'running')";
            session.execute(old, &[(number - MAX_FINISHED_SESSIONS).into()])?;
            self.read_session(session, "id = ?1", hex_id(new.id.as_bytes()).into())?
                .ok_or_else(|| self.session_not_found(&new.id.to_string()))
        })
    }

    /// The session with this id.
    pub fn session(&self, id: SessionId) -> Result<Option<Record>, Error> {
        self.read_transaction("reading a session", |session| {
            self.read_session(session, "id = ?1", hex_id(id.as_bytes()).into())
        })
    }

    /// The session with this number.
    pub fn session_by_number(&self, number: u64) -> Result<Option<Record>, Error> {
        let Ok(number) = i64::try_from(number) else { return Ok(None) };
        self.read_transaction("reading a session", |session| {
            self.read_session(session, "number = ?1", number.into())
        })
    }

    /// Finds a session by its number, its id, the first or last 4 or more digits of the id, or
    /// `last`.
    pub fn find_session(&self, text: &str) -> Result<Record, Error> {
        let text = text.trim();
        if let Ok(number) = text.trim_start_matches('#').parse::<u64>()
            && let Some(found) = self.session_by_number(number)?
        {
            return Ok(found);
        }
        let digits: String = text.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
        let is_digits =
            digits.chars().all(|c| c.is_ascii_hexdigit()) && (MIN_ID_DIGITS..=32).contains(&digits.len());
        let found = self.read_transaction("looking for a session", |session| match text {
            "last" => session.query_rows("SELECT id FROM session ORDER BY number DESC LIMIT 1", &[]),
            _ if is_digits => {
                let sql =
                    "SELECT id FROM session WHERE id LIKE ?1 OR id LIKE ?2 ORDER BY number DESC LIMIT 11";
                session.query_rows(sql, &[format!("{digits}%").into(), format!("%{digits}").into()])
            }
            _ => Ok(Vec::new()),
        })?;
        let mut ids: Vec<String> = found.into_iter().map(|mut row| row.next_text()).collect();
        match (ids.pop(), ids.is_empty()) {
            (Some(id), true) => self
                .read_transaction("reading a session", |session| {
                    self.read_session(session, "id = ?1", (&id).into())
                })?
                .ok_or_else(|| self.session_not_found(text)),
            (Some(id), false) => {
                ids.push(id);
                let got = format!("{text:?}, which fits {}", ids.join(", "));
                Err(Error::Refused { what: "id of a session", got, want: "more of its digits".to_string() })
            }
            (None, _) => Err(self.session_not_found(text)),
        }
    }

    /// Sessions that match a filter, newest first.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Record>, Error> {
        let limit = match filter.limit {
            0 => 100,
            limit if limit <= MAX_PAGE_SIZE => i64::from(limit),
            limit => {
                let want = format!("1 to {MAX_PAGE_SIZE}");
                return Err(Error::Refused { what: "limit", got: limit.to_string(), want });
            }
        };
        let before = filter.before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
        let mut sql = "SELECT id, record FROM session WHERE number < ?1".to_string();
        let mut texts = Vec::new();
        if let Some(state) = filter.state {
            texts.push(state.word().to_string());
            sql.push_str(" AND state = ?2");
        }
        if let Some(job) = &filter.job {
            texts.push(to_index_text(job));
            sql.push_str(&format!(" AND job = ?{}", texts.len() + 1));
        }
        sql.push_str(&format!(" ORDER BY number DESC LIMIT ?{}", texts.len() + 2));
        self.read_transaction("listing sessions", |session| {
            let mut values: Vec<SqlValue<'_>> = vec![before.into()];
            values.extend(texts.iter().map(SqlValue::from));
            values.push(limit.into());
            let rows = session.query_rows(&sql, &values)?;
            let waiting = waiting_sessions(session)?;
            rows.into_iter().map(|row| self.parse_with_position(row, &waiting)).collect()
        })
    }

    /// Number of sessions in each state.
    pub fn session_counts(&self) -> Result<Vec<(SessionState, u64)>, Error> {
        let rows = self.read_transaction("counting sessions", |session| {
            session.query_rows("SELECT state, count(*) FROM session GROUP BY state", &[])
        })?;
        let counted: Vec<(String, u64)> =
            rows.into_iter().map(|mut row| (row.next_text(), row.next_int().max(0) as u64)).collect();
        let of = |state: SessionState| {
            counted.iter().find(|(word, _)| word == state.word()).map_or(0, |(_, count)| *count)
        };
        Ok(SessionState::ALL.into_iter().map(|state| (state, of(state))).collect())
    }

    /// Claims the next session for a device; `None` if none is queued or the device has an active
    /// one.
    pub fn claim_session(&self, device: &DeviceRef, owner: &OwnerProcess) -> Result<Option<Record>, Error> {
        let worker = to_index_text(device.id.as_str());
        let owner = owner_json(owner)?;
        let now = UtcTimestamp::now();
        self.write_transaction("taking a session", |session| {
            lock_lane(session, &worker)?;
            let held = "SELECT id, record, owner, child FROM session WHERE worker = ?1";
            if let Some(mut row) = session.query_row(held, &[(&worker).into()])? {
                let (id, json, held_by) = (row.next_text(), row.next_text(), row.next_text());
                // Own session that has not started: this call is repeated after its commit.
                let is_ours = held_by == owner && row.next_optional_text().is_none();
                return if is_ours { self.parse_session(&id, &json).map(Some) } else { Ok(None) };
            }
            let next = "SELECT id, record FROM session WHERE state = 'queued' \
                        AND (device IS NULL OR device = ?1 OR device = ?2) ORDER BY number LIMIT 1";
            let Some(mut row) = session.query_row(next, &[(&worker).into(), to_index_text(&device.name).into()])? else {
                return Ok(None);
            };
            let mut record = self.parse_session(&row.next_text(), &row.next_text())?;
            record.state = SessionState::Running;
            record.started = Some(now);
            record.measured_by = Some(device.clone());
            record.reason = None;
            record.turns += 1;
            let sql = "UPDATE session SET state = 'running', worker = ?1, owner = ?2, child = NULL, record = ?3, sum = ?5 \
                       WHERE id = ?4 AND state = 'queued'";
            let json = session_json(&record)?;
            let sum = row_sum(&[json.as_bytes()]);
            let id = hex_id(record.id.as_bytes());
            let values = [(&worker).into(), (&owner).into(), json.into(), id.into(), sum.into()];
            // It may have been cancelled or claimed by another device in the meantime.
            Ok((session.execute(sql, &values)? == 1).then_some(record))
        })
    }

    /// Records the process that measures a running session.
    pub fn begin_session(
        &self,
        id: SessionId,
        owner: &OwnerProcess,
        child: &OwnerProcess,
    ) -> Result<bool, Error> {
        let (owner, child) = (owner_json(owner)?, owner_json(child)?);
        self.write_transaction("recording the start of a session", |session| {
            let sql = "UPDATE session SET child = ?1 WHERE id = ?2 AND state = 'running' AND owner = ?3";
            let changed =
                session.execute(sql, &[(&child).into(), hex_id(id.as_bytes()).into(), (&owner).into()])?;
            Ok(changed == 1)
        })
    }

    /// Whether cancellation of a session was requested.
    pub fn is_cancel_requested(&self, id: SessionId) -> Result<bool, Error> {
        let row = self.read_transaction("looking whether a session is wanted", |session| {
            session.query_row("SELECT cancel FROM session WHERE id = ?1", &[hex_id(id.as_bytes()).into()])
        })?;
        Ok(row.is_some_and(|mut row| row.next_int() != 0))
    }

    /// Cancels a session: a queued one at once, a running one through its worker.
    pub fn cancel_session(&self, id: SessionId, by: &str) -> Result<CancelOutcome, Error> {
        let now = UtcTimestamp::now();
        self.write_transaction("cancelling a session", |session| {
            // This update locks the row, so a claim at the same moment comes before or after, not
            // in between.
            let flag = "UPDATE session SET cancel = 1 WHERE id = ?1";
            if session.execute(flag, &[hex_id(id.as_bytes()).into()])? == 0 {
                return Err(self.session_not_found(&id.to_string()));
            }
            let mut record = self
                .read_session(session, "id = ?1", hex_id(id.as_bytes()).into())?
                .ok_or_else(|| self.session_not_found(&id.to_string()))?;
            match record.state {
                SessionState::Running => return Ok(CancelOutcome::WorkerNotified),
                state if state.is_over() => return Ok(CancelOutcome::AlreadyOver),
                _ => {}
            }
            record.state = SessionState::Cancelled;
            record.ended = Some(now);
            record.reason = Some(format!("cancelled {by} before its turn came"));
            replace_session(session, &mut record)?;
            Ok(CancelOutcome::Removed)
        })
    }

    /// Records the runs that a session has made so far.
    pub fn set_session_runs(&self, id: SessionId, runs: &[RunId]) -> Result<(), Error> {
        self.write_transaction("recording the runs of a session", |session| {
            let Some(mut row) = session
                .query_row("SELECT record FROM session WHERE id = ?1", &[hex_id(id.as_bytes()).into()])?
            else {
                return Ok(());
            };
            let mut record = self.parse_session(&id.to_string(), &row.next_text())?;
            record.runs = runs.iter().copied().take(MAX_LISTED_RUNS).collect();
            let sql = "UPDATE session SET record = ?1, sum = ?3 WHERE id = ?2";
            let json = session_json(&record)?;
            let sum = row_sum(&[json.as_bytes()]);
            session.execute(sql, &[json.into(), hex_id(id.as_bytes()).into(), sum.into()]).map(|_| ())
        })
    }

    /// The runs that a session has made so far, oldest first.
    pub fn runs_of_session(&self, session: &Record) -> Result<Vec<RunId>, Error> {
        runs_of_batch(self, session.batch)
    }

    /// Ends a session of this owner. Returns `false` if the owner no longer holds it.
    pub fn end_session(&self, id: SessionId, owner: &OwnerProcess, end: &SessionEnd) -> Result<bool, Error> {
        self.settle_session(id, &owner_json(owner)?, |record, now| end.apply_to(record, now))
    }

    /// Sessions that are marked as running on a device.
    pub fn claimed_sessions(&self, host: &str) -> Result<Vec<ClaimedSession>, Error> {
        let rows = self.read_transaction("looking for sessions that run", |session| {
            let sql = "SELECT id, record, owner, child FROM session WHERE worker = ?1";
            session.query_rows(sql, &[to_index_text(host).into()])
        })?;
        rows.into_iter()
            .map(|mut row| {
                let (id, json, held_by) = (row.next_text(), row.next_text(), row.next_text());
                let child = row.next_optional_text().and_then(|text| serde_json::from_str(&text).ok());
                let session = self.parse_session(&id, &json)?;
                Ok(ClaimedSession { session, owner: serde_json::from_str(&held_by).ok(), child, held_by })
            })
            .collect()
    }

    /// Settles a session whose worker is gone. It returns to its place in the queue if its run had
    /// not started and this was its first turn; otherwise it is over. Returns `false` if it ended
    /// or was settled meanwhile.
    pub fn release_session(&self, held: &ClaimedSession, has_begun: bool) -> Result<bool, Error> {
        let is_unwanted = self.is_cancel_requested(held.session.id)?;
        let again = !has_begun && held.session.turns <= 1;
        self.settle_session(held.session.id, &held.held_by, |record, now| {
            if is_unwanted {
                record.state = SessionState::Cancelled;
                record.ended = Some(now);
                record.reason = Some("cancelled, and its worker went away".to_string());
            } else if again {
                record.state = SessionState::Queued;
                record.started = None;
                record.measured_by = None;
                record.reason =
                    Some("its worker went away before the run had begun; it waits again".to_string());
            } else {
                record.state = SessionState::Interrupted;
                record.ended = Some(now);
                record.reason = Some("its worker went away while it ran".to_string());
            }
        })
    }

    fn settle_session(
        &self,
        id: SessionId,
        held_by: &str,
        change: impl Fn(&mut Record, UtcTimestamp),
    ) -> Result<bool, Error> {
        let now = UtcTimestamp::now();
        self.write_transaction("recording the end of a session", |session| {
            let sql = "SELECT record FROM session WHERE id = ?1 AND state = 'running' AND owner = ?2";
            let Some(mut row) = session.query_row(sql, &[hex_id(id.as_bytes()).into(), held_by.into()])?
            else {
                return Ok(false);
            };
            let mut record = self.parse_session(&id.to_string(), &row.next_text())?;
            change(&mut record, now);
            replace_session(session, &mut record)?;
            Ok(true)
        })
    }

    /// Stores a part of a session's output; `part` ascends.
    pub fn append_session_log(&self, id: SessionId, part: u32, content: &[u8]) -> Result<(), Error> {
        self.write_transaction("keeping the log of a session", |session| {
            insert_log_part(session, id, part, content)
        })
    }

    /// The output of a session from a part on, and the number of the next part.
    pub fn session_log(&self, id: SessionId, from: u32) -> Result<(Vec<u8>, u32), Error> {
        let rows = self.read_transaction("reading the log of a session", |session| {
            let sql = "SELECT part, content FROM session_log WHERE session = ?1 AND part >= ?2 ORDER BY part";
            session.query_rows(sql, &[hex_id(id.as_bytes()).into(), i64::from(from).into()])
        })?;
        let (mut text, mut next) = (Vec::new(), from);
        for mut row in rows {
            next = u32::try_from(row.next_int()).unwrap_or(u32::MAX).saturating_add(1);
            text.extend(row.next_blob());
        }
        Ok((text, next))
    }

    fn read_session(
        &self,
        session: &mut dyn SqlTransaction,
        which: &'static str,
        value: SqlValue<'_>,
    ) -> Result<Option<Record>, Error> {
        let sql = format!("SELECT id, record FROM session WHERE {which}");
        let Some(row) = session.query_row(&sql, &[value])? else { return Ok(None) };
        let waiting = waiting_sessions(session)?;
        self.parse_with_position(row, &waiting).map(Some)
    }

    /// Parses a record and computes its position in the queue.
    fn parse_with_position(
        &self,
        mut row: SqlRow,
        waiting: &[(i64, Option<String>)],
    ) -> Result<Record, Error> {
        let mut record = self.parse_session(&row.next_text(), &row.next_text())?;
        record.position = (record.state == SessionState::Queued).then(|| {
            let own = record.device.as_deref().map(to_index_text);
            let before = |(number, device): &&(i64, Option<String>)| {
                (*number as u64) < record.number && (device.is_none() || own.is_none() || *device == own)
            };
            1 + waiting.iter().filter(before).count() as u64
        });
        Ok(record)
    }

    fn parse_session(&self, id: &str, json: &str) -> Result<Record, Error> {
        serde_json::from_str(json).map_err(|error| self.record_error("session", id, error))
    }

    fn session_not_found(&self, text: &str) -> Error {
        Error::NoSession { store: self.name(), text: text.chars().take(200).collect() }
    }
}

pub(super) fn insert_log_part(
    session: &mut dyn SqlTransaction,
    id: SessionId,
    part: u32,
    content: &[u8],
) -> Result<(), Error> {
    let sql = "INSERT INTO session_log (session, part, content, sum) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT DO NOTHING";
    let sum = row_sum(&[content]).into();
    session
        .execute(sql, &[hex_id(id.as_bytes()).into(), i64::from(part).into(), content.into(), sum])
        .map(|_| ())
}

/// The runs of a batch, oldest first, as a session lists them.
pub(super) fn runs_of_batch(store: &RecordStore, batch: BatchId) -> Result<Vec<RunId>, Error> {
    let filter =
        RunFilter { batch: Some(batch), warmup: true, limit: MAX_LISTED_RUNS as u32, ..RunFilter::default() };
    let mut runs: Vec<RunId> = store.runs(&filter)?.runs.iter().map(|run| run.id).collect();
    runs.reverse();
    Ok(runs)
}

/// Locks the lane, so that transactions in it run one after the other.
fn lock_lane(session: &mut dyn SqlTransaction, lane: &str) -> Result<(), Error> {
    let sql = "INSERT INTO session_lane (lane, used, last) VALUES (?1, ?2, 0) \
               ON CONFLICT (lane) DO UPDATE SET used = excluded.used";
    session.execute(sql, &[lane.into(), to_microseconds(UtcTimestamp::now()).into()]).map(|_| ())
}

/// The next number; the caller must hold the lane. It is stored apart from the sessions, because
/// these may be deleted.
fn next_session_number(session: &mut dyn SqlTransaction) -> Result<i64, Error> {
    session.execute("UPDATE session_lane SET last = last + 1 WHERE lane = ?1", &[SUBMIT_LANE.into()])?;
    let row = session.query_row("SELECT last FROM session_lane WHERE lane = ?1", &[SUBMIT_LANE.into()])?;
    Ok(row.map_or(1, |mut row| row.next_int()))
}

/// Number and device of all queued sessions; the queue limit keeps them few.
fn waiting_sessions(session: &mut dyn SqlTransaction) -> Result<Vec<(i64, Option<String>)>, Error> {
    let rows = session
        .query_rows("SELECT number, device FROM session WHERE state = 'queued' ORDER BY number", &[])?;
    Ok(rows.into_iter().map(|mut row| (row.next_int(), row.next_optional_text())).collect())
}

/// Writes a record and clears its worker.
pub(super) fn replace_session(session: &mut dyn SqlTransaction, record: &mut Record) -> Result<(), Error> {
    record.position = None;
    let sql = "UPDATE session SET state = ?1, record = ?2, worker = NULL, owner = NULL, child = NULL, \
               sum = ?4 WHERE id = ?3";
    let json = session_json(record)?;
    let sum = row_sum(&[json.as_bytes()]);
    let values = [record.state.word().into(), json.into(), hex_id(record.id.as_bytes()).into(), sum.into()];
    session.execute(sql, &values).map(|_| ())
}

pub(super) fn owner_json(owner: &OwnerProcess) -> Result<String, Error> {
    let refused = |error: serde_json::Error| Error::Refused {
        what: "owner of a session",
        got: error.to_string(),
        want: "texts and numbers".to_string(),
    };
    serde_json::to_string(owner).map_err(refused)
}

/// The JSON of a record. It never contains a NUL, which PostgreSQL rejects: JSON escapes it as
/// `\u0000`.
pub(super) fn session_json(record: &Record) -> Result<String, Error> {
    let refused = |got: String, want: &str| {
        Err(Error::Refused { what: "record of a session", got, want: want.to_string() })
    };
    match serde_json::to_string(record) {
        Ok(json) if json.len() <= MAX_RECORD_BYTES => Ok(json),
        Ok(json) => refused(format!("{} bytes", json.len()), "at most 4 MiB"),
        Err(error) => refused(error.to_string(), "fields that JSON can hold"),
    }
}
