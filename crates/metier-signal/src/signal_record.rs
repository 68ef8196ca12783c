//! What `metier signal` says of one column: `metier.pattern/1`.

use metier_types::schema::{RecordSchema, VersionedRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Error;
use crate::even_series::{EvenSeries, SeriesRepairs};
use crate::forecast::{self, ForecastDistribution, ForecastOptions};
use crate::pattern::{PatternKind, PatternOptions, analyse_series};
use crate::period::PeriodDetector;

/// Options of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalOptions {
    /// Share of noise series in which a period, a trend or a change may be found, each.
    pub false_alarms: f64,
    /// Seconds to forecast; by default a fifth of the series.
    pub horizon: Option<f64>,
    /// Levels of the forecast's quantiles.
    pub quantiles: Vec<f64>,
}

/// The pattern and forecast of one column.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SignalRecord {
    pub schema: RecordSchema<SignalRecord>,
    /// Name of the column, or labels of the series.
    pub name: String,
    /// What the series does; absent where it cannot be analysed, with the reason in `because`.
    pub kind: Option<PatternKind>,
    /// The strongest period, if there is one.
    pub period_seconds: Option<f64>,
    /// Share of the variance that the kind explains, from 0 to 1.
    pub strength: Option<f64>,
    /// Upper bound of the share of noise series with a period this clear.
    pub false_alarm_rate: Option<f64>,
    /// All periods, strongest first.
    pub periods: Vec<PeriodRecord>,
    /// Steady rise (or fall) per second, if there is one.
    pub trend_per_second: Option<f64>,
    /// Times of changes of level, in the column's own seconds.
    pub changes: Vec<f64>,
    /// Times of samples far from the pattern, at most 100.
    pub unusual: Vec<f64>,
    /// Analysed values, on an even grid.
    pub samples: u64,
    /// Distance of the grid.
    pub step_seconds: Option<f64>,
    /// Time of the first and the last value.
    pub range_seconds: Option<[f64; 2]>,
    pub repairs: SeriesRepairs,
    pub forecast: Option<ForecastRecord>,
    /// Why something is absent.
    pub because: Option<String>,
}

impl VersionedRecord for SignalRecord {
    const SCHEMA: &'static str = "metier.pattern/1";
}

/// One period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PeriodRecord {
    pub seconds: f64,
    /// Share of the variance around the trend that the mean cycle explains.
    pub strength: f64,
    pub false_alarm_rate: f64,
}

/// A forecast over a horizon.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ForecastRecord {
    pub horizon_seconds: f64,
    /// Levels of all lists of quantiles.
    pub quantiles: Vec<f64>,
    /// The mean over the horizon.
    pub mean: ForecastValue,
    /// The largest value within the horizon, predicted on its own.
    pub peak: ForecastValue,
    /// One for each step.
    pub steps: Vec<ForecastStep>,
}

/// A forecast value with its quantiles.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ForecastValue {
    pub mean: f64,
    pub quantiles: Vec<f64>,
}

/// One step of a forecast.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ForecastStep {
    /// Seconds after the last value.
    pub after_seconds: f64,
    pub mean: f64,
    pub quantiles: Vec<f64>,
}

impl From<ForecastDistribution> for ForecastValue {
    fn from(value: ForecastDistribution) -> Self {
        Self { mean: value.mean, quantiles: value.quantiles }
    }
}

impl SignalRecord {
    /// A column that cannot be analysed.
    pub fn unusable(name: String, because: String) -> Self {
        Self {
            schema: RecordSchema::new(),
            name,
            kind: None,
            period_seconds: None,
            strength: None,
            false_alarm_rate: None,
            periods: Vec::new(),
            trend_per_second: None,
            changes: Vec::new(),
            unusual: Vec::new(),
            samples: 0,
            step_seconds: None,
            range_seconds: None,
            repairs: SeriesRepairs::default(),
            forecast: None,
            because: Some(because),
        }
    }

    /// Analyses and forecasts a series.
    pub fn describe(
        name: String,
        series: &EvenSeries,
        options: &SignalOptions,
        detector: &mut PeriodDetector,
    ) -> Result<Self, Error> {
        let pattern_options = PatternOptions { false_alarms: options.false_alarms };
        let found = analyse_series(detector, &series.values, &pattern_options)?;
        let best = found.periods.first();
        let period = best.map(|period| period.samples);
        let (forecast, because) = match forecast_series(series, period, options) {
            Ok(record) => (Some(record), None),
            Err(error @ Error::WrongOption { .. }) => return Err(error),
            Err(error) => (None, Some(error.to_string())),
        };
        let times = |samples: &[usize]| samples.iter().map(|at| series.time_at(*at as f64)).collect();
        let last = series.values.len().saturating_sub(1);
        Ok(Self {
            kind: Some(found.kind),
            period_seconds: period.map(|samples| samples * series.step),
            strength: Some(found.strength),
            false_alarm_rate: best.map(|period| period.false_alarm_rate),
            periods: found
                .periods
                .iter()
                .map(|period| PeriodRecord {
                    seconds: period.samples * series.step,
                    strength: period.strength,
                    false_alarm_rate: period.false_alarm_rate,
                })
                .collect(),
            trend_per_second: found.trend.map(|trend| trend.slope / series.step),
            changes: times(&found.changes),
            unusual: times(&found.unusual),
            samples: series.values.len() as u64,
            step_seconds: Some(series.step),
            range_seconds: Some([series.start, series.time_at(last as f64)]),
            repairs: series.repairs,
            forecast,
            because,
            ..Self::unusable(name, String::new())
        })
    }
}

fn forecast_series(
    series: &EvenSeries,
    period: Option<f64>,
    options: &SignalOptions,
) -> Result<ForecastRecord, Error> {
    let steps = match options.horizon {
        Some(seconds) => (seconds / series.step).round(),
        None => (series.values.len() as f64 / 5.0).ceil().min(forecast::MAX_HORIZON as f64),
    };
    if !(1.0..=forecast::MAX_HORIZON as f64).contains(&steps) {
        let got = format!("{} s, {steps} steps of {} s", options.horizon.unwrap_or_default(), series.step);
        return Err(Error::WrongOption { option: "horizon", got, want: "1 to 1024 steps of the series" });
    }
    let horizon = steps as usize;
    let forecast_options = ForecastOptions { horizon, quantiles: options.quantiles.clone() };
    let found = forecast::forecast(&series.values, period, &forecast_options)?;
    let step_of = |(at, value): (usize, ForecastDistribution)| ForecastStep {
        after_seconds: (at + 1) as f64 * series.step,
        mean: value.mean,
        quantiles: value.quantiles,
    };
    Ok(ForecastRecord {
        horizon_seconds: horizon as f64 * series.step,
        quantiles: options.quantiles.clone(),
        mean: found.mean.into(),
        peak: found.peak.into(),
        steps: found.steps.into_iter().enumerate().map(step_of).collect(),
    })
}
