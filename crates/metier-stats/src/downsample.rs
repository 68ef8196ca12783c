//! Downsamples a series for drawing.
//!
//! The time range is cut into buckets of equal length. Each bucket keeps its first and last row.
//! For each gauge, and each counter with fewer readings than the rest, it also keeps the rows of
//! the smallest and largest value. So a spike of one sample stays visible, and the difference of a
//! counter over any bucket stays exact. Rows are kept whole: all values were measured at their
//! time, none is averaged.

use std::collections::BTreeSet;

use metier_types::{ColumnKind, ColumnValues, ExtraFields, Series, SeriesColumn};

use crate::Error;

/// The rows of a series in a time range (nanoseconds since the start of the run, both ends
/// included), reduced to at most `points` rows. A short series is returned whole.
pub fn downsample(series: &Series, from: i64, to: i64, points: usize) -> Result<Series, Error> {
    if let Some(defect) = series.find_defect() {
        return Err(Error::BrokenSeries { defect });
    }
    let start = series.times.partition_point(|time| *time < from);
    let end = series.times.partition_point(|time| *time <= to).max(start);
    if end - start <= points {
        return Ok(take_rows(series, &(start..end).collect::<Vec<_>>()));
    }
    let gauges: Vec<GaugeColumn> = series
        .columns
        .iter()
        .filter(|c| c.kind == ColumnKind::Gauge || !c.absent.is_empty())
        .map(GaugeColumn::new)
        .collect();
    let each = 2 + 2 * gauges.len();
    if points < each {
        let name = series.name.clone();
        return Err(Error::TooFewPoints { series: name, points, gauges: gauges.len(), want: each });
    }
    // Extremes often coincide, so more buckets fit than in the worst case: start with the maximum.
    let mut buckets = points / 2;
    loop {
        let rows = select_rows(series, start..end, &gauges, buckets);
        if rows.len() <= points || buckets <= points / each {
            return Ok(take_rows(series, &rows));
        }
        buckets = (buckets * 4 / 5).max(points / each);
    }
}

struct GaugeColumn<'a> {
    column: &'a SeriesColumn,
    absent: BTreeSet<u32>,
}

impl<'a> GaugeColumn<'a> {
    fn new(column: &'a SeriesColumn) -> Self {
        Self { column, absent: column.absent.iter().copied().collect() }
    }

    /// The value of a row, if it is present and comparable.
    fn value_at(&self, row: usize) -> Option<f64> {
        let there = self.absent.is_empty() || !self.absent.contains(&(row as u32));
        self.column.values.value_at(row).filter(|x| there && !x.is_nan())
    }
}

fn select_rows(
    series: &Series,
    rows: std::ops::Range<usize>,
    gauges: &[GaugeColumn<'_>],
    buckets: usize,
) -> Vec<usize> {
    let first = i128::from(series.times[rows.start]);
    // One more than the span, so that the last row falls into the last bucket.
    let span = i128::from(series.times[rows.end - 1]) - first + 1;
    let bucket_of = |row: usize| (i128::from(series.times[row]) - first) * buckets as i128 / span;
    let mut numbers = BTreeSet::new();
    let mut at = rows.start;
    while at < rows.end {
        let bucket = bucket_of(at);
        let mut next = at + 1;
        while next < rows.end && bucket_of(next) == bucket {
            next += 1;
        }
        numbers.extend([at, next - 1]);
        for gauge in gauges {
            let mut extremes: Option<((usize, f64), (usize, f64))> = None;
            for row in at..next {
                if let Some(x) = gauge.value_at(row) {
                    let (least, most) = extremes.get_or_insert(((row, x), (row, x)));
                    if x < least.1 {
                        *least = (row, x);
                    }
                    if x > most.1 {
                        *most = (row, x);
                    }
                }
            }
            numbers.extend(extremes.into_iter().flat_map(|(least, most)| [least.0, most.0]));
        }
        at = next;
    }
    numbers.into_iter().collect()
}

/// A series of the selected rows.
fn take_rows(series: &Series, rows: &[usize]) -> Series {
    let column = |column: &SeriesColumn| SeriesColumn {
        name: column.name.clone(),
        kind: column.kind,
        unit: column.unit,
        values: match &column.values {
            ColumnValues::Integer(values) => {
                ColumnValues::Integer(rows.iter().map(|row| values[*row]).collect())
            }
            ColumnValues::Float(values) => ColumnValues::Float(rows.iter().map(|row| values[*row]).collect()),
        },
        absent: rows
            .iter()
            .enumerate()
            .filter(|(_, row)| column.absent.binary_search(&(**row as u32)).is_ok())
            .map(|(at, _)| at as u32)
            .collect(),
    };
    Series {
        times: rows.iter().map(|row| series.times[*row]).collect(),
        columns: series.columns.iter().map(column).collect(),
        extra: ExtraFields::new(),
        ..Series::new(series.run, series.name.clone())
    }
}
