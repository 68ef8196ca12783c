//! Checks everything in a store, and repairs what can be repaired without losing a measurement.
//!
//! A record, a session's output and the rows of caches have a checksum in their row; chunks and
//! blocks have one in their content; files are addressed by their digest. Columns to search by are
//! compared with their record. So a changed byte is found wherever a result could change. Rows that
//! an earlier version wrote have no checksum; they are counted.
//!
//! A repair writes columns again from an intact record, builds indexes again, removes rows without
//! their run and cached values, and marks runs without a process as interrupted. It never removes a
//! run, a series or a file.

mod records;
mod runs;

use std::collections::BTreeMap;

use metier_types::UtcTimestamp;
use metier_types::schema::{RecordSchema, VersionedRecord};
use serde::Serialize;

use super::{RecordStore, StoreEngine, lock_engine};
use crate::engine::{SqlCell, SqlRow, SqlValue};
use crate::{Error, OwnerProcess};

/// Findings that a report lists; more are counted.
const MAX_FINDINGS: usize = 1000;
/// Rows fetched per query.
const ROWS_PER_FETCH: i64 = 200;

/// Something that is wrong in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreFinding {
    /// The object, such as `run 0199… series "use"`.
    pub object: String,
    pub problem: String,
    /// What a repair does; `None` if the object cannot be repaired safely.
    pub repair: Option<String>,
    /// Whether that was done.
    pub repaired: bool,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreCheckReport {
    /// `metier.store-check/1`.
    pub schema: RecordSchema<StoreCheckReport>,
    /// Location of the store, without the password.
    pub store: String,
    pub checked_at: UtcTimestamp,
    /// Number of checked objects of each kind.
    pub checked: BTreeMap<&'static str, u64>,
    pub findings: Vec<StoreFinding>,
    /// Findings that are not listed.
    pub more: u64,
}

impl VersionedRecord for StoreCheckReport {
    const SCHEMA: &'static str = "metier.store-check/1";
}

impl StoreCheckReport {
    /// A report of a store at this location, without findings.
    pub fn new(store: String) -> Self {
        Self {
            schema: RecordSchema::new(),
            store,
            checked_at: UtcTimestamp::now(),
            checked: BTreeMap::new(),
            findings: Vec::new(),
            more: 0,
        }
    }

    /// Adds a finding that no repair mends.
    pub fn add_problem(&mut self, object: impl Into<String>, problem: impl ToString) {
        self.add(StoreFinding {
            object: object.into(),
            problem: problem.to_string(),
            repair: None,
            repaired: false,
        });
    }

    fn add(&mut self, finding: StoreFinding) {
        match self.findings.len() < MAX_FINDINGS {
            true => self.findings.push(finding),
            false => self.more += 1,
        }
    }

    /// Whether something is wrong that was not repaired.
    pub fn has_problems(&self) -> bool {
        self.more > 0 || self.findings.iter().any(|finding| !finding.repaired)
    }
}

impl RecordStore {
    /// Checks the whole store; repairs what is safe if `is_repairing`. `is_alive` tells whether the
    /// process of a run under way exists. A part that cannot be read is a finding, and the others
    /// are still checked.
    pub fn check(&self, is_repairing: bool, is_alive: &dyn Fn(&OwnerProcess) -> bool) -> StoreCheckReport {
        let report = StoreCheckReport::new(self.name());
        let mut checker = StoreChecker { store: self, is_repairing, is_alive, report };
        checker.check_all();
        checker.report
    }
}

struct StoreChecker<'a> {
    store: &'a RecordStore,
    is_repairing: bool,
    is_alive: &'a dyn Fn(&OwnerProcess) -> bool,
    report: StoreCheckReport,
}

