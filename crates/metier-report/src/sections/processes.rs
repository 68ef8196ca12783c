//! The process tree: children under their parents, the most expensive first.

use std::collections::BTreeMap;

use metier_types::{ProcessRecord, ProcessSource, ProcessTree};

use crate::ReportedRun;
use crate::blocks::{CellTone, ReportBlock, ReportCell, ReportTable};
use crate::value_format::shorten;

/// Maximum number of listed processes.
const MAX_LISTED: usize = 40;
const MAX_INDENT: usize = 12;

pub fn process_blocks(shown: &ReportedRun) -> Vec<ReportBlock> {
    let Some(tree) = shown.tree.as_ref().filter(|tree| !tree.processes.is_empty()) else { return Vec::new() };
    let mut table =
        ReportTable::new("processes of the run", &["process", "cpu", "memory", "from", "for", "end"]);
    let mut children: BTreeMap<Option<u32>, Vec<&ProcessRecord>> = BTreeMap::new();
    for process in &tree.processes {
        children.entry(parent_in_tree(process, tree)).or_default().push(process);
    }
    let cost = |process: &ProcessRecord| process.cpu_seconds.map_or(0.0, |cpu| cpu.get());
    children
        .values_mut()
        .for_each(|list| list.sort_by(|l, r| cost(r).total_cmp(&cost(l)).then(l.pid.cmp(&r.pid))));
    // A reused pid must not cause a cycle: each process is visited once.
    let mut waiting: Vec<(usize, &ProcessRecord)> =
        children.remove(&None).unwrap_or_default().into_iter().rev().map(|process| (0, process)).collect();
    while let Some((depth, process)) = waiting.pop() {
        if table.rows.len() == MAX_LISTED {
            break;
        }
        table.rows.push(process_row(depth, process));
        let below = children.remove(&Some(process.pid)).unwrap_or_default();
        waiting.extend(below.into_iter().rev().map(|child| (depth + 1, child)));
    }
    let listed = table.rows.len() as u64;
    let seen = match tree.source {
        ProcessSource::Events => "every start and end was seen",
        ProcessSource::Sampled => "only those alive at some sample were seen",
    };
    let mut text = format!("{} processes; {seen}.", tree.total);
    if tree.total > listed {
        text.push_str(&format!(" The {listed} that stand first are listed."));
    }
    vec![ReportBlock::Text(text), ReportBlock::Table(table)]
}

/// The parent's pid, if it is in the tree and is another process.
fn parent_in_tree(process: &ProcessRecord, tree: &ProcessTree) -> Option<u32> {
    let parent = process.parent.filter(|parent| *parent != process.pid)?;
    tree.processes.iter().take(10_000).any(|other| other.pid == parent).then_some(parent)
}

fn process_row(depth: usize, process: &ProcessRecord) -> Vec<ReportCell> {
    let name = process.command.as_deref().unwrap_or(&process.name);
    let end = match (process.exit_code, process.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => code.to_string(),
        (None, None) => "–".to_string(),
    };
    let took = process.ended_seconds.map(|ended| ended - process.started_seconds);
    vec![
        ReportCell::with_tone(
            format!("{}{}", "\u{2003}".repeat(depth.min(MAX_INDENT)), shorten(name, 160)),
            CellTone::Code,
        ),
        ReportCell::number(process.cpu_seconds),
        ReportCell::number(process.peak_resident_bytes),
        ReportCell::number(Some(process.started_seconds)),
        ReportCell::number(took),
        ReportCell::with_tone(end, CellTone::Number),
    ]
}
