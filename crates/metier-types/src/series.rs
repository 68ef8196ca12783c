//! Time series of a run.
//!
//! A series is a table with one shared time column. A run has several, each with its own rate:
//! `use` (the run's own cgroup), `host` (the machine around it), `gpu`, `energy`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{Bytes, Celsius, ExtraFields, Hertz, Joules, Ratio, RunId, Seconds, Watts};

/// How a column's values relate to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// Only grows; its rate of change is the useful value.
    Counter,
    /// An independent value at each time.
    Gauge,
}

/// The unit of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColumnUnit {
    /// Seconds × 10⁻⁹; used by integer time counters.
    Nanoseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Joules.
    Joules,
    /// Joules × 10⁻⁶; used by integer energy counters.
    Microjoules,
    /// Watts.
    Watts,
    /// A dimensionless share; 1 is the whole.
    Ratio,
    /// Hertz.
    Hertz,
    /// Degrees Celsius.
    Celsius,
    /// A plain count.
    Count,
}

impl ColumnUnit {
    /// A value in this unit, as people write it.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Seconds => Seconds(value).to_string(),
            Self::Nanoseconds => Seconds(value / 1e9).to_string(),
            Self::Bytes => Bytes(value.max(0.0).round() as u64).to_string(),
            Self::Joules => Joules(value).to_string(),
            Self::Microjoules => Joules(value / 1e6).to_string(),
            Self::Watts => Watts(value).to_string(),
            Self::Ratio => Ratio(value).to_string(),
            Self::Hertz => Hertz(value).to_string(),
            Self::Celsius => Celsius(value).to_string(),
            Self::Count if value.fract() == 0.0 => format!("{value:.0}"),
            Self::Count => format!("{value:.2}"),
        }
    }
}

/// The values of a column. Whole numbers stay whole: byte counts and nanoseconds above 2⁵³ lose
/// nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColumnValues {
    /// Integers.
    Integer(Vec<i64>),
    /// Floating-point numbers.
    Float(Vec<f64>),
}

impl ColumnValues {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(v) => v.len(),
            Self::Float(v) => v.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row as a float, for charts and comparisons.
    pub fn value_at(&self, row: usize) -> Option<f64> {
        match self {
            Self::Integer(v) => v.get(row).map(|x| *x as f64),
            Self::Float(v) => v.get(row).copied(),
        }
    }
}

/// One column of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesColumn {
    /// Name, for example `cpu`, `memory`, `read`.
    pub name: String,
    /// Whether it is a counter or a gauge.
    pub kind: ColumnKind,
    /// Unit of the values.
    pub unit: ColumnUnit,
    /// One value for each time of the series.
    pub values: ColumnValues,
    /// Rows without a value, ascending; `values` has meaningless entries there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<u32>,
}

/// A time series of a run, with one shared time column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// `metier.series/1`.
    pub schema: RecordSchema<Series>,
    /// The run it belongs to.
    pub run: RunId,
    /// Name within the run.
    pub name: String,
    /// Nanoseconds since the start of the run, ascending.
    pub times: Vec<i64>,
    /// The columns, each as long as `times`.
    pub columns: Vec<SeriesColumn>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for Series {
    const SCHEMA: &'static str = "metier.series/1";
}

impl Series {
    /// An empty series.
    pub fn new(run: RunId, name: impl Into<String>) -> Self {
        Self {
            schema: RecordSchema::new(),
            run,
            name: name.into(),
            times: Vec::new(),
            columns: Vec::new(),
            extra: ExtraFields::new(),
        }
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&SeriesColumn> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Makes values that JSON cannot carry absent ones.
    pub fn mask_infinities(&mut self) {
        for column in &mut self.columns {
            let ColumnValues::Float(values) = &mut column.values else { continue };
            let before = column.absent.len();
            for (row, value) in values.iter_mut().enumerate().filter(|(_, value)| !value.is_finite()) {
                *value = 0.0;
                column.absent.extend(u32::try_from(row));
            }
            if column.absent.len() > before {
                column.absent.sort_unstable();
                column.absent.dedup();
            }
        }
    }

    /// What is wrong with its shape, if anything: unequal lengths, times that go back.
    pub fn find_defect(&self) -> Option<String> {
        if let Some(at) = self.times.windows(2).position(|pair| pair[0] > pair[1]) {
            return Some(format!("series {:?}: time goes back at row {}", self.name, at + 1));
        }
        self.columns.iter().find_map(|column| {
            let rows = self.times.len();
            if column.values.len() != rows {
                return Some(format!(
                    "series {:?}, column {:?}: {} values for {rows} times",
                    self.name,
                    column.name,
                    column.values.len()
                ));
            }
            let ascending = column.absent.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = column.absent.last().is_none_or(|row| (*row as usize) < rows);
            (!ascending || !inside).then(|| {
                format!(
                    "series {:?}, column {:?}: absent rows are not ascending rows of it",
                    self.name, column.name
                )
            })
        })
    }
}
