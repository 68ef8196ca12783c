//! What `metier bench` says: `metier.bench/1`, and the same as tables.

use std::path::Path;

use metier_infer::job::Outcome;
use metier_infer::{Difference, Tensor, shares};
use metier_onnx::{Analysis, DataType};
use metier_types::{Bytes, Digest, Joules, Run as Record, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

use crate::command::inspect::big;
use crate::output::{Cell, Paint, Table, plain};

/// Operators that a table lists.
const LISTED: usize = 25;

/// What running a graph here took.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Bench")]
pub struct Told {
    /// `metier.bench/1`.
    schema: &'static str,
    /// What ran.
    graph: Graph,
    /// What it was given.
    inputs: Vec<Input>,
    /// Threads that it was allowed.
    threads: usize,
    /// One for each runtime.
    pub results: Vec<Timed>,
    /// Runtimes that failed, with the run that tells why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
    /// Where two runtimes ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// What was assumed for inputs.
    notes: Vec<String>,
}

/// The graph that ran.
#[derive(Debug, Serialize, JsonSchema)]
struct Graph {
    /// Its file.
    file: String,
    /// SHA-256 of its content.
    digest: Digest,
    /// Real numbers among its weights.
    parameters: u64,
    /// Multiply-adds of one inference, as far as they are known.
    multiply_adds: u64,
    /// Operators that run.
    operators: usize,
}

/// An input of it.
#[derive(Debug, Serialize, JsonSchema)]
struct Input {
    /// Its name in the graph.
    name: String,
    /// Type of its elements.
    data_type: DataType,
    /// Its dimensions.
    shape: Vec<usize>,
}

/// A runtime that did not come to an end.
#[derive(Debug, Serialize, JsonSchema)]
struct Failed {
    /// `rten` or `onnxruntime`.
    runtime: &'static str,
    /// The run that tells why.
    run: Option<String>,
    /// How that ended.
    verdict: Option<String>,
}

/// What one runtime took.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Timed {
    /// `rten` or `onnxruntime`.
    runtime: &'static str,
    /// The run, or the runs where there are several processes; the last one's inferences are told.
    runs: Vec<String>,
    /// Whether they are in the store.
    is_kept: bool,
    /// Reading the graph until it can run.
    load_seconds: Seconds,
    /// The first inference.
    first_seconds: Seconds,
    /// From nothing to the first answer; of several processes the median.
    cold_start_seconds: Seconds,
    /// The same of each process, in their order.
    cold_starts_seconds: Vec<Seconds>,
    /// The file's state in the page cache before the start, where that was asked for.
    page_cache: Option<String>,
    /// How many count for what follows.
    inferences: u64,
    /// Half of them took less.
    median_seconds: Seconds,
    /// Half of the inferences lie between these two.
    quartile_seconds: [Seconds; 2],
    /// The shortest.
    min_seconds: Seconds,
    /// 95 of 100 took less.
    p95_seconds: Seconds,
    /// 99 of 100 took less.
    p99_seconds: Seconds,
    /// CPU time of all threads for one inference, the median.
    cpu_seconds_median: Seconds,
    /// Inferences in a second, by the median.
    per_second: f64,
    /// Multiply-adds in a second; `null` where those of an operator are not known.
    multiply_adds_per_second: Option<f64>,
    /// Most memory of the run's control group.
    peak_memory_bytes: Option<Bytes>,
    /// Energy of one inference, where it can be measured.
    joules_per_inference: Option<Joules>,
    /// Time by operator, where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operators: Vec<Operator>,
}

impl Timed {
    /// Between which the cold starts of several processes lie.
    fn spread(&self) -> String {
        let all = || self.cold_starts_seconds.iter().map(|one| one.get());
        match self.cold_starts_seconds.len() {
            0 | 1 => String::new(),
            processes => {
                let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
                format!(" (median of {processes}, {} – {})", Seconds(low), Seconds(high))
            }
        }
    }
}

/// Time of one of a runtime's operators.
#[derive(Debug, Serialize, JsonSchema)]
struct Operator {
    /// The runtime's name for it.
    name: String,
    /// Its kind in the runtime.
    kind: String,
    /// What it takes in one inference.
    seconds: Seconds,
    /// Share of all of them.
    share: f64,
    /// Multiply-adds of the operators that it covers.
    multiply_adds: Option<u64>,
    /// How fast these were.
    multiply_adds_per_second: Option<f64>,
    /// The operators of the file that it stands for.
    covers: Vec<String>,
}

