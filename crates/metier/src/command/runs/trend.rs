//! `metier runs --trend`: the history of each workload on each device, with changes of its level.

use clap::Args;
use metier_stats::change::MAX_VALUES;
use metier_stats::comparison::LevelSummary;
use metier_stats::trend::{LevelChange, TrendState, WorkloadTrend};
use metier_stats::{ChangeMemo, ChangeOptions, TrendMetric, TrendReport, find_trends};
use metier_store::RunFilter;
use metier_types::{Ratio, UtcTimestamp};

use super::super::CommandContext;
use crate::command::compare::parse_percent;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, StreamPaint, csv_cell, serialised_word};
use crate::time;

/// Limit of runs over all histories.
const MAX_RUNS: u32 = 10_000;
/// Largest width of a history's bars.
const BAR_WIDTH: usize = 60;
/// Limit of changed conditions that are listed with a change of level.
const MAX_SUSPECTS: usize = 5;

/// Flags that require `--trend`.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --trend")]
pub struct TrendArgs {
    /// Show the history of each workload on each device, and where its level changed
    #[arg(long)]
    pub trend: bool,
    /// Figure: wall, cpu, memory, energy, … or stage:NAME:p95
    #[arg(long, value_name = "FIGURE", default_value = "wall", requires = "trend")]
    metric: TrendMetric,
    /// Share of unchanged histories that may be reported as changed
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent, requires = "trend")]
    false_alarms: Ratio,
    /// Smallest change to report
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent, requires = "trend")]
    at_least: Ratio,
    /// Exit with 5 if a history got worse within its latest runs (--recent)
    #[arg(long, requires = "trend")]
    fail_on_change: bool,
    /// Number of runs that count as latest
    #[arg(long, value_name = "RUNS", default_value_t = 10, requires = "fail_on_change", value_parser = clap::value_parser!(u32).range(1..=1000))]
    recent: u32,
}

impl TrendArgs {
    pub fn run(
        &self,
        context: &CommandContext,
        filter: RunFilter,
        limit: Option<u32>,
    ) -> anyhow::Result<CliExitCode> {
        let store = context.store()?;
        let runs = store.latest_runs(&filter, limit.unwrap_or(MAX_RUNS).min(MAX_RUNS) as usize)?;
        if runs.is_empty() {
            return Err(usage_error(
                "no run fits; fewer filters find more, `metier runs` lists what there is",
            ));
        }
        let options = ChangeOptions {
            significance: self.false_alarms,
            at_least: self.at_least,
            ..ChangeOptions::default()
        };
        let found =
            find_trends(&runs, &self.metric, &options, &ChangeMemo::default()).map_err(
                |error| match error {
                    metier_stats::Error::WrongOption { option: "significance", .. } => {
                        usage_error(format!("--false-alarms is {}; want 0.1% to 50%", self.false_alarms))
                    }
                    metier_stats::Error::WrongOption { option: "at_least", .. } => {
                        usage_error(format!("--at-least is {}; want 0% to 1000%", self.at_least))
                    }
                    other => other.into(),
                },
            )?;
        let console = &context.console;
        let is_cost = self.metric.is_cost();
        console.print_record(
            &found,
            CSV_COLUMNS.split(','),
            found.trends.iter().flat_map(trend_rows),
            |paint| trends_text(&found, is_cost, UtcTimestamp::now(), paint),
        )?;
        if console.format == DataFormat::Table {
            let legend = format!(
                "of histories without a change, at most {} are called changed; changes below {} are not told",
                found.significance, found.at_least
            );
            console.note(console.paint_err.dim(&legend));
        }
        self.check_regression(context, &found)
    }

    /// Exit code for CI: whether a history got worse recently.
    fn check_regression(&self, context: &CommandContext, found: &TrendReport) -> anyhow::Result<CliExitCode> {
        if !self.fail_on_change {
            return Ok(CliExitCode::OK);
        }
        let mut worse = Vec::new();
        for trend in &found.trends {
            let (changes, drifts) = trend.find_regressions(self.recent as usize, self.metric.is_cost());
            let name = format!("{} on {}", trend.workload.name, trend.device.name);
            worse.extend(changes.iter().map(|change| {
                format!("{name} by {} since run {}", change_text(change.change_ratio), change.run.short())
            }));
            if let Some(drift) = trend.drift.as_ref().filter(|_| drifts) {
                worse.push(format!("{name} drifts by {} in all", drift.change_ratio.signed()));
            }
        }
        if !worse.is_empty() {
            let list = worse.join(", ");
            context.console.note(format!("metier: regression: {} got worse: {list}", self.metric));
            return Ok(CliExitCode::REGRESSION);
        }
        if found.trends.iter().all(|trend| trend.state == TrendState::TooFewRuns) {
            let because = found.trends.iter().find_map(|trend| trend.because.as_deref()).unwrap_or_default();
            anyhow::bail!("no history can be judged: {because}");
        }
        Ok(CliExitCode::OK)
    }
}

fn change_text(change: Option<Ratio>) -> String {
    change.map_or_else(|| "from nothing".to_string(), Ratio::signed)
}

