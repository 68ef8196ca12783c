//! Runs: start, end, import and removal.

use metier_types::{ArtefactRef, BatchId, ExitCause, Run, RunExit, RunId, RunState, RunWarning, Series};
use serde::Deserialize;

use super::{RecordStore, hex_id, to_index_text, to_microseconds};
use crate::codec::row_sum;
use crate::engine::{SqlTransaction, SqlValue};
use crate::run_filter::{command_line, search_text};
use crate::{Error, OwnerProcess};

/// A run record has a few kB; a larger one is a mistake or an attack.
const MAX_RECORD_BYTES: usize = 16 << 20;

impl RecordStore {
    /// Records that a run is active, and the process that measures it. Its workload and device are
    /// stored by [`RecordStore::put_workload`] and [`RecordStore::put_device`], in any order.
    /// Repeating the call changes nothing.
    pub fn begin_run(&self, run: &Run, owner: &OwnerProcess) -> Result<(), Error> {
        if run.state != RunState::Running {
            return Err(state_error("running", run.state));
        }
        let json = self.to_checked_json(run)?;
        self.write_transaction("recording the start of a run", |session| {
            if self.insert_run(session, run, &json, Some(owner))?
                || stored_run_json(session, run.id)?.is_some_and(|was| was == json)
            {
                return Ok(());
            }
            Err(Error::Conflict { store: self.name(), run: run.id })
        })
    }

    /// Replaces the record of a run that ended, merges its chunks into blocks and clears its owner,
    /// in one transaction. Artefacts that were linked during the run stay.
    pub fn finish_run(&self, run: &Run) -> Result<(), Error> {
        if run.state == RunState::Running {
            return Err(state_error("finished or interrupted", run.state));
        }
        let json = self.to_checked_json(run)?;
        let compacted = self.write_transaction("recording the end of a run", |session| {
            let was = stored_run_json(session, run.id)?.ok_or_else(|| self.run_not_found(run.id))?;
            self.replace_begun(session, run, &json, &was)?;
            self.compact_chunks(session, run.id)
        })?;
        if compacted {
            self.reclaim_space();
        }
        Ok(())
    }

