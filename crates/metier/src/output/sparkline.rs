//! A column of a series as one line of bars, from 0 to its largest value.

use metier_stats::busy_cores::{column_readings, counter_rates};
use metier_types::{ColumnKind, Series, SeriesColumn};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A sparkline of a column, and its largest value (per second for a counter).
pub struct SparklineBars {
    /// One character for each time slot; a space where there are no samples.
    pub bars: String,
    /// The value of a full bar.
    pub most: f64,
}

/// Draws a column in at most `width` characters; `None` if there are too few values.
pub fn draw_sparkline(series: &Series, column: &SeriesColumn, width: usize) -> Option<SparklineBars> {
    let points = sample_intervals(series, column);
    let (first, last) = (points.first()?.0, points.last()?.1);
    if last <= first || width == 0 {
        return None;
    }
    let width = width.min(points.len());
    let span = (last - first) as f64;
    let mut stretches: Vec<Option<f64>> = vec![None; width];
    for (from, to, value) in points {
        let at = |time: i64| (((time - first) as f64 / span * width as f64) as usize).min(width - 1);
        // A long gap between samples fills all its slots.
        for slot in &mut stretches[at(from)..=at((to - 1).max(from))] {
            *slot = Some(slot.map_or(value, |most: f64| most.max(value)));
        }
    }
    let most = stretches.iter().flatten().copied().fold(0.0, f64::max);
    Some(SparklineBars { bars: stretches.iter().map(|value| bar_of(*value, most)).collect(), most })
}

/// Draws evenly spaced values in at most `width` characters, from 0 or the lowest negative value.
pub fn bars_of(values: &[f64], width: usize) -> String {
    let low = values.iter().copied().fold(0.0, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let slots = width.min(values.len());
    let slot = |at: usize| {
        let part = &values[at * values.len() / slots..(at + 1) * values.len() / slots];
        bar_of(part.iter().copied().reduce(f64::max).map(|value| value - low), high - low)
    };
    (0..slots).map(slot).collect()
}

fn bar_of(value: Option<f64>, most: f64) -> char {
    match value {
        None => ' ',
        Some(value) if most > 0.0 => BARS[((value / most * 7.0).round() as usize).min(7)],
        Some(_) => BARS[0],
    }
}

/// Start, end and value of intervals: rates per second of a counter, the larger of two neighbouring
/// values of a gauge.
fn sample_intervals(series: &Series, column: &SeriesColumn) -> Vec<(i64, i64, f64)> {
    match column.kind {
        ColumnKind::Counter => counter_rates(series, column)
            .into_iter()
            .map(|rate| (rate.from_ns, rate.to_ns, rate.per_second))
            .collect(),
        ColumnKind::Gauge => {
            let readings = column_readings(series, column);
            let pairs = readings.windows(2).filter(|pair| pair[1].0 > pair[0].0);
            pairs.map(|pair| (pair[0].0, pair[1].0, pair[0].1.max(pair[1].1))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_types::{ColumnUnit, ColumnValues, RunId};

    fn series(kind: ColumnKind, values: Vec<i64>) -> Series {
        let times = (0..values.len() as i64).map(|row| row * 1_000_000_000).collect();
        let values = ColumnValues::Integer(values);
        let column =
            SeriesColumn { name: "x".into(), kind, unit: ColumnUnit::Bytes, values, absent: Vec::new() };
        Series { times, columns: vec![column], ..Series::new(RunId::new(), "use") }
    }

    #[test]
    fn counters_show_their_rate_and_gauges_their_value() {
        let counter = series(ColumnKind::Counter, vec![0, 10, 10, 20]);
        let line = draw_sparkline(&counter, &counter.columns[0], 60).unwrap();
        assert_eq!((line.bars.as_str(), line.most), ("█▁█", 10.0));
        let gauge = series(ColumnKind::Gauge, vec![0, 0, 7, 7]);
        assert_eq!(draw_sparkline(&gauge, &gauge.columns[0], 60).unwrap().bars, "▁██");
    }

    #[test]
    fn too_little_to_draw_draws_nothing() {
        for values in [vec![], vec![1]] {
            let series = series(ColumnKind::Gauge, values);
            assert!(draw_sparkline(&series, &series.columns[0], 60).is_none());
        }
    }
}
