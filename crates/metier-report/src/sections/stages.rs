//! Values reported by the application, and the phases of the run.

use metier_types::{AppStage, StageKind};

use crate::ReportedRun;
use crate::blocks::{CellTone, ReportBlock, ReportCell, ReportTable};
use crate::value_format::shorten;

/// Maximum number of listed stages.
const MAX_STAGES: usize = 100;

pub fn stage_blocks(shown: &ReportedRun) -> Vec<ReportBlock> {
    let run = &shown.run;
    let mut blocks = Vec::new();
    if !run.stages.is_empty() {
        let head = ["stage", "count", "rate", "p50", "p95", "p99", "most", "cpu/item", "J/item"];
        let mut table = ReportTable::new("stages of the application", &head);
        table.rows.extend(run.stages.iter().take(MAX_STAGES).map(stage_row));
        blocks.push(ReportBlock::Table(table));
        if run.stages.len() > MAX_STAGES {
            blocks.push(ReportBlock::Text(format!(
                "{} more stages are in the record.",
                run.stages.len() - MAX_STAGES
            )));
        }
    }
    if let Some(intake) = &run.intake {
        let text = format!(
            "{} messages understood, {} dropped, {} not understood, {} beyond the maximum number of stages.",
            intake.messages, intake.dropped, intake.malformed, intake.beyond_limit
        );
        let lossy = intake.dropped + intake.malformed + intake.beyond_limit > 0;
        blocks.push(if lossy { ReportBlock::Warning(text) } else { ReportBlock::Text(text) });
        blocks.extend(
            intake.examples.iter().take(3).map(|example| ReportBlock::Warning(shorten(example, 300))),
        );
    }
    if !run.context.phases.is_empty() {
        let mut table = ReportTable::new("phases", &["phase", "from", "to", "took"]);
        for phase in run.context.phases.iter().take(MAX_STAGES) {
            table.rows.push(vec![
                ReportCell::text(&phase.name),
                ReportCell::number(Some(phase.from_seconds)),
                ReportCell::number(Some(phase.to_seconds)),
                ReportCell::number(Some(phase.to_seconds - phase.from_seconds)),
            ]);
        }
        blocks.push(ReportBlock::Table(table));
    }
    blocks
}

fn stage_row(stage: &AppStage) -> Vec<ReportCell> {
    let value = |value: Option<f64>| {
        ReportCell::number(value.map(|value| match stage.kind {
            StageKind::Duration => metier_types::Seconds(value).to_string(),
            _ => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_string(),
        }))
    };
    let name = match stage.labels.is_empty() {
        true => stage.name.clone(),
        false => format!("{} {{{}}}", stage.name, stage.labels),
    };
    vec![
        ReportCell::with_tone(shorten(&name, 120), CellTone::Code),
        ReportCell::number(Some(stage.count)),
        ReportCell::number(stage.rate_per_second.map(|rate| format!("{rate:.2}/s"))),
        value(stage.p50),
        value(stage.p95),
        value(stage.p99),
        value(stage.max),
        ReportCell::number(stage.cpu_seconds_per_item),
        ReportCell::number(stage.joules_per_item),
    ]
}
