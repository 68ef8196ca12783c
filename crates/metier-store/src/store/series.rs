//! Series: appended in small chunks while a run is active, merged into blocks at its end.
//!
//! Both have the same encoding (see [`crate::codec`]); blocks are larger and compress better.
//! Compaction holds one block in memory at a time.

use metier_types::{RunId, Series, Values};

use super::{Store, key};
use crate::Error;
use crate::codec::{self, CodecError, Limits};
use crate::engine::Session;
use crate::merge::Merge;

/// Maximum rows of a block: enough to compress well, few enough to read part of a long run.
const BLOCK_ROWS: usize = 1 << 16;
/// Maximum values of a block (32 MiB in memory); wide series have fewer rows per block.
const BLOCK_VALUES: usize = 1 << 22;
/// Maximum values of a chunk (1 MiB in memory); a larger append is split.
const CHUNK_VALUES: usize = 1 << 17;
/// Chunks fetched per query.
const FETCH: i64 = 64;
/// Maximum values that one call returns: 2 GiB.
const LARGEST_SERIES: usize = 1 << 28;

const LIMITS: Limits = Limits { rows: BLOCK_ROWS as u32, columns: 4096, values: 1 << 23 };

/// Encoded rows of a series and their range.
type Piece = (Vec<u8>, std::ops::Range<usize>);

impl Store {
    /// Appends samples to a run: any number of named series. Columns may differ from earlier
    /// chunks.
    pub fn append(&self, run: RunId, chunk: &[Series]) -> Result<(), Error> {
        self.check_series(run, chunk)?;
        let mut pieces = Vec::new();
        for series in chunk {
            for (bytes, _) in self.pieces(series, CHUNK_VALUES)? {
                pieces.push((series.name.as_str(), self.next_number(), bytes));
            }
        }
        if pieces.is_empty() {
            return Ok(());
        }
        let id = key(run.as_bytes());
        self.write("appending samples", |session| {
            if session.row("SELECT id FROM run WHERE id = ?1", &[(&id).into()])?.is_none() {
                return Err(self.no_run(run));
            }
            for (name, number, bytes) in &pieces {
                let sql = "INSERT INTO chunk (run, series, seq, content) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
                session.run(sql, &[(&id).into(), (*name).into(), (*number).into(), bytes.as_slice().into()])?;
            }
            Ok(())
        })
    }

    /// All series of a run, or the one with this name; also of an active run. Empty if there are
    /// none. An unknown run is an error.
    pub fn series(&self, run: RunId, name: Option<&str>) -> Result<Vec<Series>, Error> {
        self.read("reading series", |session| {
            let id = key(run.as_bytes());
            if session.row("SELECT id FROM run WHERE id = ?1", &[(&id).into()])?.is_none() {
                return Err(self.no_run(run));
            }
            let sql = "SELECT series FROM block WHERE run = ?1 UNION SELECT series FROM chunk WHERE run = ?1 ORDER BY 1";
            let mut found = Vec::new();
            for mut row in session.rows(sql, &[(&id).into()])? {
                let series = row.text();
                if name.is_none_or(|name| name == series) {
                    found.push(self.one_series(session, run, &series)?);
                }
            }
            Ok(found)
        })
    }

    fn one_series(&self, session: &mut dyn Session, run: RunId, name: &str) -> Result<Series, Error> {
        let id = key(run.as_bytes());
        let mut merge = Merge::new(run, name);
        let sql = "SELECT coalesce(max(part), -1), CAST(coalesce(sum(rows), 0) AS BIGINT) FROM block \
                   WHERE run = ?1 AND series = ?2";
        let (mut last, mut rows) = (-1, 0);
        if let Some(mut row) = session.row(sql, &[(&id).into(), name.into()])? {
            (last, rows) = (row.int(), row.int());
        }
        merge.expect_rows(rows.clamp(0, LARGEST_SERIES as i64 / 16) as usize);
        for part in 0..=last {
            let sql = "SELECT content FROM block WHERE run = ?1 AND series = ?2 AND part = ?3";
            if let Some(mut row) = session.row(sql, &[(&id).into(), name.into(), part.into()])? {
                self.join(&mut merge, run, &row.blob())?;
            }
        }
        let mut after = i64::MIN;
        loop {
            let chunks = chunks_after(session, &id, name, after)?;
            let Some((number, _)) = chunks.last() else { break };
            after = *number;
            for (_, bytes) in &chunks {
                self.join(&mut merge, run, bytes)?;
            }
        }
        Ok(merge.finish())
    }

