//! The sections of a report, in reading order. A new section has its own file and is added to
//! [`report_sections`].

mod charts;
mod circumstances;
mod comparison;
mod flame_graphs;
mod key_figures;
mod processes;
mod resource_requests;
mod spread;
mod stages;
mod trust;

use crate::blocks::{ReportBlock, ReportSection};
use crate::{ReportRecord, ReportSubject};

/// All sections that are not empty.
pub fn report_sections(subjects: &[ReportSubject], record: &ReportRecord) -> Vec<ReportSection> {
    let mut sections = vec![
        trust::trust_section(subjects),
        comparison::comparison_section(record),
        resource_requests::resource_section(record),
    ];
    sections.push(spread::spread_section(record));
    sections.push(charts::charts_section(subjects));
    let each: [fn(&crate::ReportedRun) -> Vec<ReportBlock>; 4] = [
        stages::stage_blocks,
        key_figures::key_figure_blocks,
        circumstances::circumstance_blocks,
        processes::process_blocks,
    ];
    let titles = [
        ("Stages and phases", "stages"),
        ("Figures", "figures"),
        ("Circumstances", "context"),
        ("Processes", "processes"),
    ];
    for (blocks, (title, kind)) in each.into_iter().zip(titles) {
        for subject in subjects {
            let Some(shown) = subject.representative_run() else { continue };
            let title = match subjects.len() {
                1 => title.to_string(),
                _ => format!("{title}: {}", subject.label),
            };
            sections.push(ReportSection { title, kind, blocks: blocks(shown) });
        }
    }
    sections.push(flame_graphs::flame_graph_section(subjects));
    sections.retain(|section| !section.blocks.is_empty());
    sections
}
