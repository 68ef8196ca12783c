//! `metier compare`: compares two groups of runs and tests whether chance explains the difference.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use metier_stats::{
    CompareOptions, ComparisonVerdict, MetricComparison, RunComparison, SummaryField, compare,
};
use metier_store::RecordStore;
use metier_types::{Ratio, Run};

use super::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{StreamPaint, TableCell, TextTable, csv_cell, serialised_word};

const EXAMPLES: &str = "Examples:
  metier compare before after                      two workloads by name, the latest batch of each
  metier compare sort~1 sort                       the batch before the latest one, and the latest
  metier compare BATCH BATCH                       two batches by id
  metier compare old.json new.json --fail-above 5% files of --save-json; exit code 5 if worse by more
  metier compare a1b2c3d4,e5f6a7b8 last            several runs on a side
  metier compare before after --metric wall,cpu    only these";

/// Largest file of runs.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Compare two groups of runs
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "A side is a run, a batch, a workload's name (its latest batch; name~1 the one before) or a file of --save-json; several by commas.")]
pub struct CompareArgs {
    /// Baseline (A)
    #[arg(value_name = "A")]
    a: String,
    /// Changed side (B)
    #[arg(value_name = "B")]
    b: String,
    /// Exit with 5 if B is worse by more than this: 5%
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    fail_above: Option<Ratio>,
    /// Figures to compare: wall, cpu, user, system, memory, read, written, energy, processes
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    metric: Vec<SummaryField>,
    /// Include failed runs
    #[arg(long)]
    keep_failed: bool,
}

pub fn parse_percent(text: &str) -> Result<Ratio, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(number) if (0.0..=10_000.0).contains(&number) => Ok(Ratio(number / 100.0)),
        _ => Err("want a percentage such as 5% or 2.5%".to_string()),
    }
}

impl CompareArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let mut sides = ComparisonSides::new(context);
        let (a, b) = (sides.runs(&self.a)?, sides.runs(&self.b)?);
        let history = sides.history(&[a.as_slice(), &b].concat());
        let fields = if self.metric.is_empty() { SummaryField::ALL.to_vec() } else { self.metric.clone() };
        let options = CompareOptions {
            label_a: side_label(&self.a),
            label_b: side_label(&self.b),
            keep_failed: self.keep_failed,
            fields,
            history,
            ..CompareOptions::default()
        };
        let comparison = compare(&a, &b, &options)?;
        let rows = comparison.metrics.iter().map(metric_cells);
        context.console.print_record(&comparison, CSV_COLUMNS.split(','), rows, |paint| {
            comparison_table(&comparison, paint)
        })?;
        self.check_regression(context, &comparison)
    }

    /// Exit code for CI: whether B is worse.
    fn check_regression(
        &self,
        context: &CommandContext,
        comparison: &RunComparison,
    ) -> anyhow::Result<CliExitCode> {
        let Some(above) = self.fail_above else { return Ok(CliExitCode::OK) };
        let watched = if self.metric.is_empty() {
            SummaryField::REGRESSION_FIELDS.to_vec()
        } else {
            self.metric.clone()
        };
        let worse = comparison.find_regressions(above, &watched);
        if !worse.is_empty() {
            let list: Vec<String> = worse
                .iter()
                .map(|metric| match metric.change_ratio {
                    Some(change) => format!("{} by {}", metric.field.short_name(), change.signed()),
                    None => format!("{} from nothing", metric.field.short_name()),
                })
                .collect();
            context
                .console
                .note(format!("metier: regression: worse by more than {above}: {}", list.join(", ")));
            return Ok(CliExitCode::REGRESSION);
        }
        if let Some(because) = comparison.why_not_judged(&watched) {
            anyhow::bail!(
                "nothing could be compared ({because}); measure both with `metier run --repeat 10`"
            );
        }
        Ok(CliExitCode::OK)
    }
}

/// Source of the runs of a side; the store is opened only if a side needs it.
pub struct ComparisonSides<'a> {
    context: &'a CommandContext,
    store: Option<RecordStore>,
}

impl<'a> ComparisonSides<'a> {
    /// Creates the source; opens no store yet.
    pub fn new(context: &'a CommandContext) -> Self {
        Self { context, store: None }
    }

    fn store(&mut self) -> anyhow::Result<RecordStore> {
        let store = match self.store.take() {
            Some(store) => store,
            None => self.context.store()?,
        };
        self.store = Some(store.clone());
        Ok(store)
    }

    /// Earlier batches of the workloads of these runs; none without a store.
    pub fn history(&mut self, runs: &[Run]) -> Vec<Run> {
        let store = self.store.clone().map_or_else(|| self.context.store(), Ok);
        store.and_then(|store| Ok(store.batch_history(runs)?)).unwrap_or_default()
    }

