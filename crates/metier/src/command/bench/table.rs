//! A report of `metier bench` as tables.

use metier_infer::{BenchReport, RuntimeComparison, RuntimeTimes};
use metier_types::{RunId, Seconds};

use crate::command::inspect::short_count;
use crate::output::{StreamPaint, TableCell, TextTable, csv_cell, serialised_word};

/// Limit of listed operators.
const MAX_LISTED_OPERATORS: usize = 25;

pub fn report_text(report: &BenchReport, with_operators: bool, paint: StreamPaint) -> String {
    let mut text = graph_head(report, paint);
    let mut table = TextTable::with_header(&[
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
    for times in &report.results {
        let [low, high] = times.quartile_seconds;
        table.add_row(vec![
            TableCell::text(times.runtime),
            TableCell::number(times.load_seconds.to_string()),
            TableCell::number(times.first_seconds.to_string()),
            TableCell::number(times.median_seconds.to_string()).styled(StreamPaint::bold),
            TableCell::number(format!("{low} – {high}")),
            TableCell::number(times.p95_seconds.to_string()),
            TableCell::number(three_digits(times.per_second)),
            TableCell::number(times.cpu_seconds_median.to_string()),
            TableCell::quantity(times.peak_memory_bytes),
            TableCell::quantity(times.multiply_adds_per_second.map(|speed| three_digits(speed / 1e9))),
        ]);
    }
    text.push_str(&format!("\n{}", table.render(paint)));
    for runtime_times in &report.results {
        let cache = runtime_times
            .page_cache
            .as_ref()
            .map(|cache| format!(", page cache {cache}"))
            .unwrap_or_default();
        let energy = runtime_times
            .joules_per_inference
            .map(|joules| format!(", {joules} an inference"))
            .unwrap_or_default();
        let name_text = match (runtime_times.is_kept, runtime_times.runs.last()) {
            (true, Some(run)) => format!("; run {}", short_id(run)),
            _ => String::new(),
        };
        text.push_str(&format!(
            "{}\n",
            paint.dim(&format!(
                "{}: {} inferences; cold start (load and first) {}{}{cache}{energy}{name_text}",
                runtime_times.runtime,
                runtime_times.inferences,
                runtime_times.cold_start_seconds,
                cold_start_spread(runtime_times)
            ))
        ));
    }
    if let Some(comparison) = &report.comparison {
        text.push_str(&comparison_text(comparison, &report.results, paint));
    }
    if with_operators {
        report.results.iter().for_each(|one| text.push_str(&operator_table(one, paint)));
    }
    text
}

fn graph_head(report: &BenchReport, paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    let mut line = |label: &str, text: String| {
        table.add_row(vec![TableCell::text(label).styled(StreamPaint::dim), TableCell::text(text)]);
    };
    line("graph", report.graph.file.clone());
    let graph = &report.graph;
    let (parameters, work) = (short_count(graph.parameters), short_count(graph.multiply_adds));
    line("", format!("{} operators, {parameters} parameters, {work} multiply-adds", graph.operators));
    for input in &report.inputs {
        let sizes: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
        let sizes = if sizes.is_empty() { "one".to_string() } else { sizes.join("x") };
        line("input", format!("{} {sizes} {}", input.name, serialised_word(&input.data_type)));
    }
    line("threads", report.threads.to_string());
    table.render(paint)
}

/// One row for each runtime, for CSV.
pub fn csv_rows(report: &BenchReport) -> Vec<Vec<String>> {
    let row = |times: &RuntimeTimes| {
        vec![
            times.runtime.to_string(),
            report.threads.to_string(),
            times.inferences.to_string(),
            times.load_seconds.get().to_string(),
            times.first_seconds.get().to_string(),
            times.median_seconds.get().to_string(),
            times.p95_seconds.get().to_string(),
            times.p99_seconds.get().to_string(),
            times.cpu_seconds_median.get().to_string(),
            csv_cell(times.peak_memory_bytes.map(|bytes| bytes.0)),
            times.runs.last().cloned().unwrap_or_default(),
        ]
    };
    report.results.iter().map(row).collect()
}

/// Range of the cold starts of several processes.
fn cold_start_spread(times: &RuntimeTimes) -> String {
    let all = || times.cold_starts_seconds.iter().map(|seconds| seconds.get());
    match times.cold_starts_seconds.len() {
        0 | 1 => String::new(),
        processes => {
            let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
            format!(" (median of {processes}, {} – {})", Seconds(low), Seconds(high))
        }
    }
}

/// The columns of [`rows`].
pub const HEADER: &str = "\
    runtime,threads,inferences,load_seconds,first_seconds,median_seconds,p95_seconds,p99_seconds,\
    cpu_seconds_median,peak_memory_bytes,run";

fn operator_table(times: &RuntimeTimes, paint: StreamPaint) -> String {
    let mut table =
        TextTable::with_header(&["OPERATOR", "KIND", "TIME", "SHARE", "MULTIPLY-ADDS", "GMAC/S", "COVERS"]);
    for operator in times.operators.iter().take(MAX_LISTED_OPERATORS) {
        let name = if operator.name.is_empty() { "–" } else { operator.name.as_str() };
        table.add_row(vec![
            TableCell::text(name).truncated(40),
            TableCell::text(&operator.kind).truncated(24),
            TableCell::number(operator.seconds.to_string()),
            TableCell::number(format!("{:.1} %", 100.0 * operator.share)),
            TableCell::quantity(operator.multiply_adds.filter(|cost| *cost > 0).map(short_count)),
            TableCell::quantity(operator.multiply_adds_per_second.map(|speed| three_digits(speed / 1e9))),
            TableCell::number(operator.covers.len().to_string()),
        ]);
    }
    let rest = times.operators.len().saturating_sub(MAX_LISTED_OPERATORS);
    let more = if rest > 0 { format!("and {rest} more; -o json has all\n") } else { String::new() };
    format!(
        "\n{}\n{}{}",
        paint.bold(&format!("Operators in {}", times.runtime)),
        table.render(paint),
        paint.dim(&more)
    )
}

fn comparison_text(comparison: &RuntimeComparison, results: &[RuntimeTimes], paint: StreamPaint) -> String {
    let names: Vec<&str> = results.iter().map(|times| times.runtime).collect();
    let verdict = if comparison.agrees { "outputs agree" } else { "outputs DIFFER" };
    let mut text = format!(
        "\n{}: {} takes {:.2} times as long as {}\n",
        paint.bold(verdict),
        names.first().unwrap_or(&""),
        comparison.time_ratio,
        names.get(1).unwrap_or(&"")
    );
    let mut table =
        TextTable::with_header(&["OUTPUT", "SHAPE", "MAX ABSOLUTE", "MAX RELATIVE", ""]).indented(2);
    for output in &comparison.outputs {
        let sizes: Vec<String> = output.shape.iter().map(ToString::to_string).collect();
        table.add_row(vec![
            TableCell::text(&output.name).truncated(40),
            TableCell::text(sizes.join("x")),
            TableCell::quantity(output.max_absolute.map(|apart| format!("{apart:.2e}"))),
            TableCell::quantity(output.max_relative.map(|apart| format!("{apart:.2e}"))),
            TableCell::text(if output.agrees { "agrees" } else { "differs" }),
        ]);
    }
    text.push_str(&table.render(paint));
    text
}

/// Short form of a run's id, as the store accepts it.
fn short_id(id: &str) -> String {
    id.parse::<RunId>().map_or_else(|_| id.to_string(), |id| id.short().to_string())
}

/// Three significant digits.
fn three_digits(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
