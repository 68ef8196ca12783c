//! Flame graphs: time by function, if stacks were sampled.

use crate::Subject;
use crate::blocks::{Block, Section};
use crate::flame::{Against, embedded};

pub fn section(subjects: &[Subject]) -> Section {
    let mut blocks = Vec::new();
    let of = |subject: &'_ Subject| subject.shown().and_then(|shown| shown.stacks.clone());
    let first = subjects.first().and_then(of).zip(subjects.first());
    for (at, subject) in subjects.iter().enumerate() {
        let Some(stacks) = of(subject) else { continue };
        let against = match &first {
            Some((before, first)) if at > 0 => Some(Against { stacks: before, label: &first.label }),
            _ => None,
        };
        let title = match against {
            Some(against) => format!("{}, colours against {}", subject.label, against.label),
            None => format!("{}: wider is more time; a frame hangs from what called it", subject.label),
        };
        blocks.push(Block::Flame { title, svg: embedded(&stacks, &subject.label, against) });
    }
    Section { title: "Functions".to_string(), kind: "functions", blocks }
}
