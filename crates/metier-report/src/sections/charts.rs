//! Charts of CPU, memory, IO, GPU, power and temperature over time. One subject: its columns;
//! several subjects: one line each.

use metier_types::{Kind, Series, Unit};

use crate::blocks::{Block, Section};
use crate::chart::{Scale, chart};
use crate::lines::{Line, line};
use crate::{Measured, Subject};

/// Maximum number of repetitions drawn behind the representative run.
const BEHIND: usize = 10;
/// Maximum number of lines per chart.
const LINES: usize = 8;

/// A chart of columns of the series `use`.
struct Panel {
    title: &'static str,
    scale: Scale,
    columns: &'static [(&'static str, &'static str)],
}

const PANELS: [Panel; 3] = [
    Panel { title: "CPU, cores in use", scale: Scale::Cores, columns: &[("cpu", "cpu")] },
    Panel {
        title: "Memory",
        scale: Scale::In(Unit::Bytes),
        columns: &[("memory", "all"), ("anonymous", "anonymous"), ("file", "page cache")],
    },
    Panel {
        title: "Input and output",
        scale: Scale::PerSecond(Unit::Bytes),
        columns: &[("read", "read"), ("written", "written")],
    },
];

pub fn section(subjects: &[Subject]) -> Section {
    let mut blocks = Vec::new();
    let phases = match subjects {
        [one] => one.shown().map(|shown| shown.run.context.phases.clone()).unwrap_or_default(),
        _ => Vec::new(),
    };
    for panel in &PANELS {
        let lines = match subjects {
            [one] => columns(one, panel),
            many => side_by_side(many, panel),
        };
        // Columns that stay at 0 are omitted; the key figures cover them.
        if lines.iter().any(|line| line.most() > 0.0) {
            blocks.extend(chart(panel.title, panel.scale, lines, &phases).map(Block::Chart));
        }
    }
    if let [one] = subjects
        && let Some(shown) = one.shown()
    {
        let of = |title: &str, scale: Scale, wanted: &dyn Fn(&Series, Kind, Unit) -> bool| {
            chart(title, scale, gathered(shown, wanted), &phases).map(Block::Chart)
        };
        let rest = |series: &Series| !matches!(series.name.as_str(), "use" | "host" | "application");
        blocks.extend(of("Power", Scale::In(Unit::Watts), &|series, kind, unit| {
            rest(series)
                && match kind {
                    Kind::Counter => matches!(unit, Unit::Microjoules | Unit::Joules),
                    Kind::Gauge => unit == Unit::Watts,
                }
        }));
        blocks.extend(of("Share of accelerators in use", Scale::In(Unit::Ratio), &|series, kind, unit| {
            rest(series) && kind == Kind::Gauge && unit == Unit::Ratio
        }));
        blocks.extend(of("Memory of accelerators", Scale::In(Unit::Bytes), &|series, kind, unit| {
            rest(series) && kind == Kind::Gauge && unit == Unit::Bytes
        }));
        blocks.extend(of("Temperature", Scale::In(Unit::Celsius), &|_, kind, unit| {
            kind == Kind::Gauge && unit == Unit::Celsius
        }));
    }
    Section { title: "Over time".to_string(), kind: "charts", blocks }
}

fn in_use(measured: &Measured) -> Option<&Series> {
    measured.series.iter().find(|series| series.name == "use")
}

/// The columns of the representative run; for a single column, repetitions behind it.
fn columns(subject: &Subject, panel: &Panel) -> Vec<Line> {
    let Some(shown) = subject.shown() else { return Vec::new() };
    let mut lines: Vec<Line> = panel
        .columns
        .iter()
        .enumerate()
        .filter_map(|(colour, (column, label))| {
            Some(Line { label: (*label).to_string(), colour, ..line(in_use(shown)?, column)? })
        })
        .filter(|line| line.most() > 0.0)
        .collect();
    let first = panel.columns[0].0;
    let behind = subject.runs.iter().filter(|measured| measured.run.id != shown.run.id);
    lines.extend(
        behind
            .take(BEHIND)
            .filter_map(|measured| Some(Line { is_faint: true, ..line(in_use(measured)?, first)? })),
    );
    lines
}

/// One line per subject; read and written bytes are added.
fn side_by_side(subjects: &[Subject], panel: &Panel) -> Vec<Line> {
    let one = |(colour, subject): (usize, &Subject)| {
        let series = in_use(subject.shown()?)?;
        let mut found = line(series, panel.columns[0].0)?;
        if panel.columns[0].0 == "read"
            && let Some(other) = line(series, "written")
        {
            found.points.iter_mut().for_each(|point| point.1 += other.at(point.0).unwrap_or(0.0));
        }
        Some(Line { label: subject.label.clone(), colour, ..found })
    };
    subjects.iter().enumerate().filter_map(one).collect()
}

/// All columns of a kind and unit, over all series.
fn gathered(shown: &Measured, wanted: &dyn Fn(&Series, Kind, Unit) -> bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for series in &shown.series {
        for column in series.columns.iter().filter(|column| wanted(series, column.kind, column.unit)) {
            lines.extend(line(series, &column.name));
        }
    }
    lines.truncate(LINES);
    lines.iter_mut().enumerate().for_each(|(colour, line)| line.colour = colour);
    lines
}
