//! The sections of a report, in reading order. A new section has its own file and is added to
//! [`all`].

mod charts;
mod circumstances;
mod comparison;
mod figures;
mod functions;
mod needs;
mod processes;
mod spread;
mod stages;
mod trust;

use crate::blocks::{Block, Section};
use crate::{ReportRecord, Subject};

/// All sections that are not empty.
pub fn all(subjects: &[Subject], record: &ReportRecord) -> Vec<Section> {
    let mut sections = vec![trust::section(subjects), comparison::section(record), needs::section(record)];
    sections.push(spread::section(record));
    sections.push(charts::section(subjects));
    let each: [fn(&crate::Measured) -> Vec<Block>; 4] =
        [stages::blocks, figures::blocks, circumstances::blocks, processes::blocks];
    let titles = [
        ("Stages and phases", "stages"),
        ("Figures", "figures"),
        ("Circumstances", "context"),
        ("Processes", "processes"),
    ];
    for (blocks, (title, kind)) in each.into_iter().zip(titles) {
        for subject in subjects {
            let Some(shown) = subject.shown() else { continue };
            let title = match subjects.len() {
                1 => title.to_string(),
                _ => format!("{title}: {}", subject.label),
            };
            sections.push(Section { title, kind, blocks: blocks(shown) });
        }
    }
    sections.push(functions::section(subjects));
    sections.retain(|section| !section.blocks.is_empty());
    sections
}
