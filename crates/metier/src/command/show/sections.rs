//! A run as text: head, figures in two columns of sections, time line, processes, and what is
//! missing.

use std::collections::BTreeMap;

use metier_stats::{AdviceFirmness, UseHistory, peak_cores, size_resources};
use metier_types::{ProcessRecord, ProcessSource, ProcessTree, Run, Series};

use crate::output::{
    StreamPaint, TableCell, TextTable, app_stages, csv_cell, figures, printable_text, sparkline,
};
use crate::time;

/// Limit of processes in the summary.
const MAX_TOP_PROCESSES: usize = 5;
/// Limit of processes in the tree.
const MAX_TREE_ROWS: usize = 10_000;
/// Limit of listed files.
const MAX_FILES: usize = 100;
/// Width of the time line.
const BAR_WIDTH: usize = 60;

/// Everything about a run.
pub fn run_text(run: &Run, lines: &[Series], tree: Option<&ProcessTree>, paint: StreamPaint) -> String {
    let line = lines.first();
    let mut text = format!("{}\n\n{}", paint.bold(&metier_measure::verdict(run)), run_head(run, paint));
    for section in figures::run_sections(run) {
        text.push_str(&format!("\n{}\n", paint.bold(section.title)));
        let mut table = TextTable::default().indented(2);
        for figure in section.figures {
            let mark = figures::quality_mark(run, figure.path);
            table.add_row(vec![
                TableCell::text(figure.label),
                TableCell::number(figure.value),
                TableCell::text(mark).styled(StreamPaint::yellow),
            ]);
        }
        text.push_str(&table.render(paint));
        if section.title == "Energy" {
            text.push_str(&meters_table(run, paint));
        }
    }
    text.push_str(&gpus_table(run, paint));
    text.push_str(&application_text(run, paint));
    if let Some(drawn) = line.map(|line| timeline_bars(run, line, paint)).filter(|drawn| !drawn.is_empty()) {
        text.push_str(&format!("\n{}\n{drawn}", paint.bold("Time line")));
    }
    text.push_str(&advice_text(run, lines, paint));
    if let Some(tree) = tree.filter(|tree| !tree.processes.is_empty()) {
        text.push_str(&format!(
            "\n{}\n{}",
            paint.bold(&format!("Processes: {}", tree.total)),
            top_processes(tree, paint)
        ));
    }
    let files: Vec<_> = run.artefacts.iter().filter(|file| file.name != ProcessTree::ARTEFACT_NAME).collect();
    if !files.is_empty() {
        let mut table = TextTable::default().indented(2);
        for file in files.iter().take(MAX_FILES) {
            table.add_row(vec![
                TableCell::text(&file.name).truncated(60),
                TableCell::number(file.size_bytes.to_string()),
                TableCell::text(&file.media_type).styled(StreamPaint::dim),
            ]);
        }
        text.push_str(&format!("\n{}\n{}", paint.bold("Files (--artefact NAME)"), table.render(paint)));
    }
    if !run.warnings.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Warnings")));
        run.warnings.iter().for_each(|warning| {
            text.push_str(&format!("  {} {}\n", paint.yellow(&format!("{}:", warning.code)), warning.text));
        });
    }
    if !run.missing.is_empty() {
        text.push_str(&format!("\n{}\n{}", paint.bold("Not measured"), missing_text(run, paint)));
    }
    text.push_str(&format!("\n{}\n", paint.dim(figures::LEGEND)));
    text
}

fn run_head(run: &Run, paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    let mut row = |label: &str, value: String| {
        if !value.is_empty() {
            table.add_row(vec![TableCell::text(label).styled(StreamPaint::dim), TableCell::text(value)]);
        }
    };
    row("run", run.id.to_string());
    row("workload", run.workload.name.clone());
    row("command", metier_report::shell_words(&run.context.command));
    row("device", run.device.name.clone());
    row("started", time::local_time(run.started));
    row("ended", ending_text(run));
    row("tags", run.tags.join(", "));
    if run.context.repetitions > 1 {
        let which = if run.context.warmup { "warm-up " } else { "" };
        row(
            "batch",
            format!("{}, {which}{} of {}", run.batch, run.context.repetition, run.context.repetitions),
        );
    }
    row("folder", run.context.working_directory.clone().unwrap_or_default());
    row("input", run.context.input.clone().unwrap_or_default());
    row("method", run.context.method.map(method_text).unwrap_or_default().to_string());
    table.render(paint)
}

fn ending_text(run: &Run) -> String {
    let mut text = figures::ending_word(run.state, run.exit.as_ref());
    if let Some(exit) = &run.exit {
        if let Some(by) = &exit.ended_by {
            text.push_str(&format!(", ended by {by}"));
        }
        if exit.left_behind > 0 {
            text.push_str(&format!(", left {} processes behind", exit.left_behind));
        }
    }
    text
}

