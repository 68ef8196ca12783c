//! Converts series columns to lines for drawing and to window means.

use metier_stats::busy_cores::{RATE_WINDOW, column_readings, interpolate_counter};
use metier_stats::downsample;
use metier_types::{ColumnKind, ColumnUnit, Series, SeriesColumn};

/// Maximum number of points per line.
const MAX_POINTS: usize = 240;

/// A line: seconds from the start, and values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChartLine {
    pub label: String,
    /// Colour number.
    pub colour: usize,
    /// Whether the line is in the background.
    pub is_faint: bool,
    /// The points, in time order.
    pub points: Vec<(f64, f64)>,
    /// The peak, where it is known better than from the points.
    pub peak: Option<f64>,
}

impl ChartLine {
    pub fn max_value(&self) -> f64 {
        self.peak.unwrap_or_else(|| self.max_drawn())
    }

    /// The largest drawn value.
    pub fn max_drawn(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// The interpolated value at a time.
    pub fn value_at(&self, time: f64) -> Option<f64> {
        let after = self.points.partition_point(|point| point.0 <= time);
        let (before, next) = (self.points.get(after.checked_sub(1)?)?, self.points.get(after));
        match next {
            None => (time - before.0 < 1e-9).then_some(before.1),
            Some(next) => {
                Some(before.1 + (next.1 - before.1) * (time - before.0) / (next.0 - before.0).max(1e-12))
            }
        }
    }
}

/// Times in seconds and values of a column, without absent rows.
fn column_points(series: &Series, column: &SeriesColumn) -> Vec<(f64, f64)> {
    let readings = column_readings(series, column);
    readings.into_iter().map(|(time_ns, value)| (time_ns as f64 / 1e9, value)).collect()
}

/// Scale from a counter's rate per second to the drawn unit: cores, watts, bytes per second.
fn rate_scale(unit: ColumnUnit) -> f64 {
    match unit {
        ColumnUnit::Nanoseconds => 1e-9,
        ColumnUnit::Microjoules => 1e-6,
        _ => 1.0,
    }
}

/// A column as a line: gauges as they were read, counters as exact means of short intervals.
pub fn column_line(series: &Series, name: &str) -> Option<ChartLine> {
    let column = series.column(name)?;
    let points = match column.kind {
        ColumnKind::Counter => rate_points(&column_points(series, column), rate_scale(column.unit)),
        ColumnKind::Gauge => {
            let mut alone = Series { columns: vec![column.clone()], ..series.clone() };
            if alone.find_defect().is_some() {
                return None;
            }
            if let Ok(thin) = downsample(&alone, i64::MIN, i64::MAX, MAX_POINTS) {
                alone = thin;
            }
            column_points(&alone, alone.columns.first()?)
        }
    };
    (points.len() > 1).then(|| ChartLine { label: name.to_string(), points, ..ChartLine::default() })
}

fn rate_points(rows: &[(f64, f64)], scale: f64) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Vec::new() };
    // Rates over less time would show the kernel's tick.
    let windows = ((last.0 - first.0) / RATE_WINDOW.get()).floor().max(1.0) as usize;
    let stretches = MAX_POINTS.min(rows.len().saturating_sub(1)).min(windows);
    let each = (last.0 - first.0) / stretches.max(1) as f64;
    if each <= 0.0 {
        return Vec::new();
    }
    let edges = (0..=stretches).filter_map(|at| {
        // The last edge is exactly the last reading, without rounding errors.
        let time = if at == stretches { last.0 } else { first.0 + each * at as f64 };
        Some((time, interpolate_counter(rows, time)?))
    });
    let edges: Vec<(f64, f64)> = edges.collect();
    let mut points: Vec<(f64, f64)> = edges
        .windows(2)
        .map(|pair| {
            (
                (pair[0].0 + pair[1].0) / 2.0,
                ((pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).max(0.0) * scale,
            )
        })
        .collect();
    // A mean applies to its whole interval, so the ends of the line are drawn too.
    if let (Some(head), Some(tail)) = (points.first().copied(), points.last().copied()) {
        points.insert(0, (first.0, head.1));
        points.push((last.0, tail.1));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_types::{ColumnValues, RunId};

    fn counter(times: &[i64], values: Vec<i64>) -> Series {
        let column = SeriesColumn {
            name: "cpu".into(),
            kind: ColumnKind::Counter,
            unit: ColumnUnit::Nanoseconds,
            values: ColumnValues::Integer(values),
            absent: vec![],
        };
        Series {
            times: times.iter().map(|ms| ms * 1_000_000).collect(),
            columns: vec![column],
            ..Series::new(RunId::new(), "use")
        }
    }

    #[test]
    fn the_mean_of_a_line_is_what_the_counter_counted() {
        let times: Vec<i64> = (0..2000).map(|at| at * 70).collect();
        let values: Vec<i64> = (0..2000).map(|at: i64| at * at * 1000).collect();
        let series = counter(&times, values.clone());
        let line = column_line(&series, "cpu").unwrap();
        assert_eq!(line.points.len(), MAX_POINTS + 2);
        let inner = &line.points[1..line.points.len() - 1];
        let mean = inner.iter().map(|point| point.1).sum::<f64>() / inner.len() as f64;
        let want = values[1999] as f64 / 1e9 / (1999.0 * 0.07);
        assert!((mean / want - 1.0).abs() < 1e-9, "{mean} {want}");
    }
}
