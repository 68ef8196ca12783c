//! `metier runs --trend`: the history of each workload on each device, and where its level changed.

use clap::Args;
use metier_stats::change::MOST;
use metier_stats::comparison::Level;
use metier_stats::trend::{LevelChange, Trend, TrendState};
use metier_stats::{ChangeOptions, Figure, Trends, trends};
use metier_store::RunFilter;
use metier_types::{Ratio, Timestamp};

use super::super::Room;
use crate::command::compare::percent;
use crate::exit::{Code, usage};
use crate::output::{self, Format, Paint, plain, word_of};
use crate::time;

/// Most runs that are read, over all histories.
const MOST_RUNS: u32 = 10_000;
/// Widest picture of a history.
const WIDTH: usize = 60;
/// Changes in the circumstances that are told with a change of level.
const SUSPECTS: usize = 5;

/// Flags that only make sense with `--trend`.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --trend")]
pub struct TrendFlags {
    /// The history of each workload on each device, and where its level changed
    #[arg(long)]
    pub trend: bool,
    /// Of which figure: wall, cpu, memory, energy, … or stage:NAME:p95
    #[arg(long, value_name = "FIGURE", default_value = "wall", requires = "trend")]
    metric: Figure,
    /// How often a history without a change may be called changed
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent, requires = "trend")]
    false_alarms: Ratio,
    /// Smallest change that is told
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent, requires = "trend")]
    at_least: Ratio,
    /// Exit with 5 if a history got worse within its latest runs (--recent)
    #[arg(long, requires = "trend")]
    fail_on_change: bool,
    /// How many runs count as the latest
    #[arg(long, value_name = "RUNS", default_value_t = 10, requires = "fail_on_change", value_parser = clap::value_parser!(u32).range(1..=1000))]
    recent: u32,
}

impl TrendFlags {
    pub fn run(&self, room: &Room, filter: RunFilter, limit: Option<u32>) -> anyhow::Result<Code> {
        let store = room.store()?;
        let runs = store.latest(&filter, limit.unwrap_or(MOST_RUNS).min(MOST_RUNS) as usize)?;
        if runs.is_empty() {
            return Err(usage("no run fits; fewer filters find more, `metier runs` lists what there is"));
        }
        let options = ChangeOptions {
            significance: self.false_alarms,
            at_least: self.at_least,
            ..ChangeOptions::default()
        };
        let found = trends(&runs, &self.metric, &options).map_err(|error| match error {
            metier_stats::Error::WrongOption { option: "significance", .. } => {
                usage(format!("--false-alarms is {}; want 0.1% to 50%", self.false_alarms))
            }
            metier_stats::Error::WrongOption { option: "at_least", .. } => {
                usage(format!("--at-least is {}; want 0% to 1000%", self.at_least))
            }
            other => other.into(),
        })?;
        let console = &room.console;
        let is_cost = self.metric.is_cost();
        console.show(&found, COLUMNS.split(','), found.trends.iter().flat_map(rows), |paint| {
            text(&found, is_cost, Timestamp::now(), paint)
        })?;
        if console.format == Format::Table {
            let legend = format!(
                "of histories without a change, at most {} are called changed; changes below {} are not told",
                found.significance, found.at_least
            );
            console.note(console.paint_err.dim(&legend));
        }
        self.judge(room, &found)
    }

    /// The question of CI: did it get worse lately?
    fn judge(&self, room: &Room, found: &Trends) -> anyhow::Result<Code> {
        if !self.fail_on_change {
            return Ok(Code::OK);
        }
        let mut worse = Vec::new();
        for trend in &found.trends {
            let (changes, drifts) = trend.regressions(self.recent as usize, self.metric.is_cost());
            let name = format!("{} on {}", trend.workload.name, trend.device.name);
            worse.extend(changes.iter().map(|change| {
                format!("{name} by {} since run {}", ratio(change.change_ratio), change.run.short())
            }));
            if let Some(drift) = trend.drift.as_ref().filter(|_| drifts) {
                worse.push(format!("{name} drifts by {} in all", drift.change_ratio.signed()));
            }
        }
        if !worse.is_empty() {
            let list = worse.join(", ");
            room.console.note(format!("metier: regression: {} got worse: {list}", self.metric));
            return Ok(Code::REGRESSION);
        }
        if found.trends.iter().all(|trend| trend.state == TrendState::TooFewRuns) {
            let because = found.trends.iter().find_map(|trend| trend.because.as_deref()).unwrap_or_default();
            anyhow::bail!("no history can be judged: {because}");
        }
        Ok(Code::OK)
    }
}

