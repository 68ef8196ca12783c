//! `metier signal`: pattern and forecast of the columns of a CSV file, or of Prometheus series.

mod csv_columns;
mod prometheus_series;
mod signal_picture;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use metier_signal::{EvenSeries, PeriodDetector, SignalOptions, SignalRecord, ValueMeaning};
use metier_types::{Ratio, Seconds};

use crate::command::CommandContext;
use crate::command::compare::parse_percent;
use crate::exit::{CliExitCode, usage_error};
use crate::output::sparkline::bars_of;
use crate::output::{DataFormat, OutputFile, StreamPaint, TableCell, TextTable, csv_cell, serialised_word};
use crate::time::parse_duration_flag;

/// Most columns or series that are analysed.
const MAX_COLUMNS: usize = 10_000;
/// Width of a row's bars.
const BAR_WIDTH: usize = 24;

const EXAMPLES: &str = "Examples:
  metier signal load.csv                         the first column is the time
  metier signal load.csv --horizon 1h -o json
  metier signal --prometheus http://127.0.0.1:9090 --query 'rate(node_cpu_seconds_total[1m])' --range 2h
  metier signal load.csv --svg load.svg          a picture with the forecast band";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct SignalArgs {
    /// CSV file, `-` for stdin; the first column is the time
    #[arg(required_unless_present = "prometheus", conflicts_with_all = ["prometheus", "query"])]
    file: Option<PathBuf>,
    /// Address of a Prometheus
    #[arg(long, value_name = "URL", requires = "query")]
    prometheus: Option<String>,
    /// PromQL expression; each series is analysed
    #[arg(long, value_name = "PROMQL", requires = "prometheus")]
    query: Option<String>,
    /// How far back to query
    #[arg(long, value_name = "DURATION", default_value = "2h", value_parser = parse_duration_flag, requires = "query")]
    range: Duration,
    /// Distance of queried values
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration_flag, requires = "query")]
    step: Duration,
    /// The columns are counters: analyse their rates
    #[arg(long)]
    counter: bool,
    /// How far to forecast [default: a fifth of the series]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_flag)]
    horizon: Option<Duration>,
    /// Quantiles of the forecast
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', default_value = "0.05,0.5,0.95", value_parser = parse_level)]
    quantiles: Vec<f64>,
    /// Share of noise series in which a period may be found
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent)]
    false_alarms: Ratio,
    /// Write a picture of the series, their changes and forecasts
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A named series as it was read.
pub struct SignalColumn {
    pub name: String,
    /// Seconds.
    pub times: Vec<f64>,
    pub values: Vec<f64>,
    /// Why it cannot be analysed.
    pub defect: Option<String>,
}

fn parse_level(text: &str) -> Result<f64, String> {
    let level: f64 = text.trim().parse().map_err(|_| "want a number between 0 and 1".to_string())?;
    if level > 0.0 && level < 1.0 { Ok(level) } else { Err("want a number between 0 and 1".to_string()) }
}

impl SignalArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        if !(0.0001..=0.2).contains(&self.false_alarms.get()) {
            return Err(usage_error(format!("--false-alarms is {}; want 0.01% to 20%", self.false_alarms)));
        }
        let picture = self.svg.as_deref().map(|path| OutputFile::open("--svg", path)).transpose()?;
        let mut columns = match (&self.file, &self.prometheus, &self.query) {
            (Some(file), ..) => csv_columns::read_columns(file)?,
            (None, Some(address), Some(query)) => {
                prometheus_series::query_columns(address, query, self.range, self.step)?
            }
            _ => return Err(usage_error("name a CSV file, or a Prometheus with --prometheus and --query")),
        };
        if columns.len() > MAX_COLUMNS {
            let all = columns.len();
            context.console.warn(format!("only the first {MAX_COLUMNS} of {all} columns are analysed"));
            columns.truncate(MAX_COLUMNS);
        }
        let mut quantiles = self.quantiles.clone();
        quantiles.sort_unstable_by(f64::total_cmp);
        quantiles.dedup();
        let options = SignalOptions {
            false_alarms: self.false_alarms.get(),
            horizon: self.horizon.map(|time| time.as_secs_f64()),
            quantiles,
        };
        let meaning = if self.counter { ValueMeaning::Counter } else { ValueMeaning::Gauge };
        let mut detector = PeriodDetector::new();
        let mut found = Vec::with_capacity(columns.len());
        for column in columns {
            found.push(analyse_column(column, meaning, &options, &mut detector)?);
        }
        let records: Vec<&SignalRecord> = found.iter().map(|one| &one.record).collect();
        context.console.print_record(
            &records,
            CSV_COLUMNS.split(','),
            records.iter().map(|record| csv_row(record)),
            |paint| pattern_table(&found, paint),
        )?;
        if context.console.format == DataFormat::Table {
            let share = self.false_alarms;
            let legend =
                format!("a period, trend or change is found in at most {share} of series that have none");
            context.console.note(context.console.paint_err.dim(&legend));
        }
        if let Some(mut file) = picture {
            std::io::Write::write_all(&mut file, signal_picture::draw_signals(&found).as_bytes())?;
            file.commit()?;
        }
        let failed = records.iter().filter(|record| record.kind.is_none()).count();
        Ok(match failed {
            0 => CliExitCode::OK,
            some if some == records.len() => CliExitCode::FAILED,
            _ => CliExitCode::PARTIAL,
        })
    }
}

