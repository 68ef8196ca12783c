//! The process tree: children under their parents, the most expensive first.

use std::collections::BTreeMap;

use metier_types::{Process, ProcessSource, ProcessTree};

use crate::Measured;
use crate::blocks::{Block, Cell, Table, Tone};
use crate::words::shortened;

/// Maximum number of listed processes.
const LISTED: usize = 40;
const DEEPEST: usize = 12;

pub fn blocks(shown: &Measured) -> Vec<Block> {
    let Some(tree) = shown.tree.as_ref().filter(|tree| !tree.processes.is_empty()) else { return Vec::new() };
    let mut table = Table::new("processes of the run", &["process", "cpu", "memory", "from", "for", "end"]);
    let mut children: BTreeMap<Option<u32>, Vec<&Process>> = BTreeMap::new();
    for process in &tree.processes {
        children.entry(parent(process, tree)).or_default().push(process);
    }
    let cost = |process: &Process| process.cpu_seconds.map_or(0.0, |cpu| cpu.get());
    children
        .values_mut()
        .for_each(|list| list.sort_by(|l, r| cost(r).total_cmp(&cost(l)).then(l.pid.cmp(&r.pid))));
    // A reused pid must not cause a cycle: each process is visited once.
    let mut waiting: Vec<(usize, &Process)> =
        children.remove(&None).unwrap_or_default().into_iter().rev().map(|process| (0, process)).collect();
    while let Some((depth, process)) = waiting.pop() {
        if table.rows.len() == LISTED {
            break;
        }
        table.rows.push(row(depth, process));
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
    vec![Block::Text(text), Block::Table(table)]
}

/// The parent's pid, if it is in the tree and is another process.
fn parent(process: &Process, tree: &ProcessTree) -> Option<u32> {
    let parent = process.parent.filter(|parent| *parent != process.pid)?;
    tree.processes.iter().take(10_000).any(|other| other.pid == parent).then_some(parent)
}

fn row(depth: usize, process: &Process) -> Vec<Cell> {
    let name = process.command.as_deref().unwrap_or(&process.name);
    let end = match (process.exit_code, process.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => code.to_string(),
        (None, None) => "–".to_string(),
    };
    let took = process.ended_seconds.map(|ended| ended - process.started_seconds);
    vec![
        Cell::toned(format!("{}{}", "\u{2003}".repeat(depth.min(DEEPEST)), shortened(name, 160)), Tone::Code),
        Cell::number(process.cpu_seconds),
        Cell::number(process.peak_resident_bytes),
        Cell::number(Some(process.started_seconds)),
        Cell::number(took),
        Cell::toned(end, Tone::Number),
    ]
}
