//! Reliability of the results: quality, overhead, warnings, and missing values with their fixes.

use std::collections::BTreeMap;

use metier_types::{Run, ValueQuality};

use crate::blocks::{CellTone, ReportBlock, ReportCell, ReportSection, ReportTable};
use crate::{ReportSubject, value_format};

/// Maximum number of listed warnings.
const MAX_WARNINGS: usize = 20;

pub fn trust_section(subjects: &[ReportSubject]) -> ReportSection {
    let mut blocks = Vec::new();
    for subject in subjects {
        let Some(shown) = subject.representative_run() else { continue };
        let run = &shown.run;
        let name = if subjects.len() > 1 { format!("{}: ", subject.label) } else { String::new() };
        blocks.push(ReportBlock::Text(format!("{name}{}", describe_quality(run))));
        for warning in run.warnings.iter().take(MAX_WARNINGS) {
            blocks.push(ReportBlock::Warning(format!("{name}{}", warning.text)));
        }
    }
    // Runs on one host lack the same values; list these once.
    let mut runs: Vec<&Run> = Vec::new();
    for subject in subjects {
        let Some(run) = subject.representative_run().map(|shown| &shown.run) else { continue };
        if runs.iter().any(|other| other.missing == run.missing) {
            continue;
        }
        let name = if runs.is_empty() { String::new() } else { format!("{}: ", subject.label) };
        blocks.extend(missing_table(run, &name));
        runs.push(run);
    }
    ReportSection { title: "How far to trust it".to_string(), kind: "trust", blocks }
}

/// Describes the method and cost of the measurement in one or two sentences.
fn describe_quality(run: &Run) -> String {
    let of = |quality: ValueQuality| run.quality.values().filter(|known| **known == quality).count();
    let mut parts = Vec::new();
    for (n, word) in [
        (of(ValueQuality::Exact), "exact"),
        (of(ValueQuality::Sampled), "sampled"),
        (of(ValueQuality::Estimated), "estimated"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    let mut text = match parts.is_empty() {
        true => "The record has no notes on the quality of its values.".to_string(),
        false => format!("{} values: {}.", run.quality.len(), parts.join(", ")),
    };
    if let Some(method) = run.context.method {
        text.push_str(&format!(" Accounted by {method}."));
    }
    if let Some(overhead) = run.summary.own_overhead_ratio {
        text.push_str(&format!(" Measuring took {overhead} of a core."));
    }
    if let Some(sampling) = &run.context.sampling {
        text.push_str(&format!(" {} samples, one every {}", sampling.samples, sampling.interval_seconds));
        text.push_str(&if sampling.late > 0 {
            format!("; {} came late.", sampling.late)
        } else {
            ".".to_string()
        });
    }
    if run.summary.wall_seconds.is_none() {
        text.push_str(" It was not measured to its end, so nothing here can be trusted.");
    } else if run.warnings.is_empty() {
        text.push_str(" No warnings.");
    }
    text
}

fn missing_table(run: &Run, name: &str) -> Option<ReportBlock> {
    let mut reasons: BTreeMap<(&str, Option<&str>), Vec<&str>> = BTreeMap::new();
    for (field, missing) in &run.missing {
        reasons.entry((missing.reason.as_str(), missing.fix.as_deref())).or_default().push(field);
    }
    if reasons.is_empty() {
        return None;
    }
    let mut table = ReportTable::new("", &["not measured", "why", "what would change that"]);
    for ((reason, fix), fields) in reasons {
        table.rows.push(vec![
            ReportCell::with_tone(value_format::shorten(&fields.join(", "), 400), CellTone::Code),
            ReportCell::text(reason),
            ReportCell::text(fix.unwrap_or("–")),
        ]);
    }
    let n = run.missing.len();
    let words = if n == 1 {
        "1 value was not measured: why".to_string()
    } else {
        format!("{n} values were not measured: why, and what would change that")
    };
    Some(ReportBlock::More(format!("{name}{words}"), table))
}
