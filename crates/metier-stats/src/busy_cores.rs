//! Busy cores over time, from the CPU time counter of a run.
//!
//! The kernel brings the CPU time of a running task up to date at its tick, every 1 to 10 ms. A
//! rate between two readings that lie close together therefore shows the tick and not the task:
//! readings 3 ms apart show 6 busy cores on a machine that has 2. So every rate here covers at
//! least [`RATE_WINDOW`], which is also the period of the kernel's CPU quota.

use std::collections::VecDeque;

use metier_types::{ColumnKind, Run, Seconds, Series, SeriesColumn};

/// Shortest interval of a rate.
pub const RATE_WINDOW: Seconds = Seconds(0.1);
const RATE_WINDOW_NS: i64 = 100_000_000;
/// Limit of windows of one series.
const MAX_WINDOWS: usize = 1_000_000;

/// The peak of busy cores: the largest mean over an interval between two readings that is as short
/// as possible, but not shorter than [`RATE_WINDOW`]. It never exceeds the number of processors. A
/// shorter run has its mean as its peak.
#[derive(Debug)]
pub struct CorePeakTracker {
    processors: f64,
    /// Time and CPU time of the readings from which an interval to the next one may start.
    readings: VecDeque<(i64, u64)>,
    first: Option<(i64, u64)>,
    peak: Option<f64>,
}

impl CorePeakTracker {
    /// A tracker of a run that may use this many processors.
    pub fn new(processors: u32) -> Self {
        let processors = f64::from(processors.max(1));
        Self { processors, readings: VecDeque::new(), first: None, peak: None }
    }

    /// Adds a reading; times and CPU times are nanoseconds and ascend.
    pub fn add_reading(&mut self, time_ns: i64, cpu_ns: u64) {
        self.first.get_or_insert((time_ns, cpu_ns));
        self.readings.push_back((time_ns, cpu_ns));
        // Its first entry becomes the latest reading that is a window away.
        while self.readings.get(1).is_some_and(|second| time_ns - second.0 >= RATE_WINDOW_NS) {
            self.readings.pop_front();
        }
        let start = self.readings.front().copied();
        if let Some(cores) = start
            .filter(|start| time_ns - start.0 >= RATE_WINDOW_NS)
            .and_then(|start| busy_cores(start, (time_ns, cpu_ns)).map(|cores| cores.min(self.processors)))
        {
            self.peak = Some(self.peak.map_or(cores, |peak| peak.max(cores)));
        }
    }

    /// The peak so far; `None` below two readings.
    pub fn peak(&self) -> Option<f64> {
        let whole = || busy_cores(self.first?, self.readings.back().copied()?);
        self.peak.or_else(whole).map(|cores| cores.min(self.processors))
    }
}

fn busy_cores(from: (i64, u64), to: (i64, u64)) -> Option<f64> {
    let elapsed = to.0 - from.0;
    (elapsed > 0).then(|| to.1.saturating_sub(from.1) as f64 / elapsed as f64)
}

/// The peak of busy cores of a run: that of its record, else (it still runs, it was interrupted, an
/// older version measured it) that of its series `use` so far.
pub fn peak_cores(run: &Run, series: &Series) -> Option<f64> {
    run.cpu.peak_cores.or_else(|| {
        let column = series.column("cpu").filter(|column| column.kind == ColumnKind::Counter)?;
        let mut tracker = CorePeakTracker::new(u32::MAX);
        let readings = column_readings(series, column);
        readings.into_iter().for_each(|(time_ns, cpu)| tracker.add_reading(time_ns, cpu.max(0.0) as u64));
        tracker.peak()
    })
}

/// Growth of a counter between two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterRate {
    /// Start and end, in nanoseconds since the start of the run.
    pub from_ns: i64,
    pub to_ns: i64,
    pub per_second: f64,
}

