//! Series: appended in small chunks while a run is active, merged into blocks at its end.
//!
//! Both have the same encoding (see [`crate::codec`]); blocks are larger and compress better.
//! Compaction holds one block in memory at a time.

use metier_types::{ColumnValues, RunId, Series};

use super::{RecordStore, hex_id};
use crate::Error;
use crate::codec::{self, CodecError, DecodeLimits};
use crate::engine::SqlTransaction;
use crate::series_merger::SeriesMerger;

/// Maximum rows of a block: enough to compress well, few enough to read part of a long run.
const MAX_BLOCK_ROWS: usize = 1 << 16;
/// Maximum values of a block (32 MiB in memory); wide series have fewer rows per block.
const MAX_BLOCK_VALUES: usize = 1 << 22;
/// Maximum values of a chunk (1 MiB in memory); a larger append is split.
const MAX_CHUNK_VALUES: usize = 1 << 17;
/// Chunks fetched per query.
const CHUNKS_PER_FETCH: i64 = 64;
/// Maximum values that one call returns: 2 GiB.
const MAX_SERIES_VALUES: usize = 1 << 28;

pub(super) const PIECE_LIMITS: DecodeLimits =
    DecodeLimits { rows: MAX_BLOCK_ROWS as u32, columns: 4096, values: 1 << 23 };

/// Encoded rows of a series and their range.
type EncodedPiece = (Vec<u8>, std::ops::Range<usize>);

impl RecordStore {
    /// Appends samples to a run: any number of named series. Columns may differ from earlier
    /// chunks.
    pub fn append_series(&self, run: RunId, chunk: &[Series]) -> Result<(), Error> {
        self.insert_chunks(run, &self.encode_chunks(run, chunk)?)
    }

    /// Encodes samples of a run and numbers the chunks. The numbers make a repeated insertion
    /// harmless, also in another store.
    pub(crate) fn encode_chunks(&self, run: RunId, chunk: &[Series]) -> Result<Vec<SeriesChunk>, Error> {
        self.check_series(run, chunk)?;
        let mut chunks = Vec::new();
        for series in chunk {
            for (content, _) in self.encode_pieces(series, MAX_CHUNK_VALUES)? {
                let number = self.next_chunk_number();
                chunks.push(SeriesChunk { series: series.name.clone(), number, content });
            }
        }
        Ok(chunks)
    }

    pub(crate) fn insert_chunks(&self, run: RunId, chunks: &[SeriesChunk]) -> Result<(), Error> {
        if chunks.is_empty() {
            return Ok(());
        }
        let id = hex_id(run.as_bytes());
        self.write_transaction("appending samples", |session| {
            if session.query_row("SELECT id FROM run WHERE id = ?1", &[(&id).into()])?.is_none() {
                return Err(self.run_not_found(run));
            }
            chunks.iter().try_for_each(|chunk| insert_chunk(session, &id, chunk))
        })
    }

    /// All series of a run, or the one with this name; also of an active run. Empty if there are
    /// none. An unknown run is an error.
    pub fn series(&self, run: RunId, name: Option<&str>) -> Result<Vec<Series>, Error> {
        self.read_transaction("reading series", |session| {
            let id = hex_id(run.as_bytes());
            if session.query_row("SELECT id FROM run WHERE id = ?1", &[(&id).into()])?.is_none() {
                return Err(self.run_not_found(run));
            }
            let sql = "SELECT series FROM block WHERE run = ?1 UNION SELECT series FROM chunk WHERE run = ?1 ORDER BY 1";
            let mut found = Vec::new();
            for mut row in session.query_rows(sql, &[(&id).into()])? {
                let series = row.next_text();
                if name.is_none_or(|name| name == series) {
                    found.push(self.read_series(session, run, &series)?);
                }
            }
            Ok(found)
        })
    }

