//! The series codec encodes a table of timed values as compact bytes with a header and a checksum.
//!
//! # Layout
//!
//! Integers of fixed size are little-endian. A *varint* is LEB128 (7 bits per byte, least
//! significant first, at most 10 bytes). A *signed varint* is a varint of the zigzag form `(v << 1)
//! ^ (v >> 63)`. A *text* is a varint length in bytes, followed by UTF-8.
//!
//! ```text
//! offset size
//! 0      4    "mser"
//! 4      1    version, 1
//! 5      3    zero
//! 8      4    length of the body in bytes
//! 12     8    XXH64 (seed 0) of the body
//! 20     …    body
//!
//! body:   run id (16 bytes) · name (text) · other fields as a JSON object (text; empty if none)
//!         · rows (varint) · number of columns (varint) · times (integer page) · each column
//! column: name (text) · kind (0 counter, 1 gauge) · unit (byte, see `UNIT_BY_CODE`)
//!         · type (0 integer, 1 float) · number of absent ranges (varint)
//!         · each: gap since the last range's end, length - 1 (varints)
//!         · integer page or float page
//! ```
//!
//! The pages are described in `integer.rs` and `float.rs`.
//!
//! # Reasons
//!
//! Kernel counters and gauges change in steps that are small compared with their values. The steps
//! are often multiples of a unit (pages of 4096 bytes, ticks, microseconds). The codec divides by
//! the common divisor, takes differences, and packs groups of 128 with the fewest bits. This costs
//! a few instructions per value; LZ4 then removes repetitions. A general compressor alone gives
//! larger output and is slower.
//!
//! Decoding allocates no more than [`DecodeLimits`] and the input length allow. It returns an error
//! for anything that [`encode_series`] does not write.

mod bit_packing;
mod byte_reader;
mod float_page;
mod integer_page;

pub use byte_reader::xxh64;
use byte_reader::{ByteReader, put_text, put_varint};
use metier_types::{ColumnKind, ColumnUnit, ColumnValues, ExtraFields, RunId, Series, SeriesColumn};

const MAGIC: &[u8; 4] = b"mser";
const CODEC_VERSION: u8 = 1;
const HEADER_BYTES: usize = 20;

/// Units by their code. New units are added only at the end.
const UNIT_BY_CODE: [ColumnUnit; 10] = [
    ColumnUnit::Nanoseconds,
    ColumnUnit::Seconds,
    ColumnUnit::Bytes,
    ColumnUnit::Joules,
    ColumnUnit::Microjoules,
    ColumnUnit::Watts,
    ColumnUnit::Ratio,
    ColumnUnit::Hertz,
    ColumnUnit::Celsius,
    ColumnUnit::Count,
];

/// Reasons why bytes cannot be decoded or a series cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes end too early, contradict themselves, or the checksum is wrong.
    #[error("damaged: {0}")]
    Damaged(&'static str),
    /// Written by a later version of the codec.
    #[error(
        "written by version {0} of the series codec, this program supports version 1; use a newer metier"
    )]
    Newer(u8),
    /// Larger than the limits of the decoder.
    #[error("{what}: {got}, at most {limit} allowed")]
    TooLarge {
        what: &'static str,
        got: u64,
        /// The largest allowed value.
        limit: u64,
    },
    /// The series is inconsistent and cannot be encoded.
    #[error("{0}")]
    Misshapen(String),
}

/// Size limits of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    pub rows: u32,
    pub columns: u32,
    /// Number of values including times: rows × (columns + 1).
    pub values: u64,
}

impl Default for DecodeLimits {
    /// 4 Mi rows, 4096 columns, 32 Mi values (256 MiB).
    fn default() -> Self {
        Self { rows: 1 << 22, columns: 4096, values: 1 << 25 }
    }
}

fn check_limit(what: &'static str, got: u64, limit: u64) -> Result<(), CodecError> {
    if got > limit { Err(CodecError::TooLarge { what, got, limit }) } else { Ok(()) }
}

/// Encodes a series. Times need not ascend. All columns must be as long as the times, and absent
/// rows must be ascending row numbers.
pub fn encode_series(series: &Series) -> Result<Vec<u8>, CodecError> {
    encode_rows(series, 0..series.times.len())
}