    /// Imports a whole run. Returns `false` if an equal run is already stored.
    pub fn put_run(&self, run: &Run, series: &[Series]) -> Result<bool, Error> {
        let json = self.to_checked_json(run)?;
        self.check_series(run.id, series)?;
        let mut names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let (got, want) = (format!("{:?} twice", pair[0]), "each series once".to_string());
            return Err(Error::Refused { what: "series of a run", got, want });
        }
        self.write_transaction("importing a run", |session| {
            if !self.insert_run(session, run, &json, None)? {
                let was = stored_run_json(session, run.id)?.ok_or_else(|| self.run_not_found(run.id))?;
                let is_same =
                    self.parse_run(run.id, &was)? == *run && self.has_same_series(session, run.id, series)?;
                return if is_same {
                    Ok(false)
                } else {
                    Err(Error::Conflict { store: self.name(), run: run.id })
                };
            }
            for series in series {
                self.write_blocks(session, series, 0)?;
            }
            Ok(true)
        })
    }

    /// The run with this id.
    pub fn run(&self, id: RunId) -> Result<Option<Run>, Error> {
        let json = self.read_transaction("reading a run", |session| stored_run_json(session, id))?;
        json.map(|json| self.parse_run(id, &json)).transpose()
    }

    /// All runs of a batch, oldest first.
    pub fn batch(&self, id: BatchId) -> Result<Vec<Run>, Error> {
        let rows = self.read_transaction("reading a batch", |session| {
            let batch = hex_id(id.as_bytes());
            session.query_rows(
                "SELECT id, record FROM run WHERE batch = ?1 ORDER BY started, id",
                &[batch.into()],
            )
        })?;
        rows.into_iter()
            .map(|mut row| {
                let (id, json) = (row.next_text(), row.next_text());
                serde_json::from_str(&json).map_err(|error| self.record_error("run", id, error))
            })
            .collect()
    }

    /// Removes a run, its series, and artefacts that no other run links. Returns `false` if there
    /// is no such run.
    pub fn delete_run(&self, id: RunId) -> Result<bool, Error> {
        let found = self.write_transaction("removing a run", |session| {
            let run = hex_id(id.as_bytes());
            let rows =
                session.query_rows("SELECT digest FROM run_artefact WHERE run = ?1", &[(&run).into()])?;
            let digests: Vec<String> = rows.into_iter().map(|mut row| row.next_text()).collect();
            let found = session.execute("DELETE FROM run WHERE id = ?1", &[(&run).into()])? > 0;
            if found {
                self.delete_unused_artefacts(session, &digests)?;
            }
            Ok(found)
        })?;
        if found {
            self.reclaim_space();
        }
        Ok(found)
    }

    /// Marks active runs whose owner process is gone as interrupted, compacts their series and
    /// returns their ids. Only runs with `owner.host` equal to `host` are checked: only the
    /// measuring device can see its processes. An owner of an earlier boot is gone; `is_alive` must
    /// compare the boot id. If a run cannot be marked, the error is returned after all other runs
    /// are processed.
    pub fn mark_interrupted_runs(
        &self,
        host: &str,
        is_alive: &dyn Fn(&OwnerProcess) -> bool,
    ) -> Result<Vec<RunId>, Error> {
        let host = to_index_text(host);
        let rows = self.read_transaction("looking for interrupted runs", |session| {
            let sql =
                "SELECT id, owner FROM run WHERE owner_host = ?1 AND state = 'running' ORDER BY started";
            session.query_rows(sql, &[(&host).into()])
        })?;
        let mut swept = Vec::new();
        let mut problem = None;
        for mut row in rows {
            let (id, owner) = (row.next_text(), row.next_text());
            let id: RunId = id.parse().map_err(|error| self.record_error("run", &id, error))?;
            // An owner that cannot be parsed can never be checked: its run is lost too.
            if serde_json::from_str(&owner).is_ok_and(|owner| is_alive(&owner)) {
                continue;
            }
            match self.mark_interrupted(id, &owner) {
                Ok(true) => swept.push(id),
                Ok(false) => {}
                // An error of one run must not stop the others.
                Err(error) => {
                    problem.get_or_insert(error);
                }
            }
        }
        if !swept.is_empty() {
            self.reclaim_space();
        }
        problem.map_or(Ok(swept), Err)
    }

    /// Returns `false` if the run ended, or another process marked it, since it was listed.
    pub(super) fn mark_interrupted(&self, id: RunId, owner: &str) -> Result<bool, Error> {
        self.write_transaction("marking a run as interrupted", |session| {
            let sql = "SELECT record FROM run WHERE id = ?1 AND state = 'running' AND owner = ?2";
            let Some(mut row) = session.query_row(sql, &[hex_id(id.as_bytes()).into(), owner.into()])? else {
                return Ok(false);
            };
            let run = interrupted_run(self.parse_run(id, &row.next_text())?);
            self.update_run(session, &run, &self.to_checked_json(&run)?)?;
            self.compact_chunks(session, id)?;
            Ok(true)
        })
    }

    /// Serialises a run and checks that it can be read back: an unreadable record would break every
    /// list.
    pub(super) fn to_checked_json(&self, run: &Run) -> Result<String, Error> {
        let refused = |got: String, want: &str| {
            Err(Error::Refused { what: "record of a run", got, want: want.to_string() })
        };
        let json = match serde_json::to_string(run) {
            Ok(json) => json,
            Err(error) => return refused(error.to_string(), "fields that JSON can hold"),
        };
        if json.len() > MAX_RECORD_BYTES {
            return refused(format!("{} bytes", json.len()), "at most 16 MiB");
        }
        match serde_json::from_str::<Run>(&json) {
            Ok(_) => Ok(json),
            Err(error) => refused(error.to_string(), "only finite numbers where a number is required"),
        }
    }

    pub(super) fn parse_run(&self, id: RunId, json: &str) -> Result<Run, Error> {
        serde_json::from_str(json).map_err(|error| self.record_error("run", id, error))
    }

    /// Returns `false` if the id is in use.
    pub(super) fn insert_run(
        &self,
        session: &mut dyn SqlTransaction,
        run: &Run,
        json: &str,
        owner: Option<&OwnerProcess>,
    ) -> Result<bool, Error> {
        let sql = "INSERT INTO run (batch, workload, workload_name, device, device_name, state, cause, started, \
                   warmup, search, owner_host, owner, record, id, sum) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT (id) DO NOTHING";
        if session.execute(sql, &run_columns(run, json, owner))? == 0 {
            return Ok(false);
        }
        write_tags(session, run)?;
        write_artefacts(session, run)?;
        Ok(true)
    }

    /// Replaces the record of a begun run by that of its end. Artefacts that were linked meanwhile
    /// stay.
    pub(super) fn replace_begun(
        &self,
        session: &mut dyn SqlTransaction,
        run: &Run,
        json: &str,
        was: &str,
    ) -> Result<(), Error> {
        let linked = parse_artefacts(was);
        if linked.iter().all(|artefact_ref| run.artefacts.contains(artefact_ref)) {
            return self.update_run(session, run, json);
        }
        let mut run = run.clone();
        for artefact in linked {
            if run.artefacts.iter().all(|other| other.name != artefact.name) {
                run.artefacts.push(artefact);
            }
        }
        self.update_run(session, &run, &self.to_checked_json(&run)?)
    }

    /// Replaces the record and clears the owner.
    pub(super) fn update_run(
        &self,
        session: &mut dyn SqlTransaction,
        run: &Run,
        json: &str,
    ) -> Result<(), Error> {
        let sql = "UPDATE run SET batch = ?1, workload = ?2, workload_name = ?3, device = ?4, device_name = ?5, \
                   state = ?6, cause = ?7, started = ?8, warmup = ?9, search = ?10, owner_host = ?11, owner = ?12, \
                   record = ?13, sum = ?15 WHERE id = ?14";
        session.execute(sql, &run_columns(run, json, None))?;
        let id = hex_id(run.id.as_bytes());
        session.execute("DELETE FROM tag WHERE run = ?1", &[(&id).into()])?;
        write_tags(session, run)?;
        session.execute("DELETE FROM run_artefact WHERE run = ?1", &[(&id).into()])?;
        write_artefacts(session, run)
    }

    /// Replaces the record of a run in any state; the owner stays.
    pub(super) fn replace_record(&self, session: &mut dyn SqlTransaction, run: &Run) -> Result<(), Error> {
        let json = self.to_checked_json(run)?;
        let id = hex_id(run.id.as_bytes());
        let sum = row_sum(&[json.as_bytes()]);
        let sql = "UPDATE run SET record = ?1, sum = ?3 WHERE id = ?2";
        session.execute(sql, &[json.into(), (&id).into(), sum.into()])?;
        session.execute("DELETE FROM run_artefact WHERE run = ?1", &[(&id).into()])?;
        write_artefacts(session, run)
    }
}