/// A record, and the values behind it.
pub struct AnalysedColumn {
    pub record: SignalRecord,
    pub series: Option<EvenSeries>,
}

fn analyse_column(
    column: SignalColumn,
    meaning: ValueMeaning,
    options: &SignalOptions,
    detector: &mut PeriodDetector,
) -> anyhow::Result<AnalysedColumn> {
    let SignalColumn { name, times, values, defect } = column;
    if let Some(defect) = defect {
        return Ok(AnalysedColumn { record: SignalRecord::unusable(name, defect), series: None });
    }
    match EvenSeries::new(&times, &values, meaning) {
        Err(error) => {
            let record = SignalRecord::unusable(name, error.to_string());
            Ok(AnalysedColumn { record, series: None })
        }
        Ok(series) => match SignalRecord::describe(name, &series, options, detector) {
            Ok(record) => Ok(AnalysedColumn { record, series: Some(series) }),
            Err(metier_signal::Error::WrongOption { option: "horizon", got, want }) => {
                Err(usage_error(format!("--horizon is {got}; want {want}")))
            }
            Err(error) => Err(error.into()),
        },
    }
}

const CSV_COLUMNS: &str = "name,kind,period_seconds,strength,false_alarm_rate,trend_per_second,changes,unusual,samples,step_seconds,forecast_mean,forecast_peak,because";

fn csv_row(record: &SignalRecord) -> Vec<String> {
    let forecast = record.forecast.as_ref();
    vec![
        record.name.clone(),
        csv_cell(record.kind.map(|kind| serialised_word(&kind))),
        csv_cell(record.period_seconds),
        csv_cell(record.strength),
        csv_cell(record.false_alarm_rate),
        csv_cell(record.trend_per_second),
        record.changes.len().to_string(),
        record.unusual.len().to_string(),
        record.samples.to_string(),
        csv_cell(record.step_seconds),
        csv_cell(forecast.map(|forecast| forecast.mean.mean)),
        csv_cell(forecast.map(|forecast| forecast.peak.mean)),
        csv_cell(record.because.as_ref()),
    ]
}

fn pattern_table(found: &[AnalysedColumn], paint: StreamPaint) -> String {
    let mut table = TextTable::with_header(&[
        "COLUMN",
        "SERIES",
        "KIND",
        "PERIOD",
        "STRENGTH",
        "NEXT MEAN",
        "NEXT PEAK",
        "NOTE",
    ]);
    for AnalysedColumn { record, series } in found {
        let bars = series.as_ref().map(|series| bars_of(&series.values, BAR_WIDTH)).unwrap_or_default();
        let kind = record.kind.map_or("–".to_string(), |kind| serialised_word(&kind).replace('_', " "));
        let forecast = record.forecast.as_ref();
        let shown = |value: Option<f64>| TableCell::quantity(value.map(format_value));
        table.add_row(vec![
            TableCell::text(&record.name).truncated(40),
            TableCell::text(bars),
            TableCell::text(kind).styled(StreamPaint::bold),
            TableCell::quantity(record.period_seconds.map(Seconds)),
            TableCell::quantity(record.strength.map(|share| format!("{:.0} %", share * 100.0))),
            shown(forecast.map(|forecast| forecast.mean.mean)),
            shown(forecast.map(|forecast| forecast.peak.mean)),
            TableCell::text(record_note(record)),
        ]);
    }
    table.render(paint)
}

fn format_value(value: f64) -> String {
    if value != 0.0 && !(0.001..1e7).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    let digits = if value.abs() < 10.0 { 3 } else { 1 };
    format!("{value:.digits$}")
}

/// What else is worth a word: why nothing was found, changes, trend, repairs.
fn record_note(record: &SignalRecord) -> String {
    let mut parts: Vec<String> = record.because.clone().into_iter().collect();
    let count = |number: usize, one: &str, many: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {many}")),
    };
    if let Some(slope) = record.trend_per_second {
        parts.push(format!(
            "{} {}/h",
            if slope > 0.0 { "rises by" } else { "falls by" },
            format_value((slope * 3600.0).abs())
        ));
    }
    parts.extend(count(record.changes.len(), "change of level", "changes of level"));
    parts.extend(count(record.unusual.len(), "unusual sample", "unusual samples"));
    let repairs = &record.repairs;
    let mended = repairs.not_finite
        + repairs.out_of_order
        + repairs.repeated_times
        + repairs.counter_resets
        + repairs.bridged
        + repairs.cut_off;
    parts.extend(count(mended as usize, "repair", "repairs"));
    parts.join(", ")
}