/// Encodes a range of rows of a series.
pub(crate) fn encode_rows(series: &Series, rows: std::ops::Range<usize>) -> Result<Vec<u8>, CodecError> {
    let times = series.times.get(rows.clone()).ok_or(CodecError::Damaged("no such rows"))?;
    check_limit("rows", times.len() as u64, u64::from(u32::MAX))?;
    let mut out = Vec::with_capacity(256 + times.len() * (series.columns.len() + 1) * 2);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[CODEC_VERSION, 0, 0, 0]);
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(series.run.as_bytes());
    put_text(&mut out, &series.name);
    if series.extra.is_empty() {
        put_text(&mut out, "");
    } else {
        let json = serde_json::to_string(&series.extra)
            .map_err(|error| CodecError::Misshapen(format!("series {:?}: {error}", series.name)))?;
        put_text(&mut out, &json);
    }
    put_varint(&mut out, times.len() as u64);
    put_varint(&mut out, series.columns.len() as u64);
    integer_page::encode_integers(times, &mut out);
    for column in &series.columns {
        encode_column(series, column, rows.clone(), &mut out)?;
    }
    let length = u32::try_from(out.len() - HEADER_BYTES).map_err(|_| CodecError::TooLarge {
        what: "bytes of a series",
        got: out.len() as u64,
        limit: u64::from(u32::MAX),
    })?;
    let sum = xxh64(&out[HEADER_BYTES..]);
    out[8..12].copy_from_slice(&length.to_le_bytes());
    out[12..20].copy_from_slice(&sum.to_le_bytes());
    Ok(out)
}

fn encode_column(
    series: &Series,
    column: &SeriesColumn,
    rows: std::ops::Range<usize>,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let misshapen = |what: &str| {
        CodecError::Misshapen(format!("series {:?}, column {:?}: {what}", series.name, column.name))
    };
    if column.values.len() != series.times.len() {
        return Err(misshapen("as many values as times wanted"));
    }
    let ascending = column.absent.windows(2).all(|pair| pair[0] < pair[1]);
    if !ascending || column.absent.last().is_some_and(|row| *row as usize >= series.times.len()) {
        return Err(misshapen("absent rows must be ascending rows of it"));
    }
    put_text(out, &column.name);
    out.push(match column.kind {
        ColumnKind::Counter => 0,
        ColumnKind::Gauge => 1,
    });
    let unit = UNIT_BY_CODE.iter().position(|unit| *unit == column.unit);
    out.push(unit.ok_or_else(|| misshapen("its unit has no byte in the codec"))? as u8);
    out.push(match column.values {
        ColumnValues::Integer(_) => 0,
        ColumnValues::Float(_) => 1,
    });
    let ranges = absent_ranges(&column.absent, &rows);
    put_varint(out, ranges.len() as u64);
    let mut end = 0;
    for (start, length) in ranges {
        put_varint(out, u64::from(start - end));
        put_varint(out, u64::from(length - 1));
        end = start + length;
    }
    match &column.values {
        ColumnValues::Integer(values) => integer_page::encode_integers(&values[rows], out),
        ColumnValues::Float(values) => float_page::encode_floats(&values[rows], out),
    }
    Ok(())
}

/// Absent rows within `rows`, as (start, length); starts are relative to `rows.start`.
fn absent_ranges(absent: &[u32], rows: &std::ops::Range<usize>) -> Vec<(u32, u32)> {
    let from = absent.partition_point(|row| (*row as usize) < rows.start);
    let to = absent.partition_point(|row| (*row as usize) < rows.end);
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for row in absent[from..to].iter().map(|row| row - rows.start as u32) {
        match ranges.last_mut() {
            Some((start, length)) if *start + *length == row => *length += 1,
            _ => ranges.push((row, 1)),
        }
    }
    ranges
}

/// Decodes bytes that [`encode_series`] wrote.
pub fn decode_series(bytes: &[u8], limits: DecodeLimits) -> Result<Series, CodecError> {
    let mut table = SeriesDecoder::open(bytes, limits)?;
    let mut series = Series::new(table.run, table.name);
    series.extra = table.parse_extra_fields()?;
    table.decode_integers(&mut series.times)?;
    while let Some(head) = table.next_column()? {
        let values = if head.is_float {
            let mut values = Vec::new();
            table.decode_floats(&mut values)?;
            ColumnValues::Float(values)
        } else {
            let mut values = Vec::new();
            table.decode_integers(&mut values)?;
            ColumnValues::Integer(values)
        };
        let mut absent = Vec::new();
        head.append_absent_rows(0, &mut absent);
        series.columns.push(SeriesColumn {
            name: head.name.to_string(),
            kind: head.kind,
            unit: head.unit,
            values,
            absent,
        });
    }
    Ok(series)
}

/// Number of rows in encoded bytes.
pub(crate) fn count_rows(bytes: &[u8], limits: DecodeLimits) -> Result<usize, CodecError> {
    SeriesDecoder::open(bytes, limits).map(|table| table.rows)
}

/// Checksum of the parts of a row, as the store's column `sum` has it. The length of each part
/// counts, so that a byte cannot move from one to the next.
pub(crate) fn row_sum(parts: &[&[u8]]) -> i64 {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    xxh64(&bytes) as i64
}

/// Time of the last row in encoded bytes; `None` without rows.
pub(crate) fn last_time(bytes: &[u8], limits: DecodeLimits) -> Result<Option<i64>, CodecError> {
    let mut times = Vec::new();
    SeriesDecoder::open(bytes, limits)?.decode_integers(&mut times)?;
    Ok(times.last().copied())
}

