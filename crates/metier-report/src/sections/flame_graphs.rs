//! Flame graphs: time by function, if stacks were sampled.

use crate::ReportSubject;
use crate::blocks::{ReportBlock, ReportSection};
use crate::flame::{FlameBaseline, embedded_svg};

pub fn flame_graph_section(subjects: &[ReportSubject]) -> ReportSection {
    let mut blocks = Vec::new();
    let of = |subject: &'_ ReportSubject| subject.representative_run().and_then(|shown| shown.stacks.clone());
    let first = subjects.first().and_then(of).zip(subjects.first());
    for (at, subject) in subjects.iter().enumerate() {
        let Some(stacks) = of(subject) else { continue };
        let against = match &first {
            Some((before, first)) if at > 0 => Some(FlameBaseline { stacks: before, label: &first.label }),
            _ => None,
        };
        let title = match against {
            Some(against) => format!("{}, colours against {}", subject.label, against.label),
            None => format!("{}: wider is more time; a frame hangs from what called it", subject.label),
        };
        blocks.push(ReportBlock::Flame { title, svg: embedded_svg(&stacks, &subject.label, against) });
    }
    ReportSection { title: "Functions".to_string(), kind: "functions", blocks }
}
