//! Merges the pieces of one series, in the order they were written, into one table.
//!
//! Pieces may have different columns. Columns are the same if name, kind, unit and type agree. If a
//! piece lacks a column, its rows are absent there. The result is sorted by time, even if a later
//! piece has earlier times.

use metier_types::{ColumnValues, RunId, Series, SeriesColumn};

use crate::codec::{CodecError, DecodeLimits, SeriesDecoder};

/// The table merged so far.
pub(crate) struct SeriesMerger {
    series: Series,
}

impl SeriesMerger {
    pub fn new(run: RunId, name: &str) -> Self {
        Self { series: Series::new(run, name) }
    }

    pub fn row_count(&self) -> usize {
        self.series.times.len()
    }

    /// Number of values so far, including times.
    pub fn value_count(&self) -> usize {
        self.row_count().saturating_mul(self.series.columns.len() + 1)
    }

    /// Reserves capacity, so that long series are not moved while they grow.
    pub fn reserve_rows(&mut self, rows: usize) {
        self.series.times.reserve(rows);
    }

    /// Appends an encoded piece. After an error the table must not be used.
    pub fn push_piece(&mut self, bytes: &[u8], limits: DecodeLimits) -> Result<(), CodecError> {
        let mut table = SeriesDecoder::open(bytes, limits)?;
        if table.run != self.series.run || table.name != self.series.name {
            return Err(CodecError::Damaged("it belongs to another run or series"));
        }
        let start = self.row_count();
        if start + table.rows > u32::MAX as usize {
            let (got, limit) = ((start + table.rows) as u64, u64::from(u32::MAX));
            return Err(CodecError::TooLarge { what: "rows", got, limit });
        }
        self.series.extra.extend(table.parse_extra_fields()?);
        table.decode_integers(&mut self.series.times)?;
        let room = self.series.times.capacity();
        // Names may repeat within a piece, even in one without rows. Each column of the piece
        // matches one column of the table at most once.
        let mut is_taken = vec![false; self.series.columns.len()];
        while let Some(head) = table.next_column()? {
            let same = |(column, is_taken): (&SeriesColumn, &bool)| {
                !is_taken
                    && column.name == head.name
                    && column.kind == head.kind
                    && column.unit == head.unit
                    && matches!(column.values, ColumnValues::Float(_)) == head.is_float
            };
            let at = self.series.columns.iter().zip(&is_taken).position(same).unwrap_or_else(|| {
                is_taken.push(false);
                self.series.columns.push(SeriesColumn {
                    name: head.name.to_string(),
                    kind: head.kind,
                    unit: head.unit,
                    values: if head.is_float {
                        ColumnValues::Float(Vec::with_capacity(room))
                    } else {
                        ColumnValues::Integer(Vec::with_capacity(room))
                    },
                    absent: Vec::new(),
                });
                self.series.columns.len() - 1
            });
            is_taken[at] = true;
            let Some(column) = self.series.columns.get_mut(at) else { continue };
            pad_column(column, start);
            head.append_absent_rows(start as u32, &mut column.absent);
            match &mut column.values {
                ColumnValues::Integer(values) => table.decode_integers(values)?,
                ColumnValues::Float(values) => table.decode_floats(values)?,
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Series {
        let rows = self.row_count();
        for column in &mut self.series.columns {
            pad_column(column, rows);
        }
        if self.series.times.is_sorted() { self.series } else { sort_by_time(self.series) }
    }
}

/// Extends a column to the table's length with absent rows. They repeat the last value, which
/// encodes to almost nothing.
fn pad_column(column: &mut SeriesColumn, rows: usize) {
    let from = column.values.len();
    if from >= rows {
        return;
    }
    column.absent.extend(from as u32..rows as u32);
    match &mut column.values {
        ColumnValues::Integer(values) => values.resize(rows, values.last().copied().unwrap_or(0)),
        ColumnValues::Float(values) => values.resize(rows, values.last().copied().unwrap_or(0.0)),
    }
}

/// Sorts the rows by time; the sort is stable.
fn sort_by_time(series: Series) -> Series {
    let mut order: Vec<usize> = (0..series.times.len()).collect();
    order.sort_by_key(|row| series.times[*row]);
    let mut place = vec![0u32; order.len()];
    for (new, old) in order.iter().enumerate() {
        place[*old] = new as u32;
    }
    let columns = series.columns.iter().map(|column| {
        let mut absent: Vec<u32> = column.absent.iter().map(|row| place[*row as usize]).collect();
        absent.sort_unstable();
        let values = match &column.values {
            ColumnValues::Integer(values) => {
                ColumnValues::Integer(order.iter().map(|row| values[*row]).collect())
            }
            ColumnValues::Float(values) => {
                ColumnValues::Float(order.iter().map(|row| values[*row]).collect())
            }
        };
        SeriesColumn { values, absent, ..column.clone() }
    });
    Series {
        times: order.iter().map(|row| series.times[*row]).collect(),
        columns: columns.collect(),
        ..series.clone()
    }
}

#[cfg(test)]
mod tests {
    use metier_types::{ColumnKind, ColumnUnit};
    use proptest::prelude::*;

    use super::*;
    use crate::codec::encode_rows;

    fn series() -> impl Strategy<Value = Series> {
        (1usize..400).prop_flat_map(|rows| {
            let column = (
                any::<bool>(),
                prop::collection::vec(-1000i64..1000, rows),
                prop::collection::vec(prop::bool::weighted(0.05), rows),
            );
            (prop::collection::vec(0i64..3, rows), prop::collection::vec(column, 0..4)).prop_map(
                |(steps, columns)| {
                    let mut series = Series::new(RunId::new(), "use");
                    let mut time = 0;
                    series.times = steps
                        .iter()
                        .map(|step| {
                            time += step;
                            time
                        })
                        .collect();
                    series.columns = columns
                        .into_iter()
                        .enumerate()
                        .map(|(i, (is_float, values, absent))| SeriesColumn {
                            name: format!("c{}", i / 2), // names may repeat
                            kind: ColumnKind::Gauge,
                            unit: ColumnUnit::Count,
                            values: if is_float {
                                ColumnValues::Float(values.iter().map(|value| *value as f64 / 7.0).collect())
                            } else {
                                ColumnValues::Integer(values)
                            },
                            absent: (0..).zip(absent).filter_map(|(row, is)| is.then_some(row)).collect(),
                        })
                        .collect();
                    series
                },
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_series_cut_anywhere_is_joined_again(series in series(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let rows = series.times.len();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(rows + 1)).chain([0, rows]).collect();
            cuts.sort_unstable();
            let mut merge = SeriesMerger::new(series.run, "use");
            for pair in cuts.windows(2) {
                merge.push_piece(&encode_rows(&series, pair[0]..pair[1]).unwrap(), DecodeLimits::default()).unwrap();
            }
            prop_assert_eq!(merge.finish(), series);
        }
    }

    #[test]
    fn columns_of_one_name_stay_apart_also_behind_a_piece_without_rows() {
        let column = |value: f64| SeriesColumn {
            name: "c".into(),
            kind: ColumnKind::Gauge,
            unit: ColumnUnit::Count,
            values: ColumnValues::Float(vec![value]),
            absent: vec![],
        };
        let mut series = Series::new(RunId::new(), "use");
        series.times = vec![7];
        series.columns = vec![column(1.0), column(2.0)];
        let mut merge = SeriesMerger::new(series.run, "use");
        for rows in [0..0, 0..1, 1..1] {
            merge.push_piece(&encode_rows(&series, rows).unwrap(), DecodeLimits::default()).unwrap();
        }
        assert_eq!(merge.finish(), series);
    }

    #[test]
    fn a_piece_of_another_series_is_refused() {
        let piece = encode_rows(&Series::new(RunId::new(), "use"), 0..0).unwrap();
        assert!(SeriesMerger::new(RunId::new(), "use").push_piece(&piece, DecodeLimits::default()).is_err());
    }
}
