//! Comparison of the first subject with each of the others.

use metier_stats::{Comparison, Metric, Verdict};
use metier_types::Ratio;

use crate::ReportRecord;
use crate::blocks::{Block, Cell, Section, Table, Tone};
use crate::words::count;

pub fn section(record: &ReportRecord) -> Section {
    let mut blocks = Vec::new();
    for comparison in &record.comparisons {
        blocks.push(Block::Text(sentence(comparison)));
        blocks.push(Block::Table(table(comparison)));
        blocks.extend(comparison.warnings.iter().map(|warning| Block::Warning(warning.text.clone())));
    }
    blocks.extend(record.refusals.iter().map(|refusal| Block::Warning(format!("Not compared: {refusal}"))));
    Section { title: "Comparison".to_string(), kind: "comparison", blocks }
}

/// Describes the changes in a sentence.
fn sentence(comparison: &Comparison) -> String {
    let list = |verdict: Verdict| -> String {
        let of = comparison.metrics.iter().filter(|metric| metric.verdict == verdict);
        let told = |metric: &Metric| {
            let change = metric.change_ratio.map_or_else(|| "from nothing".to_string(), Ratio::signed);
            format!("{} {change}", metric.field.word())
        };
        of.map(told).collect::<Vec<_>>().join(", ")
    };
    let (a, b) = (&comparison.a, &comparison.b);
    let head = format!("{} ({}) against {} ({})", b.label, count(b.n, "run"), a.label, count(a.n, "run"));
    let (more, less) = (list(Verdict::Increase), list(Verdict::Decrease));
    let few = comparison.metrics.iter().any(|metric| metric.verdict == Verdict::TooFewRuns);
    match (more.is_empty(), less.is_empty()) {
        (true, true) if few => format!("{head}: too few runs to tell a difference from chance."),
        (true, true) => format!("{head}: no difference shown."),
        (false, true) => format!("{head}: more of {more}."),
        (true, false) => format!("{head}: less of {less}."),
        (false, false) => format!("{head}: more of {more}; less of {less}."),
    }
}

fn table(comparison: &Comparison) -> Table {
    let (a, b) = (&comparison.a.label, &comparison.b.label);
    let mut table = Table::new(&format!("{a} and {b}"), &["", a, b, "change", "interval", ""]);
    for metric in &comparison.metrics {
        if metric.a.median.is_none() && metric.b.median.is_none() {
            continue;
        }
        let (word, tone) = match metric.verdict {
            Verdict::Increase => ("more", Tone::Bad),
            Verdict::Decrease => ("less", Tone::Good),
            Verdict::NoDifferenceShown => ("no difference shown", Tone::Number),
            Verdict::TooFewRuns => ("too few runs to tell", Tone::Number),
            _ => ("not comparable", Tone::Number),
        };
        let interval =
            metric.low.zip(metric.high).map(|(low, high)| format!("{} … {}", low.signed(), high.signed()));
        let because = metric.because.as_ref().filter(|_| metric.verdict == Verdict::NotComparable);
        table.rows.push(vec![
            Cell::text(metric.field.word()),
            Cell::number(metric.a.median.map(|value| metric.unit.text(value))),
            Cell::number(metric.b.median.map(|value| metric.unit.text(value))),
            Cell::toned(metric.change_ratio.map_or_else(|| "–".to_string(), Ratio::signed), tone),
            Cell::number(interval),
            Cell::text(because.map_or_else(|| word.to_string(), |because| format!("{word}: {because}"))),
        ]);
    }
    table
}
