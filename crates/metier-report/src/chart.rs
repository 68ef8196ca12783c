//! Time charts as SVG: small, without scripts, readable in light and dark mode (the page's style
//! sets the colours), with tooltips and a title for screen readers.

use std::fmt::Write as _;

use metier_types::{ColumnUnit, RunPhase};

use crate::blocks::{ReportCell, ReportChart, ReportTable};
use crate::chart_lines::ChartLine;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;
/// Maximum number of intervals with a tooltip.
const MAX_TOOLTIPS: usize = 48;
/// Number of rows in the table alternative.
const TABLE_ROWS: usize = 13;
/// Maximum number of marked phases.
const MAX_PHASES: usize = 12;

/// Format of a chart's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChartScale {
    InUnit(ColumnUnit),
    /// A unit per second.
    PerSecond(ColumnUnit),
    Cores,
}

impl ChartScale {
    fn format_value(self, value: f64) -> String {
        match self {
            Self::InUnit(unit) => unit.text(value),
            Self::PerSecond(unit) => format!("{}/s", unit.text(value)),
            Self::Cores if value == 0.0 => "0".to_string(),
            Self::Cores => format!("{value:.2}"),
        }
    }

    /// A round number at or above `most`, and the number of equal steps to it.
    fn axis_top(self, most: f64) -> (f64, usize) {
        // Bytes use powers of two.
        let base = match self {
            Self::InUnit(ColumnUnit::Bytes) | Self::PerSecond(ColumnUnit::Bytes) if most >= 1024.0 => {
                1024f64.powi((most.ln() / 1024f64.ln()).floor() as i32)
            }
            _ => 1.0,
        };
        let most = (most / base).max(1e-9);
        let power = 10f64.powf(most.log10().floor());
        let steps = [
            (1.0, 4),
            (1.2, 4),
            (1.6, 4),
            (2.0, 4),
            (2.5, 5),
            (3.0, 3),
            (4.0, 4),
            (5.0, 5),
            (6.0, 3),
            (8.0, 4),
            (10.0, 5),
        ];
        let found = steps.iter().find(|(step, _)| step * power >= most * 0.999_999).unwrap_or(&(10.0, 5));
        (found.0 * power * base, found.1)
    }
}

