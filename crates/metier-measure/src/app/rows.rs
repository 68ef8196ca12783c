//! The time line of an application's stages: the series `app`.
//!
//! Of each stage a count so far, and beside it the time so far (durations) or the last value (others). Stages beyond the
//! number of columns are in the record, not in the picture.

use std::time::Duration;

use metier_types::{Column, Kind, RunId, Series, StageKind, Unit, Values};

use super::tally::Tally;

pub const NAME: &str = "app";
const COLUMNS: usize = 64;

/// Rows that have not been handed on yet.
#[derive(Debug)]
pub struct Rows {
    series: Series,
}

impl Rows {
    pub fn new(run: RunId) -> Self {
        Self { series: Series::new(run, NAME) }
    }

    /// Adds a row with what is known now; nothing where there is no stage yet.
    pub fn add(&mut self, at: Duration, stages: &[Tally]) {
        let headings: Vec<Heading> = stages.iter().flat_map(headings).take(COLUMNS).collect();
        if headings.is_empty() {
            return;
        }
        let at = (at.as_nanos() as i64).max(self.series.times.last().copied().unwrap_or(0));
        let row = self.series.times.len();
        self.series.times.push(at);
        for (place, heading) in headings.into_iter().enumerate() {
            if place == self.series.columns.len() {
                self.series.columns.push(heading.column(row));
            }
            match &mut self.series.columns[place].values {
                Values::Integer(values) => values.push(heading.value as i64),
                Values::Float(values) => values.push(heading.value),
            }
        }
    }

    /// The rows since the last call.
    pub fn take(&mut self) -> Option<Series> {
        if self.series.times.is_empty() {
            return None;
        }
        let mut empty = Series::new(self.series.run, NAME);
        empty.columns = self.series.columns.iter().map(cleared).collect();
        Some(std::mem::replace(&mut self.series, empty))
    }
}

fn cleared(column: &Column) -> Column {
    let values = match column.values {
        Values::Integer(_) => Values::Integer(Vec::new()),
        Values::Float(_) => Values::Float(Vec::new()),
    };
    Column { name: column.name.clone(), values, absent: Vec::new(), ..*column }
}

struct Heading {
    name: String,
    kind: Kind,
    unit: Unit,
    is_whole: bool,
    value: f64,
}

impl Heading {
    /// An empty column with this heading; the rows before it are absent.
    fn column(&self, rows: usize) -> Column {
        Column {
            name: self.name.clone(),
            kind: self.kind,
            unit: self.unit,
            values: if self.is_whole {
                Values::Integer(vec![0; rows])
            } else {
                Values::Float(vec![0.0; rows])
            },
            absent: (0..rows as u32).collect(),
        }
    }
}

fn headings(stage: &Tally) -> Vec<Heading> {
    let name = match stage.labels.as_str() {
        "" => stage.name.clone(),
        labels => format!("{}{{{labels}}}", stage.name),
    };
    let count = Heading {
        name: format!("{name} count"),
        kind: Kind::Counter,
        unit: Unit::Count,
        is_whole: true,
        value: stage.count.round(),
    };
    let beside = match stage.kind {
        StageKind::Counter => return vec![count],
        StageKind::Duration => Heading {
            name: format!("{name} time"),
            kind: Kind::Counter,
            unit: Unit::Nanoseconds,
            is_whole: true,
            value: (stage.sum * 1e9).round(),
        },
        kind => Heading {
            name: format!("{name} value"),
            kind: Kind::Gauge,
            unit: if kind == StageKind::Rate { Unit::Hertz } else { Unit::Count },
            is_whole: false,
            value: stage.last,
        },
    };
    vec![count, beside]
}

#[cfg(test)]
mod tests {
    use metier_types::StageSource;

    use super::super::message::{Message, Number};
    use super::*;

    #[test]
    fn rows_are_well_formed_while_stages_come_and_chunks_go() {
        let mut stages: Vec<Tally> = Vec::new();
        let mut rows = Rows::new(RunId::new());
        rows.add(Duration::ZERO, &stages);
        assert_eq!(rows.take(), None);
        for second in 0..100u64 {
            let name = format!("s{second}");
            let kind = if second % 2 == 0 { StageKind::Duration } else { StageKind::Value };
            let message = Message {
                name: name.into(),
                labels: "".into(),
                kind,
                source: StageSource::Lines,
                number: Number::One(0.0),
                at_ns: None,
            };
            stages.push(Tally::new(&message));
            stages.iter_mut().for_each(|stage| stage.take(Number::One(0.25), None));
            rows.add(Duration::from_secs(second), &stages);
            if second % 10 == 9 {
                let chunk = rows.take().unwrap();
                assert_eq!(chunk.defect(), None);
                assert!(chunk.columns.len() <= COLUMNS);
                let count = chunk.column("s0 count").unwrap();
                assert_eq!(count.values.number(9), Some(second as f64 + 1.0));
                let time = chunk.column("s0 time").unwrap();
                assert_eq!(time.values.number(9), Some((second as f64 + 1.0) * 0.25e9));
            }
        }
    }
}
