//! Reliability of the results: quality, overhead, warnings, and missing values with their fixes.

use std::collections::BTreeMap;

use metier_types::{Quality, Run};

use crate::blocks::{Block, Cell, Section, Table, Tone};
use crate::{Subject, words};

/// Maximum number of listed warnings.
const WARNINGS: usize = 20;

pub fn section(subjects: &[Subject]) -> Section {
    let mut blocks = Vec::new();
    for subject in subjects {
        let Some(shown) = subject.shown() else { continue };
        let run = &shown.run;
        let name = if subjects.len() > 1 { format!("{}: ", subject.label) } else { String::new() };
        blocks.push(Block::Text(format!("{name}{}", sentence(run))));
        for warning in run.warnings.iter().take(WARNINGS) {
            blocks.push(Block::Warning(format!("{name}{}", warning.text)));
        }
    }
    // Runs on one host lack the same values; list these once.
    let mut told: Vec<&Run> = Vec::new();
    for subject in subjects {
        let Some(run) = subject.shown().map(|shown| &shown.run) else { continue };
        if told.iter().any(|other| other.missing == run.missing) {
            continue;
        }
        let name = if told.is_empty() { String::new() } else { format!("{}: ", subject.label) };
        blocks.extend(missing(run, &name));
        told.push(run);
    }
    Section { title: "How far to trust it".to_string(), kind: "trust", blocks }
}

/// Describes the method and cost of the measurement in one or two sentences.
fn sentence(run: &Run) -> String {
    let of = |quality: Quality| run.quality.values().filter(|known| **known == quality).count();
    let mut parts = Vec::new();
    for (n, word) in [
        (of(Quality::Exact), "exact"),
        (of(Quality::Sampled), "sampled"),
        (of(Quality::Estimated), "estimated"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    let mut text = match parts.is_empty() {
        true => "Nothing is noted about the quality of its values.".to_string(),
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
    if run.warnings.is_empty() {
        text.push_str(" No warnings.");
    }
    text
}

fn missing(run: &Run, name: &str) -> Option<Block> {
    let mut reasons: BTreeMap<(&str, Option<&str>), Vec<&str>> = BTreeMap::new();
    for (field, missing) in &run.missing {
        reasons.entry((missing.reason.as_str(), missing.fix.as_deref())).or_default().push(field);
    }
    if reasons.is_empty() {
        return None;
    }
    let mut table = Table::new("", &["not measured", "why", "what would change that"]);
    for ((reason, fix), fields) in reasons {
        table.rows.push(vec![
            Cell::toned(words::shortened(&fields.join(", "), 400), Tone::Code),
            Cell::text(reason),
            Cell::text(fix.unwrap_or("–")),
        ]);
    }
    let n = run.missing.len();
    let words = if n == 1 {
        "1 value was not measured: why".to_string()
    } else {
        format!("{n} values were not measured: why, and what would change that")
    };
    Some(Block::More(format!("{name}{words}"), table))
}
