//! Runs as rows: a table for people, cells for CSV.

use metier_types::{RunRow, Timestamp};

use crate::output::{Cell, Paint, Table, figures, plain, word_of as word};
use crate::time;

pub fn table(rows: &[RunRow], now: Timestamp) -> Table {
    let mut table =
        Table::with_header(&["ID", "WHEN", "WORKLOAD", "END", "WALL", "CPU", "PEAK", "DEVICE", "TAGS"]);
    for row in rows {
        let ending = figures::ending(row.state, row.exit.as_ref());
        let style = match ending.as_str() {
            "ok" => Paint::green,
            "running" => Paint::cyan,
            "interrupted" => Paint::yellow,
            _ => Paint::red,
        };
        let mut name = row.workload.name.clone();
        if row.repetitions > 1 {
            name = format!("{name} {}/{}", row.repetition, row.repetitions);
        }
        if row.warmup {
            name.push_str(" (warm-up)");
        }
        let summary = &row.summary;
        table.row(vec![
            Cell::text(row.id.short()).styled(Paint::cyan),
            Cell::text(time::ago(row.started, now)),
            Cell::text(name).at_most(40),
            Cell::text(ending).styled(style),
            Cell::quantity(summary.wall_seconds),
            Cell::quantity(summary.cpu_seconds),
            Cell::quantity(summary.peak_memory_bytes),
            Cell::text(&row.device.name).at_most(20).styled(Paint::dim),
            Cell::text(row.tags.join(", ")).at_most(30).styled(Paint::dim),
        ]);
    }
    table
}

/// The header of CSV.
pub const COLUMNS: &str = "\
    id,batch,started,ended,workload,device,state,cause,exit_code,signal,wall_seconds,cpu_seconds,\
    cpu_user_seconds,cpu_system_seconds,peak_memory_bytes,read_bytes,written_bytes,energy_joules,\
    processes,own_overhead_ratio,repetition,repetitions,tags,command";

/// A run as a row of CSV.
pub fn cells(row: &RunRow) -> Vec<String> {
    let (exit, summary) = (row.exit.as_ref(), &row.summary);
    vec![
        row.id.to_string(),
        row.batch.to_string(),
        row.started.to_string(),
        plain(row.ended),
        row.workload.name.clone(),
        row.device.name.clone(),
        word(&row.state),
        exit.map(|exit| word(&exit.cause)).unwrap_or_default(),
        plain(exit.and_then(|exit| exit.code)),
        plain(exit.and_then(|exit| exit.signal)),
        plain(summary.wall_seconds.map(|x| x.get())),
        plain(summary.cpu_seconds.map(|x| x.get())),
        plain(summary.cpu_user_seconds.map(|x| x.get())),
        plain(summary.cpu_system_seconds.map(|x| x.get())),
        plain(summary.peak_memory_bytes.map(|x| x.get())),
        plain(summary.read_bytes.map(|x| x.get())),
        plain(summary.written_bytes.map(|x| x.get())),
        plain(summary.energy_joules.map(|x| x.get())),
        plain(summary.processes),
        plain(summary.own_overhead_ratio.map(|x| x.get())),
        row.repetition.to_string(),
        row.repetitions.to_string(),
        row.tags.join(";"),
        row.command.clone(),
    ]
}
