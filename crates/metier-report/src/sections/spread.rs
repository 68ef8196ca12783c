//! Statistics of repetitions.

use crate::ReportRecord;
use crate::blocks::{Block, Cell, Section, Table};
use crate::words::count;

pub fn section(record: &ReportRecord) -> Section {
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
        blocks.push(Block::Text(format!("{name}{}{left}.", count(spread.runs.len(), "repetition"))));
        let head = ["", "median", "least", "most", "deviation", "outliers"];
        let mut table = Table::new(&format!("{name}spread over repetitions"), &head);
        for field in &spread.fields {
            let of = |value: f64| Cell::number(Some(field.unit.text(value)));
            table.rows.push(vec![
                Cell::text(field.field.word()),
                of(field.spread.median),
                of(field.spread.min),
                of(field.spread.max),
                Cell::number(field.spread.standard_deviation.map(|deviation| field.unit.text(deviation))),
                Cell::number(Some(field.spread.outliers.len())),
            ]);
        }
        blocks.push(Block::Table(table));
        blocks
            .extend(spread.warnings.iter().map(|warning| Block::Warning(format!("{name}{}", warning.text))));
    }
    Section { title: "Repetitions".to_string(), kind: "spread", blocks }
}