fn trends_text(found: &TrendReport, is_cost: bool, now: UtcTimestamp, paint: StreamPaint) -> String {
    let mut text = String::new();
    for trend in &found.trends {
        if !text.is_empty() {
            text.push('\n');
        }
        let in_unit = |value: f64| found.unit.text(value);
        let name = output::printable_text(&format!("{} on {}", trend.workload.name, trend.device.name));
        let n = trend.points.len();
        let mut about = format!("{}, {n} runs", found.metric);
        if let Some(first) = trend.points.first() {
            about.push_str(&format!(", the first {}", time::time_ago(first.started, now)));
        }
        if trend.older > 0 {
            about.push_str(&format!(
                " ({} older ones are left out; at most {MAX_VALUES} are looked at)",
                trend.older
            ));
        }
        text.push_str(&format!("{}  {}\n", paint.bold(&name), paint.dim(&about)));
        if n > 0 {
            let level = trend.level.median.map(in_unit).unwrap_or_default();
            let picture = history_bars(trend);
            text.push_str(&format!(
                "  {}  {level}{}\n",
                paint.cyan(&picture),
                interval_text(&trend.level, in_unit)
            ));
        }
        for change in &trend.changes {
            text.push_str(&level_change_text(change, is_cost, now, paint, in_unit));
        }
        if let Some(drift) = &trend.drift {
            let size = format!(
                "drifts by {} in all, {} a run",
                drift.change_ratio.signed(),
                drift.per_run_ratio.signed()
            );
            let worse = (drift.change_ratio.get() > 0.0) == is_cost;
            let size = if worse { paint.red(&size) } else { paint.green(&size) };
            text.push_str(&format!("  {size}: a straight line fits better than steps\n"));
        }
        match (&trend.because, trend.state) {
            (Some(because), _) => {
                text.push_str(&format!("  {}\n", paint.yellow(&format!("too few runs: {because}"))))
            }
            (None, TrendState::NoChangeShown) => {
                text.push_str(&format!("  {}\n", paint.dim("no change shown")))
            }
            _ => {}
        }
        for warning in &trend.warnings {
            text.push_str(&format!("  {} {}\n", paint.yellow("warning:"), warning.text));
        }
    }
    text
}

fn interval_text(level: &LevelSummary, in_unit: impl Fn(f64) -> String) -> String {
    match (level.low, level.high) {
        (Some(low), Some(high)) => format!(" ({} … {})", in_unit(low), in_unit(high)),
        _ => String::new(),
    }
}

/// A change as text: its size, its start, and what else changed there.
fn level_change_text(
    change: &LevelChange,
    is_cost: bool,
    now: UtcTimestamp,
    paint: StreamPaint,
    in_unit: impl Fn(f64) -> String,
) -> String {
    let worse = change.change_ratio.is_none_or(|change| change.get() > 0.0) == is_cost;
    let size = change_text(change.change_ratio);
    let size = if worse { paint.red(&size) } else { paint.green(&size) };
    let range =
        change.low.zip(change.high).map(|(low, high)| format!(" ({} … {})", low.signed(), high.signed()));
    let level = |level: &LevelSummary| level.median.map(&in_unit).unwrap_or_default();
    let mut text = format!(
        "  {size}{} since run {}, {}: {} → {}, p {}\n",
        range.unwrap_or_default(),
        paint.cyan(&change.run.short()),
        time::time_ago(change.started, now),
        level(&change.before),
        level(&change.after),
        p_value_text(change.p_value),
    );
    for suspect in change.suspects.iter().take(MAX_SUSPECTS) {
        let doubt = if suspect.is_clean { "" } else { ", not only there" };
        let line = format!("{} changed: {} → {}{doubt}", suspect.what, suspect.before, suspect.after);
        text.push_str(&format!("    {}\n", paint.dim(&output::printable_text(&line))));
    }
    if change.suspects.is_empty() {
        text.push_str(&format!("    {}\n", paint.dim("nothing that was recorded changed with it")));
    }
    text
}

fn p_value_text(p: Ratio) -> String {
    if p.get() <= 0.001 { "≤ 0.001".to_string() } else { format!("= {:.3}", p.get()) }
}

/// The history as bars, with a separator before each change. Long histories show medians of
/// neighbours.
fn history_bars(trend: &WorkloadTrend) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let values: Vec<f64> = trend.points.iter().map(|point| point.value).collect();
    let each = values.len().div_ceil(BAR_WIDTH).max(1);
    let mut edges: Vec<usize> = trend.changes.iter().map(|change| change.at).collect();
    edges.push(values.len());
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // The scale covers at least a tenth of the largest value, so that noise of 1 % stays small.
    let least = values.iter().copied().fold(f64::INFINITY, f64::min).min(most - most.abs() * 0.1);
    let mut text = String::new();
    let mut from = 0;
    for edge in edges {
        for part in values[from..edge].chunks(each) {
            let mut sorted = part.to_vec();
            sorted.sort_unstable_by(f64::total_cmp);
            let value = sorted[sorted.len() / 2];
            let height = if most > least { (value - least) / (most - least) } else { 0.0 };
            text.push(BARS[((height * 7.0).round() as usize).min(7)]);
        }
        from = edge;
        if edge < values.len() {
            text.push('│');
        }
    }
    text
}

const CSV_COLUMNS: &str = "workload,device,run,batch,started,value,change_ratio,p_value,state";

/// Each run of a history as a row; the first run after a change has its size.
fn trend_rows(trend: &WorkloadTrend) -> Vec<Vec<String>> {
    let row = |(at, point): (usize, &metier_stats::trend::TrendPoint)| {
        let change = trend.changes.iter().find(|change| change.at == at);
        vec![
            trend.workload.name.clone(),
            trend.device.name.clone(),
            point.run.to_string(),
            point.batch.to_string(),
            point.started.to_string(),
            point.value.to_string(),
            csv_cell(change.and_then(|change| change.change_ratio).map(|x| x.get())),
            csv_cell(change.map(|change| change.p_value.get())),
            serialised_word(&trend.state),
        ]
    };
    trend.points.iter().enumerate().map(row).collect()
}
