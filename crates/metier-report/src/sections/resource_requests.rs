//! Recommended requests and limits, ready to copy.

use crate::ReportRecord;
use crate::blocks::{CellTone, ReportBlock, ReportCell, ReportSection, ReportTable};
use metier_stats::{AdviceFirmness, ResourceAdvice};

pub fn resource_section(record: &ReportRecord) -> ReportSection {
    let mut blocks = Vec::new();
    for subject in &record.subjects {
        let name = if record.subjects.len() > 1 { format!("{}: ", subject.label) } else { String::new() };
        let advice = &subject.advice;
        let basis = format!("{name}{}", advice.basis);
        blocks.push(match advice.firmness {
            AdviceFirmness::Firm => ReportBlock::Text(basis),
            _ => ReportBlock::Warning(basis),
        });
        if !advice.quotas.is_empty() {
            let mut table =
                ReportTable::new(&format!("{name}requests and limits"), &["ask for", "", "because"]);
            for quota in &advice.quotas {
                table.rows.push(vec![
                    ReportCell::with_tone(&quota.key, CellTone::Code),
                    ReportCell::with_tone(&quota.value, CellTone::Number),
                    ReportCell::text(&quota.reason),
                ]);
            }
            blocks.push(ReportBlock::Table(table));
        }
        blocks.extend(advice.notes.iter().map(|note| ReportBlock::Warning(format!("{name}{note}"))));
        if !advice.quotas.is_empty() {
            blocks.push(ReportBlock::Copy(kubernetes_yaml(advice)));
        }
    }
    ReportSection { title: "Recommended requests and limits".to_string(), kind: "needs", blocks }
}

/// The `resources` of a Kubernetes container.
fn kubernetes_yaml(advice: &ResourceAdvice) -> String {
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
