//! Checks of runs: records, columns, tags, files and series.

use std::collections::BTreeSet;

use metier_types::{ContentDigest, Run, RunId, RunState};

use super::{StoreChecker, holds};
use crate::codec;
use crate::engine::{SqlCell, SqlValue};
use crate::store::runs::run_columns;
use crate::store::series::PIECE_LIMITS;
use crate::store::{RecordStore, hex_id, to_index_text};
use crate::{Error, OwnerProcess};

/// The columns of a run in the order of [`run_columns`].
const RUN_COLUMNS: [&str; 15] = [
    "batch",
    "workload",
    "workload_name",
    "device",
    "device_name",
    "state",
    "cause",
    "started",
    "warmup",
    "search",
    "owner_host",
    "owner",
    "record",
    "id",
    "sum",
];

impl StoreChecker<'_> {
    pub(super) fn check_runs(&mut self) -> Result<(), Error> {
        let sql = format!("SELECT {} FROM run ORDER BY id LIMIT ?1 OFFSET ?2", RUN_COLUMNS.join(", "));
        self.for_each_row(&sql, |this, mut row| {
            let cells: Vec<SqlCell> = RUN_COLUMNS.iter().map(|_| row.next_cell()).collect();
            let (Some(SqlCell::Text(record)), Some(SqlCell::Text(id))) = (cells.get(12), cells.get(13))
            else {
                this.problem("table run", "a row without record or id");
                return Ok(());
            };
            this.count("runs");
            let object = format!("run {id}");
            if cells.get(14).is_some_and(|sum| !this.is_sum_right(sum, &[record.as_bytes()])) {
                this.problem(object, "the checksum of its record is wrong");
                return Ok(());
            }
            match serde_json::from_str::<Run>(record) {
                Ok(run) => this.check_run(&object, &run, record, &cells),
                Err(error) => {
                    this.problem(object, format!("its record cannot be read: {error}"));
                    Ok(())
                }
            }
        })
    }

    fn check_run(&mut self, object: &str, run: &Run, record: &str, cells: &[SqlCell]) -> Result<(), Error> {
        let is_running = run.state == RunState::Running;
        let expected = run_columns(run, record, None);
        // The owner is only in its columns; the checksum was checked already.
        let is_compared = |name: &str| name != "sum" && !(is_running && name.starts_with("owner"));
        let differing: Vec<&str> = RUN_COLUMNS
            .iter()
            .zip(cells.iter().zip(&expected))
            .filter(|(name, (cell, value))| is_compared(name) && !holds(cell, value))
            .map(|(name, _)| *name)
            .collect();
        let tags: BTreeSet<String> = run.tags.iter().map(|tag| to_index_text(tag)).collect();
        let links: BTreeSet<(String, String)> =
            run.artefacts.iter().map(|file| (to_index_text(&file.name), file.digest.to_string())).collect();
        let (stored_tags, stored_links) = self.store.links_of(run.id)?;
        let mut wrong: Vec<String> = differing.iter().map(|name| format!("column {name}")).collect();
        wrong.extend((tags != stored_tags).then(|| "tags".to_string()));
        wrong.extend((links != stored_links).then(|| "links to files".to_string()));
        if differing.contains(&"id") {
            self.problem(object, format!("its record is that of run {}", run.id));
            return Ok(());
        }
        if !wrong.is_empty() && is_running {
            self.problem(object, format!("{} differ from its record", wrong.join(", ")));
        } else if !wrong.is_empty() {
            let problem = format!("{} differ from its record", wrong.join(", "));
            self.repairable(object, problem, "writes them again from the record", |store| {
                store.write_transaction("repairing a run", |session| store.update_run(session, run, record))
            });
        }
        for file in &run.artefacts {
            if !self.store.has_artefact(&file.digest)? {
                self.problem(object, format!("the content of its file {:?} is missing", file.name));
            }
        }
        if is_running {
            self.check_owner(object, run, cells);
        }
        Ok(())
    }

    fn check_owner(&mut self, object: &str, run: &Run, cells: &[SqlCell]) {
        let text = match cells.get(11) {
            Some(SqlCell::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let owner: Option<OwnerProcess> = serde_json::from_str(&text).ok();
        if owner.as_ref().is_some_and(self.is_alive) {
            return;
        }
        let problem = match owner {
            Some(owner) => format!("it is marked as running, but process {} is gone", owner.pid),
            None => "it is marked as running, but its process is not known".to_string(),
        };
        self.repairable(object, problem, "marks it as interrupted", |store| {
            store.mark_interrupted(run.id, &text).map(|_| ())
        });
    }

    /// Decodes every chunk and block. Columns of blocks must agree with their content.
    pub(super) fn check_pieces(&mut self) -> Result<(), Error> {
        let blocks = "SELECT run, series, part, rows, first_time, last_time, content FROM block \
                      ORDER BY run, series, part LIMIT ?1 OFFSET ?2";
        let mut previous: Option<(String, String, i64)> = None;
        self.for_each_row(blocks, |this, mut row| {
            let (run, series, part) = (row.next_text(), row.next_text(), row.next_int());
            let columns = (row.next_int(), row.next_int(), row.next_int());
            let object = format!("run {run} series {series:?} block {part}");
            this.count("blocks");
            if let Some(times) = this.decode_piece(&object, &run, &series, &row.next_blob()) {
                let ends = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
                let found = (times.len() as i64, ends.0, ends.1);
                if found != columns {
                    let (problem, repair) =
                        ("its columns differ from its content", "writes them again from the content");
                    this.repairable(&object, problem, repair, |store| {
                        store.set_block_columns(&run, &series, part, found)
                    });
                }
            }
            let follows = match &previous {
                Some((before_run, before_series, before))
                    if (before_run, before_series) == (&run, &series) =>
                {
                    part == before + 1
                }
                _ => part == 0,
            };
            if !follows {
                this.problem(&object, "a block before it is missing");
            }
            previous = Some((run, series, part));
            Ok(())
        })?;
        let chunks =
            "SELECT run, series, seq, content FROM chunk ORDER BY run, series, seq LIMIT ?1 OFFSET ?2";
        self.for_each_row(chunks, |this, mut row| {
            let (run, series, number) = (row.next_text(), row.next_text(), row.next_int());
            this.count("chunks");
            let object = format!("run {run} series {series:?} chunk {number}");
            this.decode_piece(&object, &run, &series, &row.next_blob());
            Ok(())
        })
    }

    /// The times of a piece; `None` after a finding.
    fn decode_piece(&mut self, object: &str, run: &str, series: &str, bytes: &[u8]) -> Option<Vec<i64>> {
        match codec::decode_series(bytes, PIECE_LIMITS) {
            Ok(piece) if hex_id(piece.run.as_bytes()) == run && piece.name == series => Some(piece.times),
            Ok(_) => {
                self.problem(object, "it belongs to another run or series");
                None
            }
            Err(error) => {
                self.problem(object, format!("it cannot be decoded: {error}"));
                None
            }
        }
    }

    /// Reads every file and compares its digest.
    pub(super) fn check_artefacts(&mut self) -> Result<(), Error> {
        self.for_each_row(
            "SELECT digest FROM artefact ORDER BY digest LIMIT ?1 OFFSET ?2",
            |this, mut row| {
                let digest = row.next_text();
                this.count("files");
                let read =
                    digest.parse::<ContentDigest>().map_err(|error| error.to_string()).and_then(|digest| {
                        this.store
                            .read_artefact(&digest, &mut std::io::sink())
                            .map_err(|error| error.to_string())
                    });
                if let Err(problem) = read {
                    this.problem(format!("file {digest}"), problem);
                }
                Ok(())
            },
        )
    }
}

/// Tags of a run, and name and digest of its files.
type RunLinks = (BTreeSet<String>, BTreeSet<(String, String)>);

impl RecordStore {
    fn links_of(&self, run: RunId) -> Result<RunLinks, Error> {
        let id = hex_id(run.as_bytes());
        self.read_transaction("checking", |session| {
            let tags = session.query_rows("SELECT tag FROM tag WHERE run = ?1", &[(&id).into()])?;
            let sql = "SELECT name, digest FROM run_artefact WHERE run = ?1";
            let files = session.query_rows(sql, &[(&id).into()])?;
            Ok((
                tags.into_iter().map(|mut row| row.next_text()).collect(),
                files.into_iter().map(|mut row| (row.next_text(), row.next_text())).collect(),
            ))
        })
    }

    fn set_block_columns(
        &self,
        run: &str,
        series: &str,
        part: i64,
        (rows, first, last): (i64, i64, i64),
    ) -> Result<(), Error> {
        self.write_transaction("repairing a block", |session| {
            let sql = "UPDATE block SET rows = ?1, first_time = ?2, last_time = ?3 \
                       WHERE run = ?4 AND series = ?5 AND part = ?6";
            let values: [SqlValue<'_>; 6] =
                [rows.into(), first.into(), last.into(), run.into(), series.into(), part.into()];
            session.execute(sql, &values).map(|_| ())
        })
    }
}