impl StoreChecker<'_> {
    fn check_all(&mut self) {
        let parts = [
            ("database", self.check_database()),
            ("dangling rows", self.check_dangling_rows()),
            ("runs", self.check_runs()),
            ("series", self.check_pieces()),
            ("files", self.check_artefacts()),
            ("devices, workloads and passports", self.check_named_records()),
            ("sessions", self.check_sessions()),
            ("predictors", self.check_predictors()),
            ("trials and cached values", self.check_cached_rows()),
        ];
        for (part, checked) in parts {
            if let Err(error) = checked {
                self.problem(part, error);
            }
        }
    }

    fn count(&mut self, kind: &'static str) {
        *self.report.checked.entry(kind).or_default() += 1;
    }

    fn problem(&mut self, object: impl Into<String>, problem: impl ToString) {
        self.report.add_problem(object, problem);
    }

    /// Adds a finding, and repairs it if that was requested.
    fn repairable(
        &mut self,
        object: impl Into<String>,
        problem: impl Into<String>,
        repair: &str,
        mend: impl FnOnce(&RecordStore) -> Result<(), Error>,
    ) {
        let outcome = if self.is_repairing { mend(self.store).map(|()| true) } else { Ok(false) };
        let (problem, repaired) = match outcome {
            Ok(repaired) => (problem.into(), repaired),
            Err(error) => (format!("{}; the repair failed: {error}", problem.into()), false),
        };
        let repair = Some(repair.to_string());
        self.report.add(StoreFinding { object: object.into(), problem, repair, repaired });
    }

    /// Compares the checksum of a row. A row of an earlier version has none.
    fn is_sum_right(&mut self, sum: &SqlCell, parts: &[&[u8]]) -> bool {
        match sum {
            SqlCell::Int(sum) => *sum == crate::codec::row_sum(parts),
            SqlCell::Null => {
                self.count("rows without checksum");
                true
            }
            _ => false,
        }
    }

    /// Calls `each` for all rows of a query that ends with `LIMIT ?1 OFFSET ?2`.
    fn for_each_row(
        &mut self,
        sql: &str,
        mut each: impl FnMut(&mut Self, SqlRow) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut offset = 0;
        loop {
            let rows = self.store.read_transaction("checking", |session| {
                session.query_rows(sql, &[ROWS_PER_FETCH.into(), offset.into()])
            })?;
            let count = rows.len() as i64;
            for row in rows {
                each(self, row)?;
            }
            if count < ROWS_PER_FETCH {
                return Ok(());
            }
            offset += count;
        }
    }

    /// The engine's own check: pages, indexes, constraints, and the definitions of the tables.
    fn check_database(&mut self) -> Result<(), Error> {
        let StoreEngine::Sqlite(engine) = &self.store.shared.engine else { return Ok(()) };
        for problem in lock_engine(engine).find_schema_differences()? {
            self.problem("database", problem);
        }
        let before = lock_engine(engine).find_damage()?;
        let is_index = |problem: &String| problem.contains("index");
        let mut after = before.clone();
        if self.is_repairing && before.iter().any(is_index) && before.iter().all(is_index) {
            lock_engine(engine).rebuild_indexes()?;
            after = lock_engine(engine).find_damage()?;
        }
        for problem in before {
            let repaired = !after.contains(&problem);
            let repair = is_index(&problem).then(|| "builds all indexes again".to_string());
            self.report.add(StoreFinding { object: "database".to_string(), problem, repair, repaired });
        }
        Ok(())
    }

    /// Rows whose run or session is not there.
    fn check_dangling_rows(&mut self) -> Result<(), Error> {
        for (table, column, parent) in [
            ("tag", "run", "run"),
            ("chunk", "run", "run"),
            ("block", "run", "run"),
            ("run_artefact", "run", "run"),
            ("session_log", "session", "session"),
        ] {
            let dangling =
                format!("NOT EXISTS (SELECT 1 FROM {parent} WHERE {parent}.id = {table}.{column})");
            let sql = format!("SELECT count(*) FROM {table} WHERE {dangling}");
            let row = self.store.read_transaction("checking", |session| session.query_row(&sql, &[]))?;
            let count = row.map_or(0, |mut row| row.next_int());
            if count > 0 {
                let problem = format!("{count} rows belong to no {parent}");
                self.repairable(format!("table {table}"), problem, "removes these rows", |store| {
                    store.write_transaction("removing dangling rows", |session| {
                        session.execute(&format!("DELETE FROM {table} WHERE {dangling}"), &[]).map(|_| ())
                    })
                });
            }
        }
        Ok(())
    }
}

/// Whether a column holds a value.
fn holds(cell: &SqlCell, value: &SqlValue<'_>) -> bool {
    match (cell, value) {
        (SqlCell::Null, SqlValue::Null) => true,
        (SqlCell::Int(got), SqlValue::Int(want)) => got == want,
        (SqlCell::Text(got), SqlValue::Text(want)) => got == want,
        (SqlCell::Blob(got), SqlValue::Blob(want)) => got == want,
        _ => false,
    }
}