/// A validated series whose pages are decoded in order: the times first, then each column after its
/// header. Values are appended to vectors of the caller.
pub(crate) struct SeriesDecoder<'a> {
    pub run: RunId,
    pub name: &'a str,
    pub rows: usize,
    extra: &'a str,
    columns_left: u64,
    reader: ByteReader<'a>,
}

/// The header of a column.
pub(crate) struct ColumnHeader<'a> {
    pub name: &'a str,
    pub kind: ColumnKind,
    pub unit: ColumnUnit,
    pub is_float: bool,
    ranges: Vec<(u32, u32)>,
}

impl ColumnHeader<'_> {
    /// Appends the absent rows, offset by `first`.
    pub fn append_absent_rows(&self, first: u32, into: &mut Vec<u32>) {
        for (start, length) in &self.ranges {
            into.extend((*start..*start + *length).map(|row| row.saturating_add(first)));
        }
    }
}

impl<'a> SeriesDecoder<'a> {
    pub fn open(bytes: &'a [u8], limits: DecodeLimits) -> Result<Self, CodecError> {
        let mut head = ByteReader::new(bytes);
        if head.take(4)? != MAGIC {
            return Err(CodecError::Damaged("does not start as a series does"));
        }
        match head.take(4)? {
            [CODEC_VERSION, 0, 0, 0] => {}
            [CODEC_VERSION, ..] => return Err(CodecError::Damaged("reserved bytes are set")),
            [version, ..] => return Err(CodecError::Newer(*version)),
            [] => return Err(CodecError::Damaged("no version")),
        }
        let length = head.u32()? as usize;
        let sum = head.u64()?;
        let body = head.rest();
        if body.len() != length {
            return Err(CodecError::Damaged("its length differs from its header"));
        }
        if xxh64(body) != sum {
            return Err(CodecError::Damaged("the checksum is wrong"));
        }
        let mut reader = ByteReader::new(body);
        let run = uuid::Uuid::from_bytes(reader.array()?);
        let run = run.to_string().parse().map_err(|_| CodecError::Damaged("its run has no id"))?;
        let name = reader.text()?;
        let extra = reader.text()?;
        let rows = reader.varint()?;
        let columns = reader.varint()?;
        check_limit("rows", rows, u64::from(limits.rows))?;
        check_limit("columns", columns, u64::from(limits.columns))?;
        check_limit("values", rows.saturating_mul(columns.saturating_add(1)), limits.values)?;
        Ok(Self { run, name, rows: rows as usize, extra, columns_left: columns, reader })
    }

    /// Fields that a later version added.
    pub fn parse_extra_fields(&self) -> Result<ExtraFields, CodecError> {
        if self.extra.is_empty() {
            return Ok(ExtraFields::new());
        }
        serde_json::from_str(self.extra)
            .map_err(|_| CodecError::Damaged("other fields are not a JSON object"))
    }

    /// Decodes the next page as integers.
    pub fn decode_integers(&mut self, into: &mut Vec<i64>) -> Result<(), CodecError> {
        integer_page::decode_integers(&mut self.reader, self.rows, into)
    }

    /// Decodes the next page as floats.
    pub fn decode_floats(&mut self, into: &mut Vec<f64>) -> Result<(), CodecError> {
        float_page::decode_floats(&mut self.reader, self.rows, into)
    }

    /// Reads the header of the next column; `None` after the last.
    pub fn next_column(&mut self) -> Result<Option<ColumnHeader<'a>>, CodecError> {
        if self.columns_left == 0 {
            return if self.reader.rest().is_empty() {
                Ok(None)
            } else {
                Err(CodecError::Damaged("bytes after the last column"))
            };
        }
        self.columns_left -= 1;
        let name = self.reader.text()?;
        let kind = match self.reader.byte()? {
            0 => ColumnKind::Counter,
            1 => ColumnKind::Gauge,
            _ => return Err(CodecError::Damaged("unknown kind of column")),
        };
        let unit =
            *UNIT_BY_CODE.get(self.reader.byte()? as usize).ok_or(CodecError::Damaged("unknown unit"))?;
        let is_float = match self.reader.byte()? {
            0 => false,
            1 => true,
            _ => return Err(CodecError::Damaged("unknown type of column")),
        };
        let count = self.reader.varint()?;
        if count > self.reader.rest().len() as u64 {
            return Err(CodecError::Damaged("more absent rows than bytes"));
        }
        let mut ranges = Vec::with_capacity(count as usize);
        let mut end = 0u64;
        for _ in 0..count {
            let start = end.saturating_add(self.reader.varint()?);
            let length = self.reader.varint()?.saturating_add(1);
            end = start.saturating_add(length);
            if end > self.rows as u64 {
                return Err(CodecError::Damaged("absent rows outside of the series"));
            }
            ranges.push((start as u32, length as u32));
        }
        Ok(Some(ColumnHeader { name, kind, unit, is_float, ranges }))
    }
}

#[cfg(test)]
mod tests;
