//! Recommended requests and limits, ready to copy.

use crate::ReportRecord;
use crate::advice::{Advice, Firmness};
use crate::blocks::{Block, Cell, Section, Table, Tone};

pub fn section(record: &ReportRecord) -> Section {
    let mut blocks = Vec::new();
    for subject in &record.subjects {
        let name = if record.subjects.len() > 1 { format!("{}: ", subject.label) } else { String::new() };
        let advice = &subject.advice;
        let basis = format!("{name}{}", advice.basis);
        blocks.push(match advice.firmness {
            Firmness::Firm => Block::Text(basis),
            _ => Block::Warning(basis),
        });
        if !advice.quotas.is_empty() {
            let mut table = Table::new(&format!("{name}requests and limits"), &["ask for", "", "because"]);
            for quota in &advice.quotas {
                table.rows.push(vec![
                    Cell::toned(&quota.key, Tone::Code),
                    Cell::toned(&quota.value, Tone::Number),
                    Cell::text(&quota.reason),
                ]);
            }
            blocks.push(Block::Table(table));
        }
        blocks.extend(advice.notes.iter().map(|note| Block::Warning(format!("{name}{note}"))));
        if !advice.quotas.is_empty() {
            blocks.push(Block::Copy(kubernetes(advice)));
        }
    }
    Section { title: "Recommended requests and limits".to_string(), kind: "needs", blocks }
}

/// The `resources` of a Kubernetes container.
fn kubernetes(advice: &Advice) -> String {
    let mut text = "resources:".to_string();
    for kind in ["request", "limit"] {
        let of_kind: Vec<(&str, &str)> = advice
            .quotas
            .iter()
            .filter_map(|quota| {
                Some((quota.key.strip_prefix(kind)?.strip_prefix('.')?, quota.value.as_str()))
            })
            .collect();
        if !of_kind.is_empty() {
            text.push_str(&format!("\n  {kind}s:"));
            of_kind.iter().for_each(|(what, value)| text.push_str(&format!("\n    {what}: {value}")));
        }
    }
    text
}