fn method_text(method: metier_types::AccountingMethod) -> &'static str {
    use metier_types::AccountingMethod;
    match method {
        AccountingMethod::CgroupV2 => "control group of its own (version 2)",
        AccountingMethod::CgroupV1 => "control groups of its own (version 1)",
        AccountingMethod::CgroupHybrid => "control groups of its own (version 1, with version 2 beside it)",
        AccountingMethod::SystemdScope => "systemd scope of its own",
        AccountingMethod::Container => "the control group of its container",
        AccountingMethod::Wait4 => "wait4 and a child subreaper",
        _ => "unknown to this version",
    }
}

fn meters_table(run: &Run, paint: StreamPaint) -> String {
    let mut table = TextTable::default().indented(2);
    for meter in &run.energy.meters {
        let name = format!(
            "{} ({}{})",
            meter.name,
            meter.source,
            if meter.counted { "" } else { ", part of another" }
        );
        table.add_row(vec![
            TableCell::text(name).styled(StreamPaint::dim),
            TableCell::number(meter.format_energy()),
        ]);
    }
    table.render(paint)
}

fn gpus_table(run: &Run, paint: StreamPaint) -> String {
    if run.gpus.is_empty() {
        return String::new();
    }
    let mut table = TextTable::default().indented(2);
    for gpu in &run.gpus {
        table.add_row(vec![
            TableCell::text(&gpu.name),
            TableCell::quantity(gpu.mean_utilisation_ratio),
            TableCell::quantity(gpu.peak_memory_bytes),
            TableCell::quantity(gpu.energy_joules),
        ]);
    }
    format!("\n{}\n{}", paint.bold("GPU: busy, peak memory, energy"), table.render(paint))
}

/// Stages of the application, and their reception.
fn application_text(run: &Run, paint: StreamPaint) -> String {
    let Some(went) = app_stages::intake_line(run) else { return String::new() };
    let table = app_stages::stages_table(run, usize::MAX, paint);
    let examples = run.intake.iter().flat_map(|intake| &intake.examples);
    let examples: String = examples
        .map(|example| format!("  {} {}\n", paint.dim("not understood:"), printable_text(example)))
        .collect();
    format!("\n{}\n{table}  {}\n{examples}", paint.bold("Stages of the application"), paint.dim(&went))
}

/// CPU and memory over time.
fn timeline_bars(run: &Run, line: &Series, paint: StreamPaint) -> String {
    let mut table = TextTable::default().indented(2);
    for name in ["cpu", "memory"] {
        let Some(column) = line.column(name) else { continue };
        let Some(drawn) = sparkline::draw_sparkline(line, column, BAR_WIDTH) else { continue };
        // The bars show means of longer intervals, so their largest value is not the peak.
        let most = match name {
            "cpu" => peak_cores(run, line).map(|peak| format!("most {peak:.2} cores")).unwrap_or_default(),
            _ => format!("most {}", column.unit.text(drawn.most)),
        };
        table.add_row(vec![
            TableCell::text(name),
            TableCell::text(drawn.bars).styled(StreamPaint::cyan),
            TableCell::text(most),
        ]);
    }
    table.render(paint)
}

/// Recommended requests and limits, as in a report on this run; nothing where there is no advice.
fn advice_text(run: &Run, lines: &[Series], paint: StreamPaint) -> String {
    let history: Vec<UseHistory> = UseHistory::of_run(run, lines).into_iter().collect();
    let advice = size_resources(&history);
    if advice.firmness == AdviceFirmness::Refused && advice.notes.is_empty() {
        return String::new();
    }
    let mut table = TextTable::default().indented(2);
    for quota in &advice.quotas {
        table.add_row(vec![
            TableCell::text(&quota.key),
            TableCell::number(&quota.value),
            TableCell::text(&quota.reason).styled(StreamPaint::dim),
        ]);
    }
    let notes: String = advice.notes.iter().map(|note| format!("  {note}\n")).collect();
    let basis = paint.dim(&advice.basis);
    format!("\n{}\n{}{notes}  {basis}\n", paint.bold("Requests and limits"), table.render(paint))
}

/// What could not be measured. Fields with the same reason share a line.
pub fn missing_text(run: &Run, paint: StreamPaint) -> String {
    let mut reasons: BTreeMap<String, (Vec<&str>, Option<&str>)> = BTreeMap::new();
    for (field, missing) in &run.missing {
        let entry = reasons.entry(missing.reason.clone()).or_insert((Vec::new(), missing.fix.as_deref()));
        entry.0.push(field);
    }
    let mut text = String::new();
    for (reason, (fields, fix)) in reasons {
        text.push_str(&format!("  {}: {reason}\n", fields.join(", ")));
        if let Some(fix) = fix {
            text.push_str(&format!("    {} {fix}\n", paint.green("fix:")));
        }
    }
    text
}