fn ratio(change: Option<Ratio>) -> String {
    change.map_or_else(|| "from nothing".to_string(), Ratio::signed)
}

fn text(found: &Trends, is_cost: bool, now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    for trend in &found.trends {
        if !text.is_empty() {
            text.push('\n');
        }
        let in_unit = |value: f64| found.unit.text(value);
        let name = output::printable(&format!("{} on {}", trend.workload.name, trend.device.name));
        let n = trend.points.len();
        let mut about = format!("{}, {n} runs", found.metric);
        if let Some(first) = trend.points.first() {
            about.push_str(&format!(", the first {}", time::ago(first.started, now)));
        }
        if trend.older > 0 {
            about.push_str(&format!(
                " ({} older ones are left out; at most {MOST} are looked at)",
                trend.older
            ));
        }
        text.push_str(&format!("{}  {}\n", paint.bold(&name), paint.dim(&about)));
        if n > 0 {
            let level = trend.level.median.map(in_unit).unwrap_or_default();
            let picture = picture(trend);
            text.push_str(&format!(
                "  {}  {level}{}\n",
                paint.cyan(&picture),
                interval(&trend.level, in_unit)
            ));
        }
        for change in &trend.changes {
            text.push_str(&told(change, is_cost, now, paint, in_unit));
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

fn interval(level: &Level, in_unit: impl Fn(f64) -> String) -> String {
    match (level.low, level.high) {
        (Some(low), Some(high)) => format!(" ({} … {})", in_unit(low), in_unit(high)),
        _ => String::new(),
    }
}

/// One change in words: by how much, since when, and what else changed there.
fn told(
    change: &LevelChange,
    is_cost: bool,
    now: Timestamp,
    paint: Paint,
    in_unit: impl Fn(f64) -> String,
) -> String {
    let worse = change.change_ratio.is_none_or(|change| change.get() > 0.0) == is_cost;
    let size = ratio(change.change_ratio);
    let size = if worse { paint.red(&size) } else { paint.green(&size) };
    let range =
        change.low.zip(change.high).map(|(low, high)| format!(" ({} … {})", low.signed(), high.signed()));
    let level = |level: &Level| level.median.map(&in_unit).unwrap_or_default();
    let mut text = format!(
        "  {size}{} since run {}, {}: {} → {}, p {}\n",
        range.unwrap_or_default(),
        paint.cyan(&change.run.short()),
        time::ago(change.started, now),
        level(&change.before),
        level(&change.after),
        chance(change.p_value),
    );
    for suspect in change.suspects.iter().take(SUSPECTS) {
        let doubt = if suspect.is_clean { "" } else { ", not only there" };
        let line = format!("{} changed: {} → {}{doubt}", suspect.what, suspect.before, suspect.after);
        text.push_str(&format!("    {}\n", paint.dim(&output::printable(&line))));
    }
    if change.suspects.is_empty() {
        text.push_str(&format!("    {}\n", paint.dim("nothing that was recorded changed with it")));
    }
    text
}

fn chance(p: Ratio) -> String {
    if p.get() <= 0.001 { "≤ 0.001".to_string() } else { format!("= {:.3}", p.get()) }
}

/// The history as bars, with a line before each change. Long histories show medians of neighbours.
fn picture(trend: &Trend) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let values: Vec<f64> = trend.points.iter().map(|point| point.value).collect();
    let each = values.len().div_ceil(WIDTH).max(1);
    let mut edges: Vec<usize> = trend.changes.iter().map(|change| change.at).collect();
    edges.push(values.len());
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // From a tenth below the largest at most, so that noise of a per cent does not look like mountains.
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

const COLUMNS: &str = "workload,device,run,batch,started,value,change_ratio,p_value,state";

/// Each run of a history as a row; that of the first after a change says by how much.
fn rows(trend: &Trend) -> Vec<Vec<String>> {
    let row = |(at, point): (usize, &metier_stats::trend::Point)| {
        let change = trend.changes.iter().find(|change| change.at == at);
        vec![
            trend.workload.name.clone(),
            trend.device.name.clone(),
            point.run.to_string(),
            point.batch.to_string(),
            point.started.to_string(),
            point.value.to_string(),
            plain(change.and_then(|change| change.change_ratio).map(|x| x.get())),
            plain(change.map(|change| change.p_value.get())),
            word_of(&trend.state),
        ]
    };
    trend.points.iter().enumerate().map(row).collect()
}