/// Two runtimes side by side.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// Median of the first over that of the second.
    time_ratio: f64,
    /// Whether all outputs do.
    agrees: bool,
    /// How far each is apart.
    outputs: Vec<Difference>,
}

impl Comparison {
    /// Of the first two.
    pub fn of(results: &[Timed], outputs: Vec<Difference>) -> Option<Self> {
        let [first, second, ..] = results else { return None };
        let time_ratio = first.median_seconds.get() / second.median_seconds.get();
        Some(Self { time_ratio, agrees: outputs.iter().all(|output| output.agrees), outputs })
    }
}

/// The value below which a part of a sorted list lies (nearest rank; the median is the mean of the middle two).
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let middle = sorted.len() / 2;
    if part == 0.5 && sorted.len().is_multiple_of(2) && middle > 0 {
        return (sorted[middle - 1] + sorted[middle]) / 2.0;
    }
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Load and first inference, as a process told them.
fn cold_start(run: &Record) -> Option<f64> {
    let stage = |name: &str| run.stages.iter().find(|stage| stage.name == name)?.p50;
    Some(stage("load")? + stage("first")?)
}

/// Energy of one inference: the run's mean power for as long as inferences took on average. Loading and warm-up are so not charged to them.
fn energy_each(energy: Joules, whole: Seconds, wall: &[f64]) -> Option<Joules> {
    let mean = wall.iter().sum::<f64>() / wall.len() as f64;
    Some(Joules(energy.get() / whole.get() * mean)).filter(|joules| joules.get().is_finite())
}

impl Told {
    pub fn new(
        path: &Path,
        digest: Digest,
        analysis: &Analysis,
        made: &[Tensor],
        threads: usize,
        notes: Vec<String>,
    ) -> Self {
        let input = |tensor: &Tensor| Input {
            name: tensor.name.clone(),
            data_type: tensor.values.data_type(),
            shape: tensor.shape.clone(),
        };
        Self {
            schema: "metier.bench/1",
            graph: Graph {
                file: path.display().to_string(),
                digest,
                parameters: analysis.parameters,
                multiply_adds: analysis.multiply_adds,
                operators: analysis.operators.len(),
            },
            inputs: made.iter().map(input).collect(),
            threads,
            results: Vec::new(),
            failed: Vec::new(),
            comparison: None,
            notes,
        }
    }

    /// A runtime that did not come to an end.
    pub fn fail(&mut self, runtime: &'static str, records: &[Record]) {
        let last = records.last();
        self.failed.push(Failed {
            runtime,
            run: last.map(|run| run.id.to_string()),
            verdict: last.map(metier_measure::verdict),
        });
    }

