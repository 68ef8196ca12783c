//! The time line of a run: its series, cut to a time range and downsampled for drawing.
//!
//! Every row was measured; none is interpolated. JSON cannot express a number that is not finite,
//! so such a value becomes absent.

use axum::http::StatusCode;
use metier_stats::Error;
use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{ColumnValues, RunId, Series};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::ProblemDetails;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

/// Filters of a time line.
pub const PARAMETERS: &[RouteParameter] = &[
    RouteParameter::path("id", ParameterForm::Run, "The run."),
    RouteParameter::query(
        "name",
        ParameterForm::Text(200),
        "One series by its name; without it all are given.",
    ),
    RouteParameter::query(
        "points",
        ParameterForm::Whole { least: 10, most: 200_000, otherwise: Some(4000) },
        "How many rows to give of each series at most.",
    ),
    RouteParameter::query(
        "from",
        ParameterForm::Whole { least: 0, most: i64::MAX, otherwise: Some(0) },
        "First moment, nanoseconds since the run's start.",
    ),
    RouteParameter::query(
        "to",
        ParameterForm::Whole { least: 0, most: i64::MAX, otherwise: Some(i64::MAX) },
        "Last moment, nanoseconds since the run's start.",
    ),
];

/// The series of a run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SeriesList {
    /// `metier.series-list/1`.
    pub schema: RecordSchema<SeriesList>,
    /// The series, by name.
    pub series: Vec<Series>,
}

impl VersionedRecord for SeriesList {
    const SCHEMA: &'static str = "metier.series-list/1";
}

/// All series of a run, or one of them.
pub fn list_series(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let arguments = &call.arguments;
    let id: RunId = arguments.required("id")?;
    let (from, to) = (arguments.integer("from").unwrap_or(0), arguments.integer("to").unwrap_or(i64::MAX));
    if from > to {
        return Err(ProblemDetails::bad_field(
            "from",
            &from.to_string(),
            format!("at most `to`, which is {to}"),
        ));
    }
    let points = arguments.integer("points").and_then(|n| usize::try_from(n).ok()).unwrap_or(4000);
    let store = app.storage.store()?;
    // Distinguishes an unknown run from a run without series.
    super::load_run(&store, id)?;
    let whole = store.series(id, arguments.text("name")).map_err(storage::store_problem)?;
    let mut series = Vec::with_capacity(whole.len());
    // One at a time, so that a whole series is freed before the next is downsampled.
    for whole in whole {
        let mut thin = metier_stats::downsample(&whole, from, to, points).map_err(downsample_problem)?;
        mark_non_finite_absent(&mut thin);
        series.push(thin);
    }
    HandlerResponse::json(&SeriesList { schema: RecordSchema::new(), series })
}

fn downsample_problem(error: Error) -> ProblemDetails {
    match &error {
        Error::TooFewPoints { points, want, .. } => {
            let want = format!("at least {want} for this series, whose gauges each keep their extremes");
            ProblemDetails::bad_field("points", &points.to_string(), want)
        }
        _ => ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Makes values absent that JSON cannot express.
fn mark_non_finite_absent(series: &mut Series) {
    for column in &mut series.columns {
        let ColumnValues::Float(values) = &mut column.values else { continue };
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
    use metier_types::{ColumnKind, ColumnUnit, SeriesColumn};

    use super::*;

    #[test]
    fn what_json_cannot_carry_becomes_absent() {
        let mut series = Series::new(RunId::new(), "host");
        series.times = vec![0, 1, 2, 3];
        series.columns.push(SeriesColumn {
            name: "load1".into(),
            kind: ColumnKind::Gauge,
            unit: ColumnUnit::Count,
            values: ColumnValues::Float(vec![f64::NAN, 1.5, f64::INFINITY, 2.0]),
            absent: vec![3],
        });
        mark_non_finite_absent(&mut series);
        assert_eq!(series.columns[0].absent, [0, 2, 3]);
        assert_eq!(series.columns[0].values, ColumnValues::Float(vec![0.0, 1.5, 0.0, 2.0]));
        assert_eq!(series.find_defect(), None);
    }
}
