//! Charts of CPU, memory, IO, GPU, power and temperature over time. One subject: its columns;
//! several subjects: one line each.

use metier_stats::peak_cores;
use metier_types::{ColumnKind, ColumnUnit, Series};

use crate::blocks::{ReportBlock, ReportSection};
use crate::chart::{ChartScale, draw_chart};
use crate::chart_lines::{ChartLine, column_line};
use crate::{ReportSubject, ReportedRun};

/// Maximum number of repetitions drawn behind the representative run.
const MAX_FAINT_LINES: usize = 10;
/// Maximum number of lines per chart.
const MAX_LINES: usize = 8;

/// A chart of columns of the series `use`.
struct ChartPanel {
    title: &'static str,
    scale: ChartScale,
    columns: &'static [(&'static str, &'static str)],
}

const CHART_PANELS: [ChartPanel; 3] = [
    ChartPanel { title: "CPU, cores in use", scale: ChartScale::Cores, columns: &[("cpu", "cpu")] },
    ChartPanel {
        title: "Memory",
        scale: ChartScale::InUnit(ColumnUnit::Bytes),
        columns: &[("memory", "all"), ("anonymous", "anonymous"), ("file", "page cache")],
    },
    ChartPanel {
        title: "Input and output",
        scale: ChartScale::PerSecond(ColumnUnit::Bytes),
        columns: &[("read", "read"), ("written", "written")],
    },
];

pub fn charts_section(subjects: &[ReportSubject]) -> ReportSection {
    let mut blocks = Vec::new();
    let phases = match subjects {
        [subject] => {
            subject.representative_run().map(|shown| shown.run.context.phases.clone()).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    for panel in &CHART_PANELS {
        let lines = match subjects {
            [subject] => representative_lines(subject, panel),
            many => subject_lines(many, panel),
        };
        // Columns that stay at 0 are omitted; the key figures cover them.
        if lines.iter().any(|line| line.max_value() > 0.0) {
            blocks.extend(draw_chart(panel.title, panel.scale, lines, &phases).map(ReportBlock::Chart));
        }
    }
    if let [subject] = subjects
        && let Some(shown) = subject.representative_run()
    {
        let of =
            |title: &str, scale: ChartScale, is_shown: &dyn Fn(&Series, ColumnKind, ColumnUnit) -> bool| {
                draw_chart(title, scale, matching_lines(shown, is_shown), &phases).map(ReportBlock::Chart)
            };
        let rest = |series: &Series| !matches!(series.name.as_str(), "use" | "host" | "application");
        blocks.extend(of("Power", ChartScale::InUnit(ColumnUnit::Watts), &|series, kind, unit| {
            rest(series)
                && match kind {
                    ColumnKind::Counter => matches!(unit, ColumnUnit::Microjoules | ColumnUnit::Joules),
                    ColumnKind::Gauge => unit == ColumnUnit::Watts,
                }
        }));
        blocks.extend(of(
            "Share of accelerators in use",
            ChartScale::InUnit(ColumnUnit::Ratio),
            &|series, kind, unit| rest(series) && kind == ColumnKind::Gauge && unit == ColumnUnit::Ratio,
        ));
        blocks.extend(of(
            "Memory of accelerators",
            ChartScale::InUnit(ColumnUnit::Bytes),
            &|series, kind, unit| rest(series) && kind == ColumnKind::Gauge && unit == ColumnUnit::Bytes,
        ));
        blocks.extend(of("Temperature", ChartScale::InUnit(ColumnUnit::Celsius), &|_, kind, unit| {
            kind == ColumnKind::Gauge && unit == ColumnUnit::Celsius
        }));
    }
    ReportSection { title: "Over time".to_string(), kind: "charts", blocks }
}

fn usage_series(measured: &ReportedRun) -> Option<&Series> {
    measured.series.iter().find(|series| series.name == "use")
}

/// A column of the run's own use. CPU use has the peak of the run, and nothing is drawn above it.
fn usage_line(measured: &ReportedRun, column: &str) -> Option<ChartLine> {
    let series = usage_series(measured)?;
    let mut line = column_line(series, column)?;
    if let Some(peak) = (column == "cpu").then(|| peak_cores(&measured.run, series)).flatten() {
        line.points.iter_mut().for_each(|point| point.1 = point.1.min(peak));
        line.peak = Some(peak);
    }
    Some(line)
}

/// The columns of the representative run; for a single column, repetitions behind it.
fn representative_lines(subject: &ReportSubject, panel: &ChartPanel) -> Vec<ChartLine> {
    let Some(shown) = subject.representative_run() else { return Vec::new() };
    let mut lines: Vec<ChartLine> = panel
        .columns
        .iter()
        .enumerate()
        .filter_map(|(colour, (column, label))| {
            Some(ChartLine { label: (*label).to_string(), colour, ..usage_line(shown, column)? })
        })
        .filter(|line| line.max_value() > 0.0)
        .collect();
    let first = panel.columns[0].0;
    let behind = subject.runs.iter().filter(|measured| measured.run.id != shown.run.id);
    lines.extend(
        behind
            .take(MAX_FAINT_LINES)
            .filter_map(|measured| Some(ChartLine { is_faint: true, ..usage_line(measured, first)? })),
    );
    lines
}

/// One line per subject; read and written bytes are added.
fn subject_lines(subjects: &[ReportSubject], panel: &ChartPanel) -> Vec<ChartLine> {
    let subject_line = |(colour, subject): (usize, &ReportSubject)| {
        let shown = subject.representative_run()?;
        let series = usage_series(shown)?;
        let mut found = usage_line(shown, panel.columns[0].0)?;
        if panel.columns[0].0 == "read"
            && let Some(other) = column_line(series, "written")
        {
            found.points.iter_mut().for_each(|point| point.1 += other.value_at(point.0).unwrap_or(0.0));
        }
        Some(ChartLine { label: subject.label.clone(), colour, ..found })
    };
    subjects.iter().enumerate().filter_map(subject_line).collect()
}

/// All columns of a kind and unit, over all series.
fn matching_lines(
    shown: &ReportedRun,
    is_shown: &dyn Fn(&Series, ColumnKind, ColumnUnit) -> bool,
) -> Vec<ChartLine> {
    let mut lines = Vec::new();
    for series in &shown.series {
        for column in series.columns.iter().filter(|column| is_shown(series, column.kind, column.unit)) {
            lines.extend(column_line(series, &column.name));
        }
    }
    lines.truncate(MAX_LINES);
    lines.iter_mut().enumerate().for_each(|(colour, line)| line.colour = colour);
    lines
}
