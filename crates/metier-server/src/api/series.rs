//! The time line of a run: its series, cut to a span and thinned out for drawing.
//!
//! Rows that are given out were measured; none is made up. JSON has no word for a number that is not finite: such a
//! value becomes a row without one.

use axum::http::StatusCode;
use metier_stats::Error;
use metier_types::schema::{Schema, Versioned};
use metier_types::{RunId, Series, Values};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::storage;

/// What narrows a time line.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::path("id", Form::Run, "The run."),
    Parameter::query("name", Form::Text(200), "One series by its name; without it all are given."),
    Parameter::query(
        "points",
        Form::Whole { least: 10, most: 200_000, otherwise: Some(4000) },
        "How many rows to give of each series at most.",
    ),
    Parameter::query(
        "from",
        Form::Whole { least: 0, most: i64::MAX, otherwise: Some(0) },
        "First moment, nanoseconds since the run's start.",
    ),
    Parameter::query(
        "to",
        Form::Whole { least: 0, most: i64::MAX, otherwise: Some(i64::MAX) },
        "Last moment, nanoseconds since the run's start.",
    ),
];

/// The series of a run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SeriesList {
    /// `metier.series-list/1`.
    pub schema: Schema<SeriesList>,
    /// The series, by name.
    pub series: Vec<Series>,
}

impl Versioned for SeriesList {
    const SCHEMA: &'static str = "metier.series-list/1";
}

/// The series of a run, or one of them.
pub fn list(app: &App, call: &Call) -> Result<Reply, Problem> {
    let arguments = &call.arguments;
    let id: RunId = arguments.needed("id")?;
    let (from, to) = (arguments.whole("from").unwrap_or(0), arguments.whole("to").unwrap_or(i64::MAX));
    if from > to {
        return Err(Problem::bad_field("from", &from.to_string(), format!("at most `to`, which is {to}")));
    }
    let points = arguments.whole("points").and_then(|n| usize::try_from(n).ok()).unwrap_or(4000);
    let store = app.storage.store()?;
    // An unknown run is told apart from one without series.
    super::run(&store, id)?;
    let whole = store.series(id, arguments.text("name")).map_err(storage::problem)?;
    let mut series = Vec::with_capacity(whole.len());
    // One at a time, so that a whole series is gone before the next is thinned.
    for whole in whole {
        let mut thin = metier_stats::downsample(&whole, from, to, points).map_err(problem)?;
        finite(&mut thin);
        series.push(thin);
    }
    Reply::json(&SeriesList { schema: Schema::new(), series })
}

fn problem(error: Error) -> Problem {
    match &error {
        Error::TooFewPoints { points, want, .. } => {
            let want = format!("at least {want} for this series, whose gauges each keep their extremes");
            Problem::bad_field("points", &points.to_string(), want)
        }
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Turns values that JSON cannot carry into absent ones.
fn finite(series: &mut Series) {
    for column in &mut series.columns {
        let Values::Float(values) = &mut column.values else { continue };
        if values.iter().all(|value| value.is_finite()) {
            continue;
        }
        for (row, value) in values.iter_mut().enumerate().filter(|(_, value)| !value.is_finite()) {
            *value = 0.0;
            column.absent.extend(u32::try_from(row));
        }
        column.absent.sort_unstable();
        column.absent.dedup();
    }
}

#[cfg(test)]
mod tests {
    use metier_types::{Column, Kind, Unit};

    use super::*;

    #[test]
    fn what_json_cannot_carry_becomes_absent() {
        let mut series = Series::new(RunId::new(), "host");
        series.times = vec![0, 1, 2, 3];
        series.columns.push(Column {
            name: "load1".into(),
            kind: Kind::Gauge,
            unit: Unit::Count,
            values: Values::Float(vec![f64::NAN, 1.5, f64::INFINITY, 2.0]),
            absent: vec![3],
        });
        finite(&mut series);
        assert_eq!(series.columns[0].absent, [0, 2, 3]);
        assert_eq!(series.columns[0].values, Values::Float(vec![0.0, 1.5, 0.0, 2.0]));
        assert_eq!(series.defect(), None);
    }
}
