//! The time line of an application's stages: the series `app`.
//!
//! Each stage has a column with its count so far, and one with its total time so far (durations) or
//! its last value (others). Stages beyond the number of columns are in the record only.

use std::time::Duration;

use metier_types::{ColumnKind, ColumnUnit, ColumnValues, RunId, Series, SeriesColumn, StageKind};

use super::stage_stats::StageStats;

pub const SERIES_NAME: &str = "app";
const MAX_COLUMNS: usize = 64;

/// Rows that have not been taken yet.
#[derive(Debug)]
pub struct StageTimeline {
    series: Series,
}

impl StageTimeline {
    pub fn new(run: RunId) -> Self {
        Self { series: Series::new(run, SERIES_NAME) }
    }

    /// Adds a row with the current state; no row while there is no stage.
    pub fn add_row(&mut self, at: Duration, stages: &[StageStats]) {
        let headings: Vec<StageColumn> = stages.iter().flat_map(stage_columns).take(MAX_COLUMNS).collect();
        if headings.is_empty() {
            return;
        }
        let at = (at.as_nanos() as i64).max(self.series.times.last().copied().unwrap_or(0));
        let row = self.series.times.len();
        self.series.times.push(at);
        for (place, heading) in headings.into_iter().enumerate() {
            if place == self.series.columns.len() {
                self.series.columns.push(heading.to_column(row));
            }
            match &mut self.series.columns[place].values {
                ColumnValues::Integer(values) => values.push(heading.value as i64),
                ColumnValues::Float(values) => values.push(heading.value),
            }
        }
    }

    /// Takes the rows since the last call.
    pub fn take_rows(&mut self) -> Option<Series> {
        if self.series.times.is_empty() {
            return None;
        }
        let mut empty = Series::new(self.series.run, SERIES_NAME);
        empty.columns = self.series.columns.iter().map(empty_column).collect();
        Some(std::mem::replace(&mut self.series, empty))
    }
}

fn empty_column(column: &SeriesColumn) -> SeriesColumn {
    let values = match column.values {
        ColumnValues::Integer(_) => ColumnValues::Integer(Vec::new()),
        ColumnValues::Float(_) => ColumnValues::Float(Vec::new()),
    };
    SeriesColumn { name: column.name.clone(), values, absent: Vec::new(), ..*column }
}

struct StageColumn {
    name: String,
    kind: ColumnKind,
    unit: ColumnUnit,
    is_whole: bool,
    value: f64,
}

impl StageColumn {
    /// A column with this heading; its rows so far are absent.
    fn to_column(&self, rows: usize) -> SeriesColumn {
        SeriesColumn {
            name: self.name.clone(),
            kind: self.kind,
            unit: self.unit,
            values: if self.is_whole {
                ColumnValues::Integer(vec![0; rows])
            } else {
                ColumnValues::Float(vec![0.0; rows])
            },
            absent: (0..rows as u32).collect(),
        }
    }
}

fn stage_columns(stage: &StageStats) -> Vec<StageColumn> {
    let name = match stage.labels.as_str() {
        "" => stage.name.clone(),
        labels => format!("{}{{{labels}}}", stage.name),
    };
    let count = StageColumn {
        name: format!("{name} count"),
        kind: ColumnKind::Counter,
        unit: ColumnUnit::Count,
        is_whole: true,
        value: stage.count.round(),
    };
    let beside = match stage.kind {
        StageKind::Counter => return vec![count],
        StageKind::Duration => StageColumn {
            name: format!("{name} time"),
            kind: ColumnKind::Counter,
            unit: ColumnUnit::Nanoseconds,
            is_whole: true,
            value: (stage.sum * 1e9).round(),
        },
        kind => StageColumn {
            name: format!("{name} value"),
            kind: ColumnKind::Gauge,
            unit: if kind == StageKind::Rate { ColumnUnit::Hertz } else { ColumnUnit::Count },
            is_whole: false,
            value: stage.last,
        },
    };
    vec![count, beside]
}

#[cfg(test)]
mod tests {
    use metier_types::StageSource;

    use super::super::message::{AppMessage, MessageNumber};
    use super::*;

    #[test]
    fn rows_are_well_formed_while_stages_come_and_chunks_go() {
        let mut stages: Vec<StageStats> = Vec::new();
        let mut rows = StageTimeline::new(RunId::new());
        rows.add_row(Duration::ZERO, &stages);
        assert_eq!(rows.take_rows(), None);
        for second in 0..100u64 {
            let name = format!("s{second}");
            let kind = if second % 2 == 0 { StageKind::Duration } else { StageKind::Value };
            let message = AppMessage {
                name: name.into(),
                labels: "".into(),
                kind,
                source: StageSource::Lines,
                number: MessageNumber::Observation(0.0),
                at_ns: None,
            };
            stages.push(StageStats::new(&message));
            stages.iter_mut().for_each(|stage| stage.add_number(MessageNumber::Observation(0.25), None));
            rows.add_row(Duration::from_secs(second), &stages);
            if second % 10 == 9 {
                let chunk = rows.take_rows().unwrap();
                assert_eq!(chunk.find_defect(), None);
                assert!(chunk.columns.len() <= MAX_COLUMNS);
                let count = chunk.column("s0 count").unwrap();
                assert_eq!(count.values.value_at(9), Some(second as f64 + 1.0));
                let time = chunk.column("s0 time").unwrap();
                assert_eq!(time.values.value_at(9), Some((second as f64 + 1.0) * 0.25e9));
            }
        }
    }
}