    fn read_series(&self, session: &mut dyn SqlTransaction, run: RunId, name: &str) -> Result<Series, Error> {
        let id = hex_id(run.as_bytes());
        let mut merge = SeriesMerger::new(run, name);
        let sql = "SELECT coalesce(max(part), -1), CAST(coalesce(sum(rows), 0) AS BIGINT) FROM block \
                   WHERE run = ?1 AND series = ?2";
        let (mut last, mut rows) = (-1, 0);
        if let Some(mut row) = session.query_row(sql, &[(&id).into(), name.into()])? {
            (last, rows) = (row.next_int(), row.next_int());
        }
        merge.reserve_rows(rows.clamp(0, MAX_SERIES_VALUES as i64 / 16) as usize);
        for part in 0..=last {
            let sql = "SELECT content FROM block WHERE run = ?1 AND series = ?2 AND part = ?3";
            if let Some(mut row) = session.query_row(sql, &[(&id).into(), name.into(), part.into()])? {
                self.merge_piece(&mut merge, run, &row.next_blob())?;
            }
        }
        let mut after = i64::MIN;
        loop {
            let chunks = chunks_after(session, &id, name, after)?;
            let Some((number, _)) = chunks.last() else { break };
            after = *number;
            for (_, bytes) in &chunks {
                self.merge_piece(&mut merge, run, bytes)?;
            }
        }
        Ok(merge.finish())
    }

    fn merge_piece(&self, merge: &mut SeriesMerger, run: RunId, bytes: &[u8]) -> Result<(), Error> {
        merge.push_piece(bytes, PIECE_LIMITS).map_err(|source| self.series_error(run, source))?;
        if merge.value_count() > MAX_SERIES_VALUES {
            let (got, limit) = (merge.value_count() as u64, MAX_SERIES_VALUES as u64);
            return Err(
                self.series_error(run, CodecError::TooLarge { what: "values of a series", got, limit })
            );
        }
        Ok(())
    }