    fn join(&self, merge: &mut Merge, run: RunId, bytes: &[u8]) -> Result<(), Error> {
        merge.push(bytes, LIMITS).map_err(|source| self.bad_series(run, source))?;
        if merge.values() > LARGEST_SERIES {
            let (got, limit) = (merge.values() as u64, LARGEST_SERIES as u64);
            return Err(self.bad_series(run, CodecError::TooLarge { what: "values of a series", got, limit }));
        }
        Ok(())
    }

    /// Merges all chunks of a run into blocks. Returns `false` if there were none.
    ///
    /// A series with a damaged chunk is left as it is: the run's record must not be lost for it,
    /// and recovery needs a decision of the user. Reading the series reports the damage.
    pub(super) fn compact(&self, session: &mut dyn Session, run: RunId) -> Result<bool, Error> {
        let id = key(run.as_bytes());
        let names = session.rows("SELECT DISTINCT series FROM chunk WHERE run = ?1", &[(&id).into()])?;
        let found = !names.is_empty();
        for mut row in names {
            let name = row.text();
            let sql = "SELECT coalesce(max(part), -1) FROM block WHERE run = ?1 AND series = ?2";
            let last = session.row(sql, &[(&id).into(), (&name).into()])?.map_or(-1, |mut row| row.int());
            match self.compact_one(session, run, &name, last + 1) {
                Ok(()) => {
                    let sql = "DELETE FROM chunk WHERE run = ?1 AND series = ?2";
                    session.run(sql, &[(&id).into(), (&name).into()])?;
                }
                Err(Error::Series { .. }) => {
                    let sql = "DELETE FROM block WHERE run = ?1 AND series = ?2 AND part > ?3";
                    session.run(sql, &[(&id).into(), (&name).into(), last.into()])?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn compact_one(&self, session: &mut dyn Session, run: RunId, name: &str, part: i64) -> Result<(), Error> {
        let id = key(run.as_bytes());
        let mut part = part;
        let mut merge = Merge::new(run, name);
        let mut after = i64::MIN;
        loop {
            let chunks = chunks_after(session, &id, name, after)?;
            let Some((number, _)) = chunks.last() else { break };
            after = *number;
            for (_, bytes) in &chunks {
                let rows = codec::rows(bytes, LIMITS).map_err(|source| self.bad_series(run, source))?;
                if merge.rows() + rows > BLOCK_ROWS || merge.values() >= BLOCK_VALUES {
                    let full = std::mem::replace(&mut merge, Merge::new(run, name)).finish();
                    part = self.write_blocks(session, &full, part)?;
                }
                merge.push(bytes, LIMITS).map_err(|source| self.bad_series(run, source))?;
            }
        }
        self.write_blocks(session, &merge.finish(), part).map(|_| ())
    }

    /// Writes a series as blocks numbered from `part`; returns the next number.
    pub(super) fn write_blocks(
        &self,
        session: &mut dyn Session,
        series: &Series,
        mut part: i64,
    ) -> Result<i64, Error> {
        let id = key(series.run.as_bytes());
        for (bytes, rows) in self.pieces(series, BLOCK_VALUES)? {
            let first = rows.clone().next().and_then(|row| series.times.get(row)).copied().unwrap_or(0);
            let last = rows.clone().next_back().and_then(|row| series.times.get(row)).copied().unwrap_or(0);
            let sql = "INSERT INTO block (run, series, part, rows, first_time, last_time, content) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
            let count = rows.len() as i64;
            session.run(
                sql,
                &[
                    (&id).into(),
                    (&series.name).into(),
                    part.into(),
                    count.into(),
                    first.into(),
                    last.into(),
                    bytes.as_slice().into(),
                ],
            )?;
            part += 1;
        }
        Ok(part)
    }

    /// Encodes a series in pieces of at most `most_values` values and [`BLOCK_ROWS`] rows. A series
    /// without rows gives one piece, so that its columns are stored.
    fn pieces(&self, series: &Series, most_values: usize) -> Result<Vec<Piece>, Error> {
        let rows = (most_values / (series.columns.len() + 1)).clamp(1, BLOCK_ROWS);
        let end = series.times.len();
        let starts = (0..end.max(1)).step_by(rows);
        starts
            .map(|start| {
                let range = start..end.min(start + rows);
                let bytes = codec::encode_rows(series, range.clone());
                bytes.map(|bytes| (bytes, range)).map_err(|source| self.bad_series(series.run, source))
            })
            .collect()
    }

    /// Whether a run has exactly these series.
    pub(super) fn holds(
        &self,
        session: &mut dyn Session,
        run: RunId,
        series: &[Series],
    ) -> Result<bool, Error> {
        let id = key(run.as_bytes());
        let sql = "SELECT count(*) FROM (SELECT series FROM block WHERE run = ?1 \
                   UNION SELECT series FROM chunk WHERE run = ?1) AS names";
        let count = session.row(sql, &[(&id).into()])?.map_or(0, |mut row| row.int());
        if count != series.len() as i64 {
            return Ok(false);
        }
        for one in series {
            if !is_same(&self.one_series(session, run, &one.name)?, one) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that series can belong to a run.
    pub(super) fn check_series(&self, run: RunId, series: &[Series]) -> Result<(), Error> {
        let refused =
            |what, got: String, want: &str| Err(Error::Refused { what, got, want: want.to_string() });
        for one in series {
            if one.run != run {
                let got = format!("{:?} is of run {}", one.name, one.run);
                return refused("series", got, &format!("a series of run {run}"));
            }
            let length = one.name.chars().count();
            if !(1..=200).contains(&length) || one.name.chars().any(char::is_control) {
                let got = format!("{:?}", one.name.chars().take(80).collect::<String>());
                return refused("name of a series", got, "1 to 200 printable characters");
            }
            if one.columns.len() > LIMITS.columns as usize {
                return refused("columns of a series", one.columns.len().to_string(), "at most 4096");
            }
            if let Some(defect) = one.defect() {
                return refused("series", defect, "ascending times and as many values in each column");
            }
        }
        Ok(())
    }

    fn bad_series(&self, run: RunId, source: CodecError) -> Error {
        Error::Series { store: self.name(), run, source }
    }
}

fn chunks_after(
    session: &mut dyn Session,
    id: &str,
    name: &str,
    after: i64,
) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let sql =
        "SELECT seq, content FROM chunk WHERE run = ?1 AND series = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4";
    let rows = session.rows(sql, &[id.into(), name.into(), after.into(), FETCH.into()])?;
    Ok(rows.into_iter().map(|mut row| (row.int(), row.blob())).collect())
}

/// Bitwise equality: a NaN equals itself.
fn is_same(a: &Series, b: &Series) -> bool {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    a.times == b.times
        && a.extra == b.extra
        && a.columns.len() == b.columns.len()
        && a.columns.iter().zip(&b.columns).all(|(a, b)| {
            let is_same = match (&a.values, &b.values) {
                (Values::Integer(a), Values::Integer(b)) => a == b,
                (Values::Float(a), Values::Float(b)) => bits(a) == bits(b),
                _ => false,
            };
            is_same && (&a.name, a.kind, a.unit, &a.absent) == (&b.name, b.kind, b.unit, &b.absent)
        })
}
