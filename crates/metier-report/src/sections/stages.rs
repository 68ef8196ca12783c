//! Values reported by the application, and the phases of the run.

use metier_types::{Stage, StageKind};

use crate::Measured;
use crate::blocks::{Block, Cell, Table, Tone};
use crate::words::shortened;

/// Maximum number of listed stages.
const STAGES: usize = 100;

pub fn blocks(shown: &Measured) -> Vec<Block> {
    let run = &shown.run;
    let mut blocks = Vec::new();
    if !run.stages.is_empty() {
        let head = ["stage", "count", "rate", "p50", "p95", "p99", "most", "cpu/item", "J/item"];
        let mut table = Table::new("stages of the application", &head);
        table.rows.extend(run.stages.iter().take(STAGES).map(row));
        blocks.push(Block::Table(table));
        if run.stages.len() > STAGES {
            blocks.push(Block::Text(format!("{} more stages are in the record.", run.stages.len() - STAGES)));
        }
    }
    if let Some(intake) = &run.intake {
        let text = format!(
            "{} messages understood, {} dropped, {} not understood, {} beyond the number of stages that is kept.",
            intake.messages, intake.dropped, intake.malformed, intake.beyond_limit
        );
        let lossy = intake.dropped + intake.malformed + intake.beyond_limit > 0;
        blocks.push(if lossy { Block::Warning(text) } else { Block::Text(text) });
        blocks.extend(intake.examples.iter().take(3).map(|example| Block::Warning(shortened(example, 300))));
    }
    if !run.context.phases.is_empty() {
        let mut table = Table::new("phases", &["phase", "from", "to", "took"]);
        for phase in run.context.phases.iter().take(STAGES) {
            table.rows.push(vec![
                Cell::text(&phase.name),
                Cell::number(Some(phase.from_seconds)),
                Cell::number(Some(phase.to_seconds)),
                Cell::number(Some(phase.to_seconds - phase.from_seconds)),
            ]);
        }
        blocks.push(Block::Table(table));
    }
    blocks
}

fn row(stage: &Stage) -> Vec<Cell> {
    let value = |value: Option<f64>| {
        Cell::number(value.map(|value| match stage.kind {
            StageKind::Duration => metier_types::Seconds(value).to_string(),
            _ => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_string(),
        }))
    };
    let name = match stage.labels.is_empty() {
        true => stage.name.clone(),
        false => format!("{} {{{}}}", stage.name, stage.labels),
    };
    vec![
        Cell::toned(shortened(&name, 120), Tone::Code),
        Cell::number(Some(stage.count)),
        Cell::number(stage.rate_per_second.map(|rate| format!("{rate:.2}/s"))),
        value(stage.p50),
        value(stage.p95),
        value(stage.p99),
        value(stage.max),
        Cell::number(stage.cpu_seconds_per_item),
        Cell::number(stage.joules_per_item),
    ]
}
