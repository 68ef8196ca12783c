//! The application's part of a run's record.

use metier_types::{
    AppStage, IntakeSummary as Counts, Joules, MissingReason, Run, RunWarning, StageKind, StageSource,
    ValueQuality,
};

use super::stage_cpu::StageCpuSpan;

#[derive(Debug, Clone, Default)]
pub struct AppRecord {
    /// The stages, without costs per item.
    pub stages: Vec<AppStage>,
    pub counts: Counts,
    /// Processes that sent messages but do not belong to the run.
    pub strangers: u64,
    /// Connections beyond the limit of simultaneous connections.
    pub refused: u64,
    /// Indices in `stages` of those whose quantiles come from a scraped page's buckets.
    pub bucketed: Vec<usize>,
    /// Readings of CPU time around the items of each stage; empty where the run has no counter
    /// here.
    pub cpu_spans: Vec<StageCpuSpan>,
    /// Unavailable sources, with the reason.
    pub problems: Vec<(String, MissingReason)>,
}

impl AppRecord {
    /// Writes the stages into the record, with costs per item. The run's resource use must be there
    /// already.
    pub fn write_into(mut self, run: &mut Run) {
        self.write_item_costs(run);
        self.note_quality(run);
        self.add_warnings(run);
        for (source, missing) in self.problems {
            run.missing.insert(format!("stages.{source}"), missing);
        }
        let mut extra = |name: &str, number: u64| {
            if number > 0 {
                self.counts.extra.insert(name.to_string(), number.into());
            }
        };
        extra("strangers", self.strangers);
        extra("refused_connections", self.refused);
        run.stages = self.stages;
        run.intake = Some(self.counts);
    }

    /// CPU time and energy are counted for the whole run, so they belong to a stage only if no
    /// other one has items.
    fn write_item_costs(&mut self, run: &mut Run) {
        // A value or a rate is reported at intervals: its count is not a number of items.
        let has_items = |stage: &AppStage| {
            matches!(stage.kind, StageKind::Duration | StageKind::Counter) && stage.count > 0
        };
        let places: Vec<usize> = (0..self.stages.len()).filter(|at| has_items(&self.stages[*at])).collect();
        let mut missing = |path: &str, reason: String| {
            run.missing.insert(format!("stages.{path}"), MissingReason::without_fix(reason));
        };
        match places[..] {
            [] => {}
            [place] => {
                let stage = &mut self.stages[place];
                let items = stage.count as f64;
                stage.joules_per_item = run.summary.energy_joules.map(|energy| Joules(energy.get() / items));
                stage.cpu_seconds_per_item = self.cpu_spans.get(place).and_then(StageCpuSpan::per_item);
                if stage.cpu_seconds_per_item.is_none() {
                    let reason = "the run's CPU time was not read before and after the items";
                    missing("cpu_seconds_per_item", reason.to_string());
                }
            }
            _ => {
                let reason = format!("{} stages share the run's counters", places.len());
                missing("cpu_seconds_per_item", reason.clone());
                if run.summary.energy_joules.is_some() {
                    missing("joules_per_item", reason);
                }
            }
        }
    }

    fn note_quality(&self, run: &mut Run) {
        if self.stages.is_empty() {
            return;
        }
        let is_scraped = |stage: &AppStage| stage.source == StageSource::Scrape;
        let quality = match () {
            () if self.counts.dropped > 0 => ValueQuality::Estimated,
            () if self.stages.iter().any(is_scraped) => ValueQuality::Sampled,
            () => ValueQuality::Exact,
        };
        run.quality.insert("stages".into(), quality);
        for place in &self.bucketed {
            for quantile in ["p50", "p95", "p99"] {
                run.quality.insert(format!("stages.{place}.{quantile}"), ValueQuality::Estimated);
            }
        }
    }

    fn add_warnings(&self, run: &mut Run) {
        let mut warn = |code: &str, text: String| run.warnings.push(RunWarning::new(code, text));
        let counts = &self.counts;
        if counts.dropped > 0 {
            let text = format!(
                "{} messages of the application came faster than they could be processed and were dropped; counts and rates are too low",
                counts.dropped
            );
            warn("dropped-messages", text);
        }
        if counts.malformed > 0 {
            let example = counts.examples.first().map(|e| format!(", such as {e}")).unwrap_or_default();
            warn(
                "malformed-messages",
                format!("{} messages of the application were not understood{example}", counts.malformed),
            );
        }
        if counts.beyond_limit > 0 {
            let text = format!("{} messages named stages beyond the maximum number", counts.beyond_limit);
            warn("many-stages", text);
        }
        if self.strangers > 0 {
            let text = format!(
                "{} connections came from processes that do not belong to the run and were refused",
                self.strangers
            );
            warn("strangers", text);
        }
    }
}
