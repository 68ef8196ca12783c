//! Runs as rows: a table or CSV cells.

use metier_types::{RunRow, UtcTimestamp};

use crate::output::{StreamPaint, TableCell, TextTable, csv_cell, figures, serialised_word as word};
use crate::time;

pub fn runs_table(rows: &[RunRow], now: UtcTimestamp) -> TextTable {
    let mut table =
        TextTable::with_header(&["ID", "WHEN", "WORKLOAD", "END", "WALL", "CPU", "PEAK", "DEVICE", "TAGS"]);
    for row in rows {
        let ending = figures::ending_word(row.state, row.exit.as_ref());
        let style = match ending.as_str() {
            "ok" => StreamPaint::green,
            "running" => StreamPaint::cyan,
            "interrupted" => StreamPaint::yellow,
            _ => StreamPaint::red,
        };
        let mut name = row.workload.name.clone();
        if row.repetitions > 1 {
            name = format!("{name} {}/{}", row.repetition, row.repetitions);
        }
        if row.warmup {
            name.push_str(" (warm-up)");
        }
        let summary = &row.summary;
        table.add_row(vec![
            TableCell::text(row.id.short()).styled(StreamPaint::cyan),
            TableCell::text(time::time_ago(row.started, now)),
            TableCell::text(name).truncated(40),
            TableCell::text(ending).styled(style),
            TableCell::quantity(summary.wall_seconds),
            TableCell::quantity(summary.cpu_seconds),
            TableCell::quantity(summary.peak_memory_bytes),
            TableCell::text(&row.device.name).truncated(20).styled(StreamPaint::dim),
            TableCell::text(row.tags.join(", ")).truncated(30).styled(StreamPaint::dim),
        ]);
    }
    table
}

/// The header of CSV.
pub const CSV_COLUMNS: &str = "\
    id,batch,started,ended,workload,device,state,cause,exit_code,signal,wall_seconds,cpu_seconds,\
    cpu_user_seconds,cpu_system_seconds,peak_memory_bytes,read_bytes,written_bytes,energy_joules,\
    processes,own_overhead_ratio,repetition,repetitions,tags,command";

/// A run as a row of CSV.
pub fn run_cells(row: &RunRow) -> Vec<String> {
    let (exit, summary) = (row.exit.as_ref(), &row.summary);
    vec![
        row.id.to_string(),
        row.batch.to_string(),
        row.started.to_string(),
        csv_cell(row.ended),
        row.workload.name.clone(),
        row.device.name.clone(),
        word(&row.state),
        exit.map(|exit| word(&exit.cause)).unwrap_or_default(),
        csv_cell(exit.and_then(|exit| exit.code)),
        csv_cell(exit.and_then(|exit| exit.signal)),
        csv_cell(summary.wall_seconds.map(|x| x.get())),
        csv_cell(summary.cpu_seconds.map(|x| x.get())),
        csv_cell(summary.cpu_user_seconds.map(|x| x.get())),
        csv_cell(summary.cpu_system_seconds.map(|x| x.get())),
        csv_cell(summary.peak_memory_bytes.map(|x| x.get())),
        csv_cell(summary.read_bytes.map(|x| x.get())),
        csv_cell(summary.written_bytes.map(|x| x.get())),
        csv_cell(summary.energy_joules.map(|x| x.get())),
        csv_cell(summary.processes),
        csv_cell(summary.own_overhead_ratio.map(|x| x.get())),
        row.repetition.to_string(),
        row.repetitions.to_string(),
        row.tags.join(";"),
        row.command.clone(),
    ]
}