    /// A runtime that did.
    pub fn add(
        &mut self,
        runtime: &'static str,
        records: &[Record],
        outcome: &Outcome,
        analysis: &Analysis,
        is_kept: bool,
    ) {
        let (Some(load), Some(first), Some(run)) = (outcome.load, outcome.first, records.last()) else {
            return;
        };
        let sorted = |of: fn(&metier_infer::Spent) -> f64| {
            let mut all: Vec<f64> = outcome.runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let wall = sorted(|spent| spent.wall.get());
        let cpu = sorted(|spent| spent.cpu.get());
        let at = |part: f64| Seconds(quantile(&wall, part));
        let median = at(0.5);
        let known = (analysis.multiply_adds > 0 && analysis.operators_without_cost == 0)
            .then(|| analysis.multiply_adds as f64 / median.get());
        let mut cold: Vec<f64> = records.iter().filter_map(cold_start).collect();
        if records.len() == 1 || cold.len() != records.len() {
            cold = vec![load.wall.get() + first.wall.get()];
        }
        let cold_starts_seconds = cold.iter().copied().map(Seconds).collect();
        cold.sort_by(f64::total_cmp);
        self.results.push(Timed {
            runtime,
            runs: records.iter().map(|run| run.id.to_string()).collect(),
            is_kept,
            load_seconds: load.wall,
            first_seconds: first.wall,
            cold_start_seconds: Seconds(quantile(&cold, 0.5)),
            cold_starts_seconds,
            page_cache: run.context.dataset.as_ref().map(|one| crate::output::word_of(&one.page_cache)),
            inferences: outcome.inferences,
            median_seconds: median,
            quartile_seconds: [at(0.25), at(0.75)],
            min_seconds: at(0.0),
            p95_seconds: at(0.95),
            p99_seconds: at(0.99),
            cpu_seconds_median: Seconds(quantile(&cpu, 0.5)),
            per_second: 1.0 / median.get(),
            multiply_adds_per_second: known,
            peak_memory_bytes: run.summary.peak_memory_bytes,
            joules_per_inference: run
                .summary
                .energy_joules
                .zip(run.summary.wall_seconds)
                .and_then(|(energy, whole)| energy_each(energy, whole, &wall)),
            operators: operators(outcome, analysis),
        });
    }

    pub fn text(&self, with_operators: bool, paint: Paint) -> String {
        let mut text = self.head(paint);
        let mut table = Table::with_header(&[
            "RUNTIME",
            "LOAD",
            "FIRST",
            "MEDIAN",
            "QUARTILES",
            "P95",
            "PER SECOND",
            "CPU",
            "PEAK MEMORY",
            "GMAC/S",
        ]);
        for one in &self.results {
            let [low, high] = one.quartile_seconds;
            table.row(vec![
                Cell::text(one.runtime),
                Cell::number(one.load_seconds.to_string()),
                Cell::number(one.first_seconds.to_string()),
                Cell::number(one.median_seconds.to_string()).styled(Paint::bold),
                Cell::number(format!("{low} – {high}")),
                Cell::number(one.p95_seconds.to_string()),
                Cell::number(short(one.per_second)),
                Cell::number(one.cpu_seconds_median.to_string()),
                Cell::quantity(one.peak_memory_bytes),
                Cell::quantity(one.multiply_adds_per_second.map(|speed| short(speed / 1e9))),
            ]);
        }
        text.push_str(&format!("\n{}", table.render(paint)));
        for one in &self.results {
            let cache =
                one.page_cache.as_ref().map(|cache| format!(", page cache {cache}")).unwrap_or_default();
            let energy =
                one.joules_per_inference.map(|joules| format!(", {joules} an inference")).unwrap_or_default();
            let kept = match (one.is_kept, one.runs.last()) {
                (true, Some(run)) => format!("; run {}", short_id(run)),
                _ => String::new(),
            };
            text.push_str(&format!(
                "{}\n",
                paint.dim(&format!(
                    "{}: {} inferences; cold start (load and first) {}{}{cache}{energy}{kept}",
                    one.runtime,
                    one.inferences,
                    one.cold_start_seconds,
                    one.spread()
                ))
            ));
        }
        if let Some(comparison) = &self.comparison {
            text.push_str(&compared(comparison, &self.results, paint));
        }
        if with_operators {
            self.results.iter().for_each(|one| text.push_str(&operator_table(one, paint)));
        }
        text
    }

    fn head(&self, paint: Paint) -> String {
        let mut table = Table::default();
        let mut line = |label: &str, text: String| {
            table.row(vec![Cell::text(label).styled(Paint::dim), Cell::text(text)]);
        };
        line("graph", self.graph.file.clone());
        let graph = &self.graph;
        let (parameters, work) = (big(graph.parameters), big(graph.multiply_adds));
        line("", format!("{} operators, {parameters} parameters, {work} multiply-adds", graph.operators));
        for input in &self.inputs {
            let sizes: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
            let sizes = if sizes.is_empty() { "one".to_string() } else { sizes.join("x") };
            line("input", format!("{} {sizes} {}", input.name, crate::output::word_of(&input.data_type)));
        }
        line("threads", self.threads.to_string());
        table.render(paint)
    }

    /// One line for each runtime, for a spreadsheet.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |one: &Timed| {
            vec![
                one.runtime.to_string(),
                self.threads.to_string(),
                one.inferences.to_string(),
                one.load_seconds.get().to_string(),
                one.first_seconds.get().to_string(),
                one.median_seconds.get().to_string(),
                one.p95_seconds.get().to_string(),
                one.p99_seconds.get().to_string(),
                one.cpu_seconds_median.get().to_string(),
                plain(one.peak_memory_bytes.map(|bytes| bytes.0)),
                one.runs.last().cloned().unwrap_or_default(),
            ]
        };
        self.results.iter().map(row).collect()
    }
}

/// The columns of [`Told::rows`].
pub const HEADER: [&str; 11] = [
    "runtime",
    "threads",
    "inferences",
    "load_seconds",
    "first_seconds",
    "median_seconds",
    "p95_seconds",
    "p99_seconds",
    "cpu_seconds_median",
    "peak_memory_bytes",
    "run",
];

