//! A run's time line: one table of all series by time (CSV), or sparklines.

use metier_stats::peak_cores;
use metier_types::{ColumnKind, ColumnValues, Run, Series, SeriesColumn};

use crate::output::{StreamPaint, TableCell, TextTable, serialised_word, sparkline};

/// Width of a sparkline.
const BAR_WIDTH: usize = 60;

/// The columns of all series, each with the index of its series.
fn columns(series: &[Series]) -> impl Iterator<Item = (usize, &SeriesColumn)> {
    series.iter().enumerate().flat_map(|(at, series)| series.columns.iter().map(move |column| (at, column)))
}

/// `seconds`, then each column as `series.column_unit`.
pub fn csv_header(series: &[Series]) -> Vec<String> {
    let name = |(at, column): (usize, &SeriesColumn)| {
        format!("{}.{}_{}", series[at].name, column.name, serialised_word(&column.unit))
    };
    std::iter::once("seconds".to_string()).chain(columns(series).map(name)).collect()
}

/// One row for each time at which any series has a sample.
pub fn csv_rows(series: &[Series]) -> impl Iterator<Item = Vec<String>> {
    let mut next = vec![0usize; series.len()];
    std::iter::from_fn(move || {
        let times = |at: usize| series[at].times.get(next[at]).copied();
        let now = (0..series.len()).filter_map(times).min()?;
        let here: Vec<bool> = (0..series.len()).map(|at| times(at) == Some(now)).collect();
        let cell = |(at, column): (usize, &SeriesColumn)| match here[at] {
            true => cell_value(column, next[at]),
            false => String::new(),
        };
        let row = std::iter::once(exact_seconds(now)).chain(columns(series).map(cell)).collect();
        next.iter_mut().zip(&here).for_each(|(row, here)| *row += usize::from(*here));
        Some(row)
    })
}

/// Nanoseconds as seconds, without loss.
fn exact_seconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let whole = nanoseconds.unsigned_abs();
    format!("{sign}{}.{:09}", whole / 1_000_000_000, whole % 1_000_000_000)
}

fn cell_value(column: &SeriesColumn, row: usize) -> String {
    if u32::try_from(row).is_ok_and(|row| column.absent.binary_search(&row).is_ok()) {
        return String::new();
    }
    match &column.values {
        ColumnValues::Integer(values) => values.get(row).map(i64::to_string).unwrap_or_default(),
        ColumnValues::Float(values) => values.get(row).map(f64::to_string).unwrap_or_default(),
    }
}

/// Each column as a sparkline with its largest value.
pub fn series_table(run: &Run, series: &[Series], paint: StreamPaint) -> String {
    let mut text = String::new();
    for series in series {
        let span = series.times.last().zip(series.times.first()).map_or(0, |(last, first)| last - first);
        let rows = format!(
            "{}: {} rows over {}",
            series.name,
            series.times.len(),
            metier_types::Seconds(span as f64 / 1e9)
        );
        text.push_str(&format!("{}\n", paint.bold(&rows)));
        let mut table = TextTable::default().indented(2);
        for column in &series.columns {
            let per = if column.kind == ColumnKind::Counter { " /s" } else { "" };
            let (bars, most) = match sparkline::draw_sparkline(series, column, BAR_WIDTH) {
                Some(line) => {
                    let of_cores =
                        (series.name == "use" && column.name == "cpu").then(|| peak_cores(run, series));
                    let most = match of_cores.flatten() {
                        Some(peak) => format!("most {peak:.2} cores"),
                        None => format!("most {}{per}", column.unit.text(line.most)),
                    };
                    (line.bars, most)
                }
                None => (String::new(), "too few samples".to_string()),
            };
            table.add_row(vec![
                TableCell::text(&column.name),
                TableCell::text(bars).styled(StreamPaint::cyan),
                TableCell::text(most),
            ]);
        }
        text.push_str(&table.render(paint));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_types::{ColumnUnit, RunId};

    fn column(name: &str, values: ColumnValues, absent: Vec<u32>) -> SeriesColumn {
        SeriesColumn { name: name.into(), kind: ColumnKind::Gauge, unit: ColumnUnit::Bytes, values, absent }
    }

    #[test]
    fn series_of_different_rates_share_one_table() {
        let run = RunId::new();
        let fast = Series {
            times: vec![0, 100_000_000, 200_000_000],
            columns: vec![column("memory", ColumnValues::Integer(vec![1, 2, 3]), vec![1])],
            ..Series::new(run, "use")
        };
        let slow = Series {
            times: vec![0, 150_000_000],
            columns: vec![column("free", ColumnValues::Float(vec![0.5, f64::NAN]), vec![])],
            ..Series::new(run, "host")
        };
        let mut both = [fast, slow];
        both.iter_mut().for_each(Series::mask_infinities);
        assert_eq!(csv_header(&both), ["seconds", "use.memory_bytes", "host.free_bytes"]);
        let rows: Vec<_> = csv_rows(&both).map(|row| row.join(",")).collect();
        assert_eq!(rows, ["0.000000000,1,0.5", "0.100000000,,", "0.150000000,,", "0.200000000,3,"]);
    }
}