    /// Merges all chunks of a run into blocks. Returns `false` if there were none.
    ///
    /// A series with a damaged chunk is left as it is: the run's record must not be lost for it,
    /// and recovery needs a decision of the user. Reading the series reports the damage.
    pub(super) fn compact_chunks(&self, session: &mut dyn SqlTransaction, run: RunId) -> Result<bool, Error> {
        let id = hex_id(run.as_bytes());
        let names =
            session.query_rows("SELECT DISTINCT series FROM chunk WHERE run = ?1", &[(&id).into()])?;
        let found = !names.is_empty();
        for mut row in names {
            let name = row.next_text();
            let sql = "SELECT coalesce(max(part), -1) FROM block WHERE run = ?1 AND series = ?2";
            let last =
                session.query_row(sql, &[(&id).into(), (&name).into()])?.map_or(-1, |mut row| row.next_int());
            match self.compact_series(session, run, &name, last + 1) {
                Ok(()) => {
                    let sql = "DELETE FROM chunk WHERE run = ?1 AND series = ?2";
                    session.execute(sql, &[(&id).into(), (&name).into()])?;
                }
                Err(Error::Series { .. }) => {
                    let sql = "DELETE FROM block WHERE run = ?1 AND series = ?2 AND part > ?3";
                    session.execute(sql, &[(&id).into(), (&name).into(), last.into()])?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn compact_series(
        &self,
        session: &mut dyn SqlTransaction,
        run: RunId,
        name: &str,
        part: i64,
    ) -> Result<(), Error> {
        let id = hex_id(run.as_bytes());
        let mut part = part;
        let mut merge = SeriesMerger::new(run, name);
        let mut after = i64::MIN;
        loop {
            let chunks = chunks_after(session, &id, name, after)?;
            let Some((number, _)) = chunks.last() else { break };
            after = *number;
            for (_, bytes) in &chunks {
                let rows = codec::count_rows(bytes, PIECE_LIMITS)
                    .map_err(|source| self.series_error(run, source))?;
                if merge.row_count() + rows > MAX_BLOCK_ROWS || merge.value_count() >= MAX_BLOCK_VALUES {
                    let full = std::mem::replace(&mut merge, SeriesMerger::new(run, name)).finish();
                    part = self.write_blocks(session, &full, part)?;
                }
                merge.push_piece(bytes, PIECE_LIMITS).map_err(|source| self.series_error(run, source))?;
            }
        }
        self.write_blocks(session, &merge.finish(), part).map(|_| ())
    }

    /// Writes a series as blocks numbered from `part`; returns the next number.
    pub(super) fn write_blocks(
        &self,
        session: &mut dyn SqlTransaction,
        series: &Series,
        mut part: i64,
    ) -> Result<i64, Error> {
        let id = hex_id(series.run.as_bytes());
        for (bytes, rows) in self.encode_pieces(series, MAX_BLOCK_VALUES)? {
            let first = rows.clone().next().and_then(|row| series.times.get(row)).copied().unwrap_or(0);
            let last = rows.clone().next_back().and_then(|row| series.times.get(row)).copied().unwrap_or(0);
            let sql = "INSERT INTO block (run, series, part, rows, first_time, last_time, content) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
            let count = rows.len() as i64;
            session.execute(
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

    /// Encodes a series in pieces of at most `most_values` values and [`MAX_BLOCK_ROWS`] rows. A
    /// series without rows gives one piece, so that its columns are stored.
    fn encode_pieces(&self, series: &Series, most_values: usize) -> Result<Vec<EncodedPiece>, Error> {
        let rows = (most_values / (series.columns.len() + 1)).clamp(1, MAX_BLOCK_ROWS);
        let end = series.times.len();
        let starts = (0..end.max(1)).step_by(rows);
        starts
            .map(|start| {
                let range = start..end.min(start + rows);
                let bytes = codec::encode_rows(series, range.clone());
                bytes.map(|bytes| (bytes, range)).map_err(|source| self.series_error(series.run, source))
            })
            .collect()
    }

    /// Whether a run has exactly these series.
    pub(super) fn has_same_series(
        &self,
        session: &mut dyn SqlTransaction,
        run: RunId,
        series: &[Series],
    ) -> Result<bool, Error> {
        let id = hex_id(run.as_bytes());
        let sql = "SELECT count(*) FROM (SELECT series FROM block WHERE run = ?1 \
                   UNION SELECT series FROM chunk WHERE run = ?1) AS names";
        let count = session.query_row(sql, &[(&id).into()])?.map_or(0, |mut row| row.next_int());
        if count != series.len() as i64 {
            return Ok(false);
        }
        for series in series {
            if !is_bit_identical(&self.read_series(session, run, &series.name)?, series) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that series can belong to a run.
    pub(super) fn check_series(&self, run: RunId, series: &[Series]) -> Result<(), Error> {
        let refused =
            |what, got: String, want: &str| Err(Error::Refused { what, got, want: want.to_string() });
        for entry in series {
            if entry.run != run {
                let got = format!("{:?} is of run {}", entry.name, entry.run);
                return refused("series", got, &format!("a series of run {run}"));
            }
            let length = entry.name.chars().count();
            if !(1..=200).contains(&length) || entry.name.chars().any(char::is_control) {
                let got = format!("{:?}", entry.name.chars().take(80).collect::<String>());
                return refused("name of a series", got, "1 to 200 printable characters");
            }
            if entry.columns.len() > PIECE_LIMITS.columns as usize {
                return refused("columns of a series", entry.columns.len().to_string(), "at most 4096");
            }
            if let Some(defect) = entry.find_defect() {
                return refused("series", defect, "ascending times and as many values in each column");
            }
        }
        Ok(())
    }

    fn series_error(&self, run: RunId, source: CodecError) -> Error {
        Error::Series { store: self.name(), run, source }
    }
}

/// An encoded chunk of a series; numbers ascend in the order of time.
#[derive(Debug)]
pub(crate) struct SeriesChunk {
    pub series: String,
    pub number: i64,
    pub content: Vec<u8>,
}

pub(super) fn insert_chunk(
    session: &mut dyn SqlTransaction,
    id: &str,
    chunk: &SeriesChunk,
) -> Result<(), Error> {
    let sql = "INSERT INTO chunk (run, series, seq, content) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let values = [id.into(), (&chunk.series).into(), chunk.number.into(), chunk.content.as_slice().into()];
    session.execute(sql, &values).map(|_| ())
}

pub(super) fn chunks_after(
    session: &mut dyn SqlTransaction,
    id: &str,
    name: &str,
    after: i64,
) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let sql =
        "SELECT seq, content FROM chunk WHERE run = ?1 AND series = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4";
    let rows = session.query_rows(sql, &[id.into(), name.into(), after.into(), CHUNKS_PER_FETCH.into()])?;
    Ok(rows.into_iter().map(|mut row| (row.next_int(), row.next_blob())).collect())
}

/// Bitwise equality: a NaN equals itself.
fn is_bit_identical(a: &Series, b: &Series) -> bool {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    a.times == b.times
        && a.extra == b.extra
        && a.columns.len() == b.columns.len()
        && a.columns.iter().zip(&b.columns).all(|(a, b)| {
            let is_same = match (&a.values, &b.values) {
                (ColumnValues::Integer(a), ColumnValues::Integer(b)) => a == b,
                (ColumnValues::Float(a), ColumnValues::Float(b)) => bits(a) == bits(b),
                _ => false,
            };
            is_same && (&a.name, a.kind, a.unit, &a.absent) == (&b.name, b.kind, b.unit, &b.absent)
        })
}
