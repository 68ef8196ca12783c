//! Comparison of the first subject with each of the others.

use metier_stats::{ComparisonVerdict, MetricComparison, RunComparison};
use metier_types::Ratio;

use crate::ReportRecord;
use crate::blocks::{CellTone, ReportBlock, ReportCell, ReportSection, ReportTable};
use crate::value_format::format_count;

pub fn comparison_section(record: &ReportRecord) -> ReportSection {
    let mut blocks = Vec::new();
    for comparison in &record.comparisons {
        blocks.push(ReportBlock::Text(describe_changes(comparison)));
        blocks.push(ReportBlock::Table(comparison_table(comparison)));
        let statement = comparison.interval_statement.as_ref();
        blocks.extend(statement.map(|text| ReportBlock::Text(format!("Medians; {text}."))));
        blocks.extend(comparison.warnings.iter().map(|warning| ReportBlock::Warning(warning.text.clone())));
    }
    blocks.extend(
        record.refusals.iter().map(|refusal| ReportBlock::Warning(format!("Not compared: {refusal}"))),
    );
    ReportSection { title: "Comparison".to_string(), kind: "comparison", blocks }
}

/// Describes the changes in a sentence.
fn describe_changes(comparison: &RunComparison) -> String {
    let list = |verdict: ComparisonVerdict| -> String {
        let of = comparison.metrics.iter().filter(|metric| metric.verdict == verdict);
        let describe = |metric: &MetricComparison| {
            let change = metric.change_ratio.map_or_else(|| "from nothing".to_string(), Ratio::signed);
            format!("{} {change}", metric.field.short_name())
        };
        of.map(describe).collect::<Vec<_>>().join(", ")
    };
    let (a, b) = (&comparison.a, &comparison.b);
    let head = format!(
        "{} ({}) against {} ({})",
        b.label,
        format_count(b.n, "run"),
        a.label,
        format_count(a.n, "run")
    );
    let (more, less) = (list(ComparisonVerdict::Increase), list(ComparisonVerdict::Decrease));
    let few = comparison.metrics.iter().any(|metric| metric.verdict == ComparisonVerdict::TooFewRuns);
    match (more.is_empty(), less.is_empty()) {
        (true, true) if few => format!("{head}: too few runs to tell a difference from chance."),
        (true, true) => format!("{head}: no difference shown."),
        (false, true) => format!("{head}: more of {more}."),
        (true, false) => format!("{head}: less of {less}."),
        (false, false) => format!("{head}: more of {more}; less of {less}."),
    }
}

fn comparison_table(comparison: &RunComparison) -> ReportTable {
    let (a, b) = (&comparison.a.label, &comparison.b.label);
    let mut table = ReportTable::new(&format!("{a} and {b}"), &["", a, b, "change", "interval", ""]);
    for metric in &comparison.metrics {
        if metric.a.median.is_none() && metric.b.median.is_none() {
            continue;
        }
        let (word, tone) = match metric.verdict {
            ComparisonVerdict::Increase => ("more", CellTone::Bad),
            ComparisonVerdict::Decrease => ("less", CellTone::Good),
            ComparisonVerdict::NoDifferenceShown => ("no difference shown", CellTone::Number),
            ComparisonVerdict::TooFewRuns => ("too few runs to tell", CellTone::Number),
            _ => ("not comparable", CellTone::Number),
        };
        let interval =
            metric.low.zip(metric.high).map(|(low, high)| format!("{} … {}", low.signed(), high.signed()));
        let because = metric.because.as_ref().filter(|_| metric.verdict == ComparisonVerdict::NotComparable);
        table.rows.push(vec![
            ReportCell::text(metric.field.short_name()),
            ReportCell::number(metric.a.median.map(|value| metric.unit.text(value))),
            ReportCell::number(metric.b.median.map(|value| metric.unit.text(value))),
            ReportCell::with_tone(metric.change_ratio.map_or_else(|| "–".to_string(), Ratio::signed), tone),
            ReportCell::number(interval),
            ReportCell::text(
                because.map_or_else(|| word.to_string(), |because| format!("{word}: {because}")),
            ),
        ]);
    }
    table
}