    /// The runs that a text names.
    pub fn runs(&mut self, text: &str) -> anyhow::Result<Vec<Run>> {
        if Path::new(text).is_file() {
            return read_runs_file(Path::new(text));
        }
        let looks_like_a_path = text.contains('/') || text.ends_with(".json");
        let mut runs = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let found = self.store()?.find_runs(part).map_err(anyhow::Error::from);
            runs.extend(found.map_err(|error| match looks_like_a_path {
                true => error.context(format!("{text} is neither a file nor a run")),
                false => error,
            })?);
        }
        if runs.is_empty() {
            return Err(usage_error("a side is empty; want a run, batch, workload or file"));
        }
        Ok(runs)
    }
}

/// Runs in a file of `--save-json`: a record, or a list.
fn read_runs_file(path: &Path) -> anyhow::Result<Vec<Run>> {
    let shown = path.display();
    let size = std::fs::metadata(path).map(|meta| meta.len()).unwrap_or_default();
    if size > MAX_FILE_BYTES {
        anyhow::bail!("{shown} has {size} bytes; want a file of --save-json, at most 1 GiB");
    }
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let wrong = || format!("{shown} holds no runs; want a file of `metier run --save-json`");
    let value: serde_json::Value = serde_json::from_slice(&text).with_context(wrong)?;
    let schema = value.get("schema").and_then(serde_json::Value::as_str).unwrap_or("no schema").to_string();
    match schema.as_str() {
        "metier.run/1" => Ok(vec![serde_json::from_value(value).with_context(wrong)?]),
        "metier.runs/1" => {
            let runs = value.get("runs").cloned().unwrap_or_default();
            serde_json::from_value(runs).with_context(wrong)
        }
        other => anyhow::bail!(
            "{shown} has {other:?}; want metier.run/1 or metier.runs/1, as --save-json writes them"
        ),
    }
}

fn side_label(text: &str) -> String {
    match Path::new(text).file_stem() {
        Some(stem) if Path::new(text).is_file() => stem.to_string_lossy().into_owned(),
        _ => text.to_string(),
    }
}

fn verdict_text(metric: &MetricComparison) -> (String, fn(StreamPaint, &str) -> String) {
    match metric.verdict {
        ComparisonVerdict::Increase => ("more".to_string(), StreamPaint::red),
        ComparisonVerdict::Decrease => ("less".to_string(), StreamPaint::green),
        ComparisonVerdict::NoDifferenceShown => ("no difference shown".to_string(), StreamPaint::dim),
        ComparisonVerdict::TooFewRuns => ("too few runs to tell".to_string(), StreamPaint::yellow),
        _ => {
            let because = metric.because.as_deref().unwrap_or("not comparable");
            (format!("not comparable: {because}"), StreamPaint::dim)
        }
    }
}

pub fn comparison_table(comparison: &RunComparison, paint: StreamPaint) -> String {
    let (a, b) = (&comparison.a, &comparison.b);
    let runs = |n: usize| if n == 1 { "1 run".to_string() } else { format!("{n} runs") };
    let mut text =
        format!("{} ({}) → {} ({})\n", paint.bold(&a.label), runs(a.n), paint.bold(&b.label), runs(b.n));
    let mut table = TextTable::with_header(&["", "BEFORE", "AFTER", "CHANGE", "INTERVAL", "VERDICT"]);
    for metric in &comparison.metrics {
        if metric.verdict == ComparisonVerdict::NotComparable
            && metric.a.median.is_none()
            && metric.b.median.is_none()
        {
            continue;
        }
        let level = |median: Option<f64>| TableCell::quantity(median.map(|value| metric.unit.text(value)));
        let interval =
            metric.low.zip(metric.high).map(|(low, high)| format!("{} … {}", low.signed(), high.signed()));
        let (words, style) = verdict_text(metric);
        table.add_row(vec![
            TableCell::text(metric.field.short_name()),
            level(metric.a.median),
            level(metric.b.median),
            TableCell::quantity(metric.change_ratio.map(Ratio::signed)),
            TableCell::number(interval.unwrap_or_default()).styled(StreamPaint::dim),
            TableCell::text(words).styled(style),
        ]);
    }
    text.push_str(&table.render(paint));
    for warning in &comparison.warnings {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), warning.text));
    }
    if let Some(statement) = &comparison.interval_statement {
        text.push_str(&format!("{}\n", paint.dim(&format!("medians; {statement}"))));
    }
    text
}

const CSV_COLUMNS: &str =
    "metric,unit,a_n,a_median,b_n,b_median,change_ratio,low,high,p_value,verdict,because,drift,drift_ratio";

fn metric_cells(metric: &MetricComparison) -> Vec<String> {
    vec![
        metric.field.name().to_string(),
        serialised_word(&metric.unit),
        metric.a.n.to_string(),
        csv_cell(metric.a.median),
        metric.b.n.to_string(),
        csv_cell(metric.b.median),
        csv_cell(metric.change_ratio.map(|x| x.get())),
        csv_cell(metric.low.map(|x| x.get())),
        csv_cell(metric.high.map(|x| x.get())),
        csv_cell(metric.p_value.map(|x| x.get())),
        serialised_word(&metric.verdict),
        metric.because.clone().unwrap_or_default(),
        metric.drift.map(|drift| drift.word().to_string()).unwrap_or_default(),
        csv_cell(metric.drift_ratio.map(|x| x.get())),
    ]
}
