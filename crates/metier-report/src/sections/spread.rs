//! Statistics of repetitions.

use crate::ReportRecord;
use crate::blocks::{ReportBlock, ReportCell, ReportSection, ReportTable};
use crate::value_format::format_count;

pub fn spread_section(record: &ReportRecord) -> ReportSection {
    let mut blocks = Vec::new();
    for subject in &record.subjects {
        let spread = &subject.spread;
        if spread.runs.len() < 2 {
            continue;
        }
        let name = if record.subjects.len() > 1 { format!("{}: ", subject.label) } else { String::new() };
        let left = match spread.left_out {
            0 => String::new(),
            n => format!("; {n} left out (warm-up, failed or not over)"),
        };
        blocks.push(ReportBlock::Text(format!(
            "{name}{}{left}.",
            format_count(spread.runs.len(), "repetition")
        )));
        let head = ["", "median", "least", "most", "deviation", "outliers"];
        let mut table = ReportTable::new(&format!("{name}spread over repetitions"), &head);
        for field in &spread.fields {
            let of = |value: f64| ReportCell::number(Some(field.unit.text(value)));
            table.rows.push(vec![
                ReportCell::text(field.field.short_name()),
                of(field.spread.median),
                of(field.spread.min),
                of(field.spread.max),
                ReportCell::number(
                    field.spread.standard_deviation.map(|deviation| field.unit.text(deviation)),
                ),
                ReportCell::number(Some(field.spread.outliers.len())),
            ]);
        }
        blocks.push(ReportBlock::Table(table));
        blocks.extend(
            spread.warnings.iter().map(|warning| ReportBlock::Warning(format!("{name}{}", warning.text))),
        );
    }
    ReportSection { title: "Repetitions".to_string(), kind: "spread", blocks }
}
