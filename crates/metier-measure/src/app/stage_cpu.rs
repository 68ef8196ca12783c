//! CPU time per item of a stage, from readings of the run's CPU counter beside the stage's count.
//!
//! The counter is that of the whole run. So the difference belongs to a stage only while no other
//! stage has items, and start-up before the first item and the end after the last one are left out
//! to within one row.

use metier_types::Seconds;

use super::stage_stats::StageStats;

/// Readings of CPU time around the items of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageCpuSpan {
    /// Count and CPU time in nanoseconds before the first item was counted.
    before: Option<(f64, u64)>,
    /// The same when the last item had been counted.
    after: Option<(f64, u64)>,
}

impl StageCpuSpan {
    fn note(&mut self, count: f64, cpu_ns: u64) {
        match (self.before, self.after) {
            (None, _) => self.before = Some((count, cpu_ns)),
            (Some(_), None) if count == 0.0 => self.before = Some((count, cpu_ns)),
            (Some(before), after) if count > after.map_or(before.0, |after| after.0) => {
                self.after = Some((count, cpu_ns));
            }
            _ => {}
        }
    }

    /// CPU time per item; `None` without readings on both sides of the items.
    pub fn per_item(&self) -> Option<Seconds> {
        let ((first, start), (last, end)) = self.before.zip(self.after)?;
        (last > first).then(|| Seconds(end.saturating_sub(start) as f64 / 1e9 / (last - first)))
    }
}

/// Notes the CPU time beside the count of every stage.
pub fn note_stage_cpu(
    spans: &mut Vec<StageCpuSpan>,
    stages: &[StageStats],
    cpu_ns: u64,
    last_cpu_ns: Option<u64>,
) {
    for (place, stage) in stages.iter().enumerate() {
        if place == spans.len() {
            // A stage is unknown before its first item: the reading before it had none.
            let before = last_cpu_ns.map(|cpu_ns| (0.0, cpu_ns));
            spans.push(StageCpuSpan { before, after: None });
        }
        spans[place].note(stage.count, cpu_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_and_end_of_a_run_belong_to_no_item() {
        let mut span = StageCpuSpan::default();
        // 5 s of start-up, then 10 items of 0.1 s, then 3 s of clearing up.
        for (count, cpu) in [(0.0, 0), (0.0, 5_000), (5.0, 5_500), (10.0, 6_000), (10.0, 9_000)] {
            span.note(count, cpu * 1_000_000);
        }
        assert_eq!(span.per_item(), Some(Seconds(0.1)));
    }

    #[test]
    fn one_reading_gives_no_difference() {
        let mut span = StageCpuSpan::default();
        span.note(30.0, 1_000_000);
        assert_eq!(span.per_item(), None);
    }
}