/// A run whose measuring process is gone.
pub(super) fn interrupted_run(mut run: Run) -> Run {
    run.state = RunState::Interrupted;
    run.exit = Some(RunExit::from_cause(ExitCause::Lost));
    run.warnings.push(RunWarning::new(
        "interrupted",
        "the measuring program went away before the end of the run; only what it had written is here",
    ));
    run
}

fn state_error(want: &str, got: RunState) -> Error {
    Error::Refused { what: "state of the run", got: got.word().to_string(), want: want.to_string() }
}

/// The JSON of a stored run.
pub(super) fn stored_run_json(session: &mut dyn SqlTransaction, id: RunId) -> Result<Option<String>, Error> {
    let row = session.query_row("SELECT record FROM run WHERE id = ?1", &[hex_id(id.as_bytes()).into()])?;
    Ok(row.map(|mut row| row.next_text()))
}

fn parse_artefacts(json: &str) -> Vec<ArtefactRef> {
    #[derive(Deserialize)]
    struct ArtefactList {
        #[serde(default)]
        artefacts: Vec<ArtefactRef>,
    }
    serde_json::from_str::<ArtefactList>(json).map(|part| part.artefacts).unwrap_or_default()
}

pub(super) fn run_columns<'a>(run: &Run, json: &'a str, owner: Option<&OwnerProcess>) -> [SqlValue<'a>; 15] {
    [
        hex_id(run.batch.as_bytes()).into(),
        to_index_text(run.workload.id.as_str()).into(),
        to_index_text(&run.workload.name).into(),
        to_index_text(run.device.id.as_str()).into(),
        to_index_text(&run.device.name).into(),
        run.state.word().into(),
        run.exit.as_ref().map(|exit| exit.cause.word()).into(),
        to_microseconds(run.started).into(),
        i64::from(run.context.warmup).into(),
        search_text(&format!("{} {}", run.id, run.workload.name), &command_line(&run.context.command)).into(),
        owner.map(|owner| to_index_text(&owner.host)).into(),
        owner.and_then(|owner| serde_json::to_string(owner).ok()).into(),
        json.into(),
        hex_id(run.id.as_bytes()).into(),
        row_sum(&[json.as_bytes()]).into(),
    ]
}

fn write_tags(session: &mut dyn SqlTransaction, run: &Run) -> Result<(), Error> {
    for tag in &run.tags {
        let sql = "INSERT INTO tag (run, tag) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        session.execute(sql, &[hex_id(run.id.as_bytes()).into(), to_index_text(tag).into()])?;
    }
    Ok(())
}

fn write_artefacts(session: &mut dyn SqlTransaction, run: &Run) -> Result<(), Error> {
    for artefact in &run.artefacts {
        let sql = "INSERT INTO run_artefact (run, name, digest) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        let digest = artefact.digest.to_string();
        session.execute(
            sql,
            &[hex_id(run.id.as_bytes()).into(), to_index_text(&artefact.name).into(), digest.into()],
        )?;
    }
    Ok(())
}
