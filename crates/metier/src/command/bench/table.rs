//! A report of `metier bench` as tables.

use metier_infer::{BenchReport, RuntimeComparison, RuntimeTimes};
use metier_types::{RunId, Seconds};

use crate::command::inspect::big;
use crate::output::{Cell, Paint, Table, plain, word_of};

/// Operators that a table lists.
const LISTED: usize = 25;

pub fn text(report: &BenchReport, with_operators: bool, paint: Paint) -> String {
    let mut text = head(report, paint);
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
    for one in &report.results {
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
    for one in &report.results {
        let cache = one.page_cache.as_ref().map(|cache| format!(", page cache {cache}")).unwrap_or_default();
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
                spread(one)
            ))
        ));
    }
    if let Some(comparison) = &report.comparison {
        text.push_str(&compared(comparison, &report.results, paint));
    }
    if with_operators {
        report.results.iter().for_each(|one| text.push_str(&operator_table(one, paint)));
    }
    text
}

fn head(report: &BenchReport, paint: Paint) -> String {
    let mut table = Table::default();
    let mut line = |label: &str, text: String| {
        table.row(vec![Cell::text(label).styled(Paint::dim), Cell::text(text)]);
    };
    line("graph", report.graph.file.clone());
    let graph = &report.graph;
    let (parameters, work) = (big(graph.parameters), big(graph.multiply_adds));
    line("", format!("{} operators, {parameters} parameters, {work} multiply-adds", graph.operators));
    for input in &report.inputs {
        let sizes: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
        let sizes = if sizes.is_empty() { "one".to_string() } else { sizes.join("x") };
        line("input", format!("{} {sizes} {}", input.name, word_of(&input.data_type)));
    }
    line("threads", report.threads.to_string());
    table.render(paint)
}

/// One line for each runtime, for a spreadsheet.
pub fn rows(report: &BenchReport) -> Vec<Vec<String>> {
    let row = |one: &RuntimeTimes| {
        vec![
            one.runtime.to_string(),
            report.threads.to_string(),
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
    report.results.iter().map(row).collect()
}

/// Between which the cold starts of several processes lie.
fn spread(times: &RuntimeTimes) -> String {
    let all = || times.cold_starts_seconds.iter().map(|one| one.get());
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

fn operator_table(one: &RuntimeTimes, paint: Paint) -> String {
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

fn compared(comparison: &RuntimeComparison, results: &[RuntimeTimes], paint: Paint) -> String {
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
    id.parse::<RunId>().map_or_else(|_| id.to_string(), |id| id.short().to_string())
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