fn process_row(process: &ProcessRecord, depth: usize) -> Vec<TableCell> {
    let what = process.command.as_deref().filter(|command| !command.is_empty()).unwrap_or(&process.name);
    let ended = match (process.exit_code, process.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(0), None) => "ok".to_string(),
        (Some(code), None) => format!("exit {code}"),
        (None, None) => String::new(),
    };
    vec![
        TableCell::number(process.pid.to_string()).styled(StreamPaint::dim),
        TableCell::number(process.started_seconds.to_string()).styled(StreamPaint::dim),
        TableCell::quantity(process.ended_seconds.map(|ended| ended - process.started_seconds)),
        TableCell::quantity(process.cpu_seconds),
        TableCell::quantity(process.peak_resident_bytes),
        TableCell::text(ended),
        TableCell::text(format!("{}{what}", "  ".repeat(depth))).truncated(80),
    ]
}

const PROCESS_HEADER: [&str; 7] = ["PID", "START", "LIVED", "CPU", "PEAK", "END", "COMMAND"];

fn top_processes(tree: &ProcessTree, paint: StreamPaint) -> String {
    let cpu = |process: &ProcessRecord| process.cpu_seconds.map_or(-1.0, |seconds| seconds.get());
    let mut processes: Vec<&ProcessRecord> = tree.processes.iter().collect();
    processes.sort_by(|a, b| cpu(b).total_cmp(&cpu(a)).then(a.pid.cmp(&b.pid)));
    let mut table = TextTable::with_header(&PROCESS_HEADER).indented(2);
    processes.iter().take(MAX_TOP_PROCESSES).for_each(|process| table.add_row(process_row(process, 0)));
    let mut text = table.render(paint);
    if tree.total > MAX_TOP_PROCESSES as u64 {
        text.push_str(&format!("  {}\n", paint.dim("most CPU time first; --processes shows all")));
    }
    text
}

/// All processes, children under their parents.
pub fn process_tree_text(tree: &ProcessTree, paint: StreamPaint) -> String {
    // The kernel may reuse a PID within a run. Children belong to the latest process of that PID
    // that started before them.
    let mut children: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (at, process) in tree.processes.iter().enumerate() {
        let parent = process.parent.and_then(|pid| {
            let before = |(_, other): &(usize, &ProcessRecord)| {
                other.pid == pid && other.started_seconds <= process.started_seconds
            };
            let candidates = tree.processes.iter().enumerate().filter(|(i, _)| *i != at).filter(before);
            candidates
                .max_by(|a, b| a.1.started_seconds.get().total_cmp(&b.1.started_seconds.get()))
                .map(|(i, _)| i)
        });
        children.entry(parent).or_default().push(at);
    }
    let mut table = TextTable::with_header(&PROCESS_HEADER);
    let mut shown = vec![false; tree.processes.len()];
    let mut stack: Vec<(usize, usize)> =
        root_processes(&children).into_iter().rev().map(|at| (at, 0)).collect();
    while let Some((at, depth)) = stack.pop() {
        if std::mem::replace(&mut shown[at], true) || table.len() > MAX_TREE_ROWS {
            continue;
        }
        table.add_row(process_row(&tree.processes[at], depth.min(20)));
        stack.extend(children.get(&Some(at)).into_iter().flatten().rev().map(|child| (*child, depth + 1)));
    }
    let mut text = table.render(paint);
    let hidden = tree.omitted + shown.iter().filter(|shown| !**shown).count() as u64;
    let source = match tree.source {
        ProcessSource::Events => "every process, by exit events",
        ProcessSource::Sampled => "processes that samples saw; short ones may be missing",
    };
    let hidden = if hidden > 0 { format!(", {hidden} not listed") } else { String::new() };
    text.push_str(&format!("{}\n", paint.dim(&format!("{} processes ({source}){hidden}", tree.total))));
    text
}

fn root_processes(children: &BTreeMap<Option<usize>, Vec<usize>>) -> Vec<usize> {
    children.get(&None).cloned().unwrap_or_default()
}

/// The header of processes as CSV.
pub const PROCESS_COLUMNS: &str = "\
    pid,parent,name,command,started_seconds,ended_seconds,cpu_seconds,peak_resident_bytes,read_bytes,\
    written_bytes,end";

/// A process as a row of CSV.
pub fn process_cells(process: &ProcessRecord) -> Vec<String> {
    let end = match (process.exit_code, process.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => code.to_string(),
        (None, None) => String::new(),
    };
    vec![
        process.pid.to_string(),
        csv_cell(process.parent),
        process.name.clone(),
        process.command.clone().unwrap_or_default(),
        process.started_seconds.get().to_string(),
        csv_cell(process.ended_seconds.map(|x| x.get())),
        csv_cell(process.cpu_seconds.map(|x| x.get())),
        csv_cell(process.peak_resident_bytes.map(|x| x.get())),
        csv_cell(process.read_bytes.map(|x| x.get())),
        csv_cell(process.written_bytes.map(|x| x.get())),
        end,
    ]
}
