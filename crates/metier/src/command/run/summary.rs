//! The summary that `metier run` prints after the command.

use metier_stats::{SummaryField, batch_spread};
use metier_types::Run;

use crate::output::{StreamPaint, TableCell, TextTable, app_stages, figures};

/// Limit of listed stages.
const MAX_STAGES: usize = 8;

pub fn single_summary(run: &Run, flag: bool, paint: StreamPaint) -> String {
    let mut text = format!("{}\n", paint.bold(&metier_measure::verdict(run)));
    let mut table = TextTable::default().indented(2);
    for (label, path, value, rest) in summary_lines(run) {
        let mark = figures::quality_mark(run, path);
        table.add_row(vec![
            TableCell::text(label).styled(StreamPaint::dim),
            TableCell::number(format!("{mark}{value}")),
            TableCell::text(rest).styled(StreamPaint::dim),
        ]);
    }
    text.push_str(&table.render(paint));
    text.push_str(&app_stages::stages_table(run, MAX_STAGES, paint));
    for warning in &run.warnings {
        text.push_str(&format!("  {} {}\n", paint.yellow("warning"), warning.text));
    }
    let id = run.id.short();
    if !run.missing.is_empty() {
        let n = run.missing.len();
        let things = if n == 1 { "thing" } else { "things" };
        let how = match flag {
            true => format!("`metier show {id} --missing` gives the reasons"),
            false => "`metier doctor` shows the checks".to_string(),
        };
        text.push_str(&format!("  {}\n", paint.dim(&format!("not measured: {n} {things}; {how}"))));
    }
    if flag {
        text.push_str(&format!(
            "  {} `metier show {id}` shows everything\n",
            paint.cyan(&format!("run {id}:"))
        ));
    }
    text
}

type SummaryLine = (&'static str, &'static str, String, String);

/// Label, path for the quality mark, main value, and its annotation.
fn summary_lines(run: &Run) -> Vec<SummaryLine> {
    let summary = &run.summary;
    let mut lines: Vec<SummaryLine> = Vec::new();
    if let Some(wall) = summary.wall_seconds {
        lines.push(("wall", "summary.wall_seconds", wall.to_string(), String::new()));
    }
    if let Some(cpu) = summary.cpu_seconds {
        lines.push(("cpu", "summary.cpu_seconds", cpu.to_string(), cpu_details(run)));
    }
    if let Some(peak) = summary.peak_memory_bytes {
        let part = |label: &str, path: &str, value: Option<metier_types::Bytes>| {
            value.map(|value| format!("{label} {}{value}", figures::quality_mark(run, path)))
        };
        let parts = [
            part("anonymous", "memory.peak_anonymous_bytes", run.memory.peak_anonymous_bytes),
            part("page cache", "memory.peak_file_bytes", run.memory.peak_file_bytes),
        ];
        let beside = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        lines.push(("peak memory", "summary.peak_memory_bytes", peak.to_string(), beside));
    }
    lines.extend(io_line(run));
    if let Some(processes) = summary.processes {
        lines.push(("processes", "summary.processes", processes.to_string(), String::new()));
    }
    if let Some(energy) = run.format_energy() {
        let power =
            run.energy.mean_power_watts.map(|power| format!("{power} on average")).unwrap_or_default();
        lines.push(("energy", "summary.energy_joules", energy, power));
    }
    if let Some(own) = summary.own_overhead_ratio {
        let mut notes = vec!["of a core used by metier itself".to_string()];
        notes.extend(run.host.steal_ratio.map(|steal| format!("stolen {steal}")));
        notes.extend(run.host.others_ratio.map(|others| format!("used by others {others}")));
        lines.push(("trust", "summary.own_overhead_ratio", own.to_string(), notes.join(", ")));
    }
    lines
}