/// Draws lines over a common time axis.
pub fn draw_chart(
    title: &str,
    scale: ChartScale,
    lines: Vec<ChartLine>,
    phases: &[RunPhase],
) -> Option<ReportChart> {
    let end = lines.iter().filter_map(|line| line.points.last()).map(|point| point.0).fold(0.0, f64::max);
    let start = lines.iter().filter_map(|line| line.points.first()).map(|point| point.0).fold(0.0, f64::min);
    let most = lines.iter().map(|line| line.max_value().max(line.max_drawn())).fold(0.0, f64::max);
    if end <= start || lines.is_empty() {
        return None;
    }
    let (top, steps) = scale.axis_top(if most > 0.0 { most } else { 1.0 });
    let x = |time: f64| LEFT + (time - start) / (end - start) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
    let named: Vec<&ChartLine> = lines.iter().filter(|line| !line.is_faint).collect();
    let summary = summarize_lines(&named, scale);
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape_markup(&format!("{title} over time: {summary}"))
    );
    for (at, phase) in phases.iter().take(MAX_PHASES).enumerate() {
        let (from, to) =
            (x(phase.from_seconds.get().clamp(start, end)), x(phase.to_seconds.get().clamp(start, end)));
        let shade = if at % 2 == 0 { "band" } else { "band odd" };
        let _ = write!(
            svg,
            "<rect class=\"{shade}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            (to - from).max(0.5),
            HEIGHT - TOP - BOTTOM
        );
        if to - from > 40.0 {
            let _ = write!(
                svg,
                "<text class=\"phase\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                from + 3.0,
                TOP + 10.0,
                escape_markup(&crate::value_format::shorten(&phase.name, 24))
            );
        }
    }
    for step in 0..=steps {
        let value = top * step as f64 / steps as f64;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{1:.1}\" y2=\"{1:.1}\"/><text class=\"tick y\" x=\"{2:.1}\" y=\"{3:.1}\">{4}</text>",
            WIDTH - RIGHT,
            y(value),
            LEFT - 6.0,
            y(value) + 3.5,
            escape_markup(&scale.format_value(value))
        );
    }
    for (time, text) in time_ticks(start, end) {
        // The label of a tick near the edge is placed inside the edge.
        let anchor = if x(time) > WIDTH - 30.0 { "end" } else { "middle" };
        let _ = write!(
            svg,
            "<text class=\"tick\" text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
            x(time),
            HEIGHT - 8.0
        );
    }
    // Faint lines first, so that they are in the background.
    for line in lines.iter().filter(|line| line.is_faint).chain(named.iter().copied()) {
        let path: String = line
            .points
            .iter()
            .enumerate()
            .map(|(at, (time, value))| {
                format!("{}{:.1} {:.1}", if at == 0 { 'M' } else { 'L' }, x(*time), y(value.max(0.0)))
            })
            .collect();
        let colour = line.colour % 8;
        if !line.is_faint && named.len() == 1 {
            let (first, last) = (line.points[0].0, line.points[line.points.len() - 1].0);
            let _ = write!(
                svg,
                "<path class=\"area c{colour}\" d=\"{path}L{:.1} {2:.1}L{1:.1} {2:.1}Z\"/>",
                x(last),
                x(first),
                y(0.0)
            );
        }
        let faint = if line.is_faint { " faint" } else { "" };
        let _ = write!(svg, "<path class=\"line c{colour}{faint}\" d=\"{path}\"/>");
    }
    draw_tooltips(&mut svg, &named, scale, start, end, x);
    svg.push_str("</svg>");
    let legend = match named.len() {
        1 => Vec::new(),
        _ => named.iter().map(|line| (line.label.clone(), line.colour % 8)).collect(),
    };
    let table = value_table(title, &named, scale, start, end);
    Some(ReportChart { title: title.to_string(), summary, legend, svg, table })
}