/// Times in nanoseconds and values of a column, without absent rows.
pub fn column_readings(series: &Series, column: &SeriesColumn) -> Vec<(i64, f64)> {
    let there = |row: &usize| column.absent.binary_search(&(*row as u32)).is_err();
    (0..series.times.len())
        .filter(there)
        .filter_map(|row| Some((*series.times.get(row)?, column.values.value_at(row)?)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// The rates of a counter for drawing: readings closer than [`RATE_WINDOW`] are joined. The rest at
/// the end joins the last interval. Empty for a gauge.
pub fn counter_rates(series: &Series, column: &SeriesColumn) -> Vec<CounterRate> {
    if column.kind != ColumnKind::Counter {
        return Vec::new();
    }
    let readings = column_readings(series, column);
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else { return Vec::new() };
    let mut edges = vec![*first];
    for reading in &readings {
        if edges.last().is_some_and(|edge| reading.0 - edge.0 >= RATE_WINDOW_NS) {
            edges.push(*reading);
        }
    }
    if edges.last().is_some_and(|edge| edge.0 < last.0) {
        if edges.len() > 1 {
            edges.pop();
        }
        edges.push(*last);
    }
    edges
        .windows(2)
        .map(|pair| CounterRate {
            from_ns: pair[0].0,
            to_ns: pair[1].0,
            per_second: ((pair[1].1 - pair[0].1) / ((pair[1].0 - pair[0].0) as f64 / 1e9)).max(0.0),
        })
        .collect()
}

/// Interpolates a counter between its readings, which have times in seconds.
pub fn interpolate_counter(rows: &[(f64, f64)], time: f64) -> Option<f64> {
    let after = rows.partition_point(|row| row.0 < time);
    let next = rows.get(after)?;
    match after.checked_sub(1).and_then(|before| rows.get(before)) {
        None => ((next.0 - time).abs() < 1e-9).then_some(next.1),
        Some(before) => {
            Some(before.1 + (next.1 - before.1) * (time - before.0) / (next.0 - before.0).max(1e-12))
        }
    }
}

/// Busy cores as means over windows of this length; the last window may be shorter, but at least
/// half as long. Empty where the series has no counter of CPU time.
pub fn window_means(series: &Series, name: &str, window: Seconds) -> Vec<f64> {
    let Some(column) = series.column(name).filter(|column| column.kind == ColumnKind::Counter) else {
        return Vec::new();
    };
    let readings = column_readings(series, column);
    let rows: Vec<(f64, f64)> =
        readings.into_iter().map(|(time_ns, cpu_ns)| (time_ns as f64 / 1e9, cpu_ns / 1e9)).collect();
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Vec::new() };
    let mut found = Vec::new();
    let mut from = first.0;
    while last.0 - from >= window.get() / 2.0 && found.len() < MAX_WINDOWS {
        let to = (from + window.get()).min(last.0);
        if let Some((start, end)) = interpolate_counter(&rows, from).zip(interpolate_counter(&rows, to)) {
            found.push(((end - start) / (to - from)).max(0.0));
        }
        from = to;
    }
    found
}

#[cfg(test)]
mod tests {
    use metier_types::{ColumnUnit, ColumnValues, RunId};

    use super::*;

    fn peak(processors: u32, readings: &[(i64, u64)]) -> Option<f64> {
        let mut tracker = CorePeakTracker::new(processors);
        readings.iter().for_each(|(ms, cpu)| tracker.add_reading(ms * 1_000_000, cpu * 1_000_000));
        tracker.peak()
    }

    #[test]
    fn a_tick_between_two_close_readings_is_no_peak() {
        // One busy core; the last reading comes 3 ms after the one before, with 20 ms of CPU time.
        let readings = [(0, 0), (100, 99), (200, 180), (203, 200)];
        let found = peak(2, &readings).unwrap();
        assert!((found - 1.0).abs() < 0.03, "{found}");
        assert_eq!(peak(1, &[(0, 0), (100, 104)]), Some(1.0), "one processor gives one core");
    }

    #[test]
    fn a_run_shorter_than_the_window_has_its_mean() {
        assert_eq!(peak(4, &[(0, 0), (50, 25)]), Some(0.5));
        assert_eq!(peak(4, &[(0, 0)]), None);
    }

    #[test]
    fn drawn_rates_add_up_to_the_counter() {
        let times: Vec<i64> = [0, 30, 120, 121, 260, 290].iter().map(|ms| ms * 1_000_000).collect();
        let column = SeriesColumn {
            name: "cpu".into(),
            kind: ColumnKind::Counter,
            unit: ColumnUnit::Nanoseconds,
            values: ColumnValues::Integer(vec![0, 10, 60, 70, 90, 95]),
            absent: vec![],
        };
        let series = Series { times, columns: vec![column], ..Series::new(RunId::new(), "use") };
        let rates = counter_rates(&series, &series.columns[0]);
        let sum: f64 =
            rates.iter().map(|rate| rate.per_second * (rate.to_ns - rate.from_ns) as f64 / 1e9).sum();
        assert!((sum - 95.0).abs() < 1e-9, "{rates:?}");
        assert!(rates.iter().all(|rate| rate.to_ns - rate.from_ns >= RATE_WINDOW_NS), "{rates:?}");
    }

    #[test]
    fn windows_are_exact_means_of_the_counter() {
        // One core for one second, two for the next, then none for half a second.
        let times = [0, 500, 1500, 2000, 2500].map(|ms| ms * 1_000_000).to_vec();
        let column = SeriesColumn {
            name: "cpu".into(),
            kind: ColumnKind::Counter,
            unit: ColumnUnit::Nanoseconds,
            values: ColumnValues::Integer([0, 500, 2000, 3000, 3000].map(|ms| ms * 1_000_000).to_vec()),
            absent: vec![],
        };
        let series = Series { times, columns: vec![column], ..Series::new(RunId::new(), "use") };
        let found = window_means(&series, "cpu", Seconds(1.0));
        assert_eq!(found.len(), 3);
        assert!(
            (found[0] - 1.25).abs() < 1e-9 && (found[1] - 1.75).abs() < 1e-9 && found[2] == 0.0,
            "{found:?}"
        );
        assert!(window_means(&series, "absent", Seconds(1.0)).is_empty());
    }
}