fn operators(outcome: &Outcome, analysis: &Analysis) -> Vec<Operator> {
    let whole: f64 = outcome.operators.iter().map(|one| one.seconds).sum();
    let shares = shares(analysis, &outcome.operators);
    let mut all: Vec<Operator> = outcome
        .operators
        .iter()
        .zip(shares)
        .map(|(one, share)| Operator {
            name: one.name.clone(),
            kind: one.kind.clone(),
            seconds: Seconds(one.seconds),
            share: if whole > 0.0 { one.seconds / whole } else { 0.0 },
            multiply_adds: share.multiply_adds,
            multiply_adds_per_second: share
                .multiply_adds
                .filter(|cost| *cost > 0 && one.seconds > 0.0)
                .map(|cost| cost as f64 / one.seconds),
            covers: share.operators,
        })
        .collect();
    all.sort_by(|a, b| b.seconds.get().total_cmp(&a.seconds.get()));
    all
}

fn operator_table(one: &Timed, paint: Paint) -> String {
    let mut table =
        Table::with_header(&["OPERATOR", "KIND", "TIME", "SHARE", "MULTIPLY-ADDS", "GMAC/S", "COVERS"]);
    for operator in one.operators.iter().take(LISTED) {
        let name = if operator.name.is_empty() { "–" } else { operator.name.as_str() };
        table.row(vec![
            Cell::text(name).at_most(40),
            Cell::text(&operator.kind).at_most(24),
            Cell::number(operator.seconds.to_string()),
            Cell::number(format!("{:.1} %", 100.0 * operator.share)),
            Cell::quantity(operator.multiply_adds.filter(|cost| *cost > 0).map(big)),
            Cell::quantity(operator.multiply_adds_per_second.map(|speed| short(speed / 1e9))),
            Cell::number(operator.covers.len().to_string()),
        ]);
    }
    let rest = one.operators.len().saturating_sub(LISTED);
    let more = if rest > 0 { format!("and {rest} more; -o json has all\n") } else { String::new() };
    format!(
        "\n{}\n{}{}",
        paint.bold(&format!("Operators in {}", one.runtime)),
        table.render(paint),
        paint.dim(&more)
    )
}

fn compared(comparison: &Comparison, results: &[Timed], paint: Paint) -> String {
    let names: Vec<&str> = results.iter().map(|one| one.runtime).collect();
    let verdict = if comparison.agrees { "outputs agree" } else { "outputs DIFFER" };
    let mut text = format!(
        "\n{}: {} takes {:.2} times as long as {}\n",
        paint.bold(verdict),
        names.first().unwrap_or(&""),
        comparison.time_ratio,
        names.get(1).unwrap_or(&"")
    );
    let mut table = Table::with_header(&["OUTPUT", "SHAPE", "MAX ABSOLUTE", "MAX RELATIVE", ""]).indented(2);
    for output in &comparison.outputs {
        let sizes: Vec<String> = output.shape.iter().map(ToString::to_string).collect();
        table.row(vec![
            Cell::text(&output.name).at_most(40),
            Cell::text(sizes.join("x")),
            Cell::quantity(output.max_absolute.map(|apart| format!("{apart:.2e}"))),
            Cell::quantity(output.max_relative.map(|apart| format!("{apart:.2e}"))),
            Cell::text(if output.agrees { "agrees" } else { "differs" }),
        ]);
    }
    text.push_str(&table.render(paint));
    text
}

/// The beginning of a run's identity, as the store finds it.
fn short_id(id: &str) -> String {
    id.parse::<metier_types::RunId>().map_or_else(|_| id.to_string(), |id| id.short().to_string())
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_code() {
        crate::output::published::<Told>("metier.bench-1");
    }

    #[test]
    fn an_inference_is_charged_with_power_for_its_own_time() {
        // 100 J in 20 s are 5 W; an inference of 0.2 s has 1 J of it, however few there were.
        let each = energy_each(Joules(100.0), Seconds(20.0), &[0.1, 0.3]).unwrap();
        assert!((each.get() - 1.0).abs() < 1e-12);
        assert_eq!(energy_each(Joules(1.0), Seconds(1.0), &[]), None);
    }

    #[test]
    fn quantiles_are_of_the_list() {
        let list: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((quantile(&list, 0.5), quantile(&list, 0.95), quantile(&list, 0.0)), (50.5, 95.0, 1.0));
        assert_eq!((quantile(&[3.0], 0.5), quantile(&[3.0], 0.99), quantile(&[], 0.5)), (3.0, 3.0, 0.0));
    }
}