fn summarize_lines(lines: &[&ChartLine], scale: ChartScale) -> String {
    let draw_line = |line: &&ChartLine| {
        format!("most {}, mean {}", scale.format_value(line.max_value()), scale.format_value(time_mean(line)))
    };
    match lines {
        [line] => draw_line(line),
        lines => lines
            .iter()
            .map(|line| format!("{}: {}", line.label, draw_line(line)))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Mean over time, by the trapezoidal rule.
fn time_mean(line: &ChartLine) -> f64 {
    let area: f64 =
        line.points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum();
    match (line.points.first(), line.points.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => area / (last.0 - first.0),
        _ => 0.0,
    }
}

fn draw_tooltips(
    svg: &mut String,
    lines: &[&ChartLine],
    scale: ChartScale,
    start: f64,
    end: f64,
    x: impl Fn(f64) -> f64,
) {
    let each = (end - start) / MAX_TOOLTIPS as f64;
    for at in 0..MAX_TOOLTIPS {
        let (from, middle) = (start + each * at as f64, start + each * (at as f64 + 0.5));
        let mut text = format_time(middle, end - start);
        for line in lines {
            if let Some(value) = line.value_at(middle) {
                let label = if lines.len() > 1 { format!("{} ", line.label) } else { String::new() };
                text.push_str(&format!("\n{label}{}", scale.format_value(value)));
            }
        }
        let _ = write!(
            svg,
            "<rect class=\"tip\" x=\"{:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            x(from),
            x(from + each) - x(from),
            HEIGHT - TOP - BOTTOM,
            escape_markup(&text)
        );
    }
}

fn value_table(title: &str, lines: &[&ChartLine], scale: ChartScale, start: f64, end: f64) -> ReportTable {
    let mut table = ReportTable::new(&format!("{title} over time"), &["time"]);
    table.head.extend(
        lines.iter().map(|line| if lines.len() == 1 { title.to_string() } else { line.label.clone() }),
    );
    for at in 0..TABLE_ROWS {
        let time = start + (end - start) * at as f64 / (TABLE_ROWS - 1) as f64;
        let mut row = vec![ReportCell::text(format_time(time, end - start))];
        row.extend(
            lines
                .iter()
                .map(|line| ReportCell::number(line.value_at(time).map(|value| scale.format_value(value)))),
        );
        table.rows.push(row);
    }
    table
}

/// Formats a time for an axis of this length.
fn format_time(time: f64, span: f64) -> String {
    if span >= 7200.0 {
        format!("{:.1} h", time / 3600.0)
    } else if span >= 120.0 {
        format!("{:.1} min", time / 60.0)
    } else if span >= 10.0 {
        format!("{time:.1} s")
    } else if span >= 0.5 {
        format!("{time:.2} s")
    } else {
        format!("{:.1} ms", time * 1e3)
    }
}

/// Round times from start to end, at most eight.
fn time_ticks(start: f64, end: f64) -> Vec<(f64, String)> {
    const STEPS: [f64; 30] = [
        1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
        60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0, 86400.0, 604_800.0,
    ];
    let step = STEPS.into_iter().find(|step| (end - start) / step <= 7.0).unwrap_or((end - start) / 5.0);
    let text = |time: f64| {
        if step >= 3600.0 {
            format!("{} h", round_digits(time / 3600.0))
        } else if step >= 60.0 {
            format!("{} min", round_digits(time / 60.0))
        } else if step >= 0.1 {
            format!("{} s", round_digits(time))
        } else {
            format!("{} ms", round_digits(time * 1e3))
        }
    };
    let first = (start / step).ceil() as i64;
    (first..first + 9)
        .map(|at| at as f64 * step)
        .take_while(|time| *time <= end + 1e-9)
        .map(|time| (time, text(time)))
        .collect()
}

/// Removes digits that come from binary fractions.
fn round_digits(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

/// Escapes text for markup and double-quoted attributes. Characters that XML forbids are replaced.
pub fn escape_markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' => safe.push_str("&#10;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values_in_their_unit() {
        for (scale, most, top, text) in [
            (ChartScale::Cores, 1.93, 2.0, "2.00"),
            (ChartScale::Cores, 0.11, 0.12, "0.12"),
            (ChartScale::InUnit(ColumnUnit::Bytes), 200.0 * 1_048_576.0, 209_715_200.0, "200 MiB"),
            (ChartScale::PerSecond(ColumnUnit::Bytes), 900.0, 1000.0, "0.98 KiB/s"),
            (ChartScale::InUnit(ColumnUnit::Watts), 7.4, 8.0, "8.00 W"),
        ] {
            let (got, _) = scale.axis_top(most);
            assert!((got - top).abs() < top * 1e-9, "{most}: {got}");
            assert_eq!(scale.format_value(got), text);
        }
    }

    #[test]
    fn ticks_of_time_are_round_and_few() {
        for (end, want) in [
            (0.4, "0 ms 100 ms 200 ms 300 ms 400 ms"),
            (7.0, "0 s 1 s 2 s 3 s 4 s 5 s 6 s 7 s"),
            (5000.0, "0 min 15 min 30 min 45 min 60 min 75 min"),
        ] {
            let ticks = time_ticks(0.0, end);
            let got: Vec<String> = ticks.into_iter().map(|tick| tick.1).collect();
            let want = if end == 0.4 { "0 s 0.1 s 0.2 s 0.3 s 0.4 s" } else { want };
            assert_eq!(got.join(" "), want);
        }
    }

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(
            escape_markup("<a b=\"c\" d='e'>&\u{1}"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{fffd}"
        );
    }
}