fn cpu_details(run: &Run) -> String {
    let summary = &run.summary;
    let mut parts = Vec::new();
    parts.extend(
        summary
            .cpu_user_seconds
            .map(|user| format!("user {}{user}", figures::quality_mark(run, "summary.cpu_user_seconds"))),
    );
    parts.extend(summary.cpu_system_seconds.map(|system| {
        format!("system {}{system}", figures::quality_mark(run, "summary.cpu_system_seconds"))
    }));
    parts.extend(run.mean_busy_cores().map(|cores| format!("{cores:.2} cores on average")));
    let mark = figures::quality_mark(run, "cpu.peak_cores");
    parts.extend(run.cpu.peak_cores.map(|cores| format!("at most {mark}{cores:.2}")));
    parts.join(", ")
}

fn io_line(run: &Run) -> Option<SummaryLine> {
    let (read, written) = (run.summary.read_bytes?, run.summary.written_bytes?);
    let beside = format!("written {}{written}", figures::quality_mark(run, "summary.written_bytes"));
    Some(("read", "summary.read_bytes", read.to_string(), beside))
}

/// The repetitions of a batch.
pub fn batch_summary(
    runs: &[Run],
    warmups: &[Run],
    asked: u32,
    flag: bool,
    paint: StreamPaint,
) -> anyhow::Result<String> {
    let all: Vec<Run> = warmups.iter().chain(runs).cloned().collect();
    let Some(first) = all.first() else { return Ok(String::new()) };
    let spread = batch_spread(&all)?;
    let counted = spread.runs.len();
    let mut head = format!("{}: {counted} of {asked} repetitions counted", first.workload.name);
    let failed = runs.len() - counted.min(runs.len());
    if failed > 0 {
        head.push_str(&format!(", {failed} failed"));
    }
    if (runs.len() as u32) < asked {
        head.push_str(&format!(", {} not run", asked - runs.len() as u32));
    }
    if !warmups.is_empty() {
        head.push_str(&format!(", {} warm-up", warmups.len()));
    }
    let mut text = format!("{}\n", paint.bold(&head));
    let mut table = TextTable::with_header(&["", "median", "± mad", "min", "max", "outliers"]).indented(2);
    for field in &spread.fields {
        let all_zero = field.spread.max == 0.0;
        if all_zero && field.field != SummaryField::WallSeconds {
            continue;
        }
        let show = |value: f64| field.unit.text(value);
        let outliers = match field.spread.outliers.len() {
            0 => TableCell::number("–").styled(StreamPaint::dim),
            n => TableCell::number(n.to_string()).styled(StreamPaint::yellow),
        };
        table.add_row(vec![
            TableCell::text(field.field.short_name()).styled(StreamPaint::dim),
            TableCell::number(show(field.spread.median)).styled(StreamPaint::bold),
            TableCell::number(format!("± {}", show(field.spread.mad))),
            TableCell::number(show(field.spread.min)),
            TableCell::number(show(field.spread.max)),
            outliers,
        ]);
    }
    if !spread.fields.is_empty() {
        text.push_str(&table.render(paint));
    }
    for warning in &spread.warnings {
        text.push_str(&format!("  {} {}\n", paint.yellow("warning"), warning.text));
    }
    for (text_of, n) in count_warnings(runs) {
        text.push_str(&format!("  {} {text_of} (in {n} of {})\n", paint.yellow("warning"), runs.len()));
    }
    if flag {
        let batch = first.batch;
        let how = format!("`metier runs --batch {batch}` lists it, `metier compare A {batch}` compares it");
        text.push_str(&format!("  {} {how}\n", paint.cyan("batch:")));
    }
    Ok(text)
}

/// Warnings of the repetitions: each kind once, with the first text and the number of repetitions.
fn count_warnings(runs: &[Run]) -> Vec<(&str, usize)> {
    let mut codes: Vec<(&str, &str, usize)> = Vec::new();
    for warning in runs.iter().flat_map(|run| &run.warnings) {
        match codes.iter_mut().find(|(code, ..)| *code == warning.code) {
            Some((_, _, n)) => *n += 1,
            None => codes.push((&warning.code, &warning.text, 1)),
        }
    }
    codes.into_iter().map(|(_, text, n)| (text, n)).collect()
}
