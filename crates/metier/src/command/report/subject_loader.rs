//! Loads the runs of a report, with their stored files.

use metier_report::{ReportSubject, ReportedRun};
use metier_store::RecordStore;
use metier_types::{Run, Series};

use crate::command::CommandContext;
use crate::command::compare::ComparisonSides;
use crate::command::{flame, show};

/// Limit of runs per subject.
const MAX_RUNS: usize = 1000;
/// Limit of time lines per subject: enough for advice and charts.
const MAX_RUNS_WITH_SERIES: usize = 40;

/// Reads runs from the store and from files.
pub struct SubjectLoader<'a> {
    sides: ComparisonSides<'a>,
    store: Option<RecordStore>,
}

impl<'a> SubjectLoader<'a> {
    /// Opens the store if there is one; runs from files need none.
    pub fn new(context: &'a CommandContext) -> Self {
        Self { sides: ComparisonSides::new(context), store: context.store().ok() }
    }

    /// One subject for each text.
    pub fn load_subjects(&mut self, texts: &[String]) -> anyhow::Result<Vec<ReportSubject>> {
        let mut subjects: Vec<ReportSubject> = Vec::new();
        for text in texts {
            let mut runs = self.sides.runs(text)?;
            runs.truncate(MAX_RUNS);
            let history = if texts.len() > 1 { self.sides.history(&runs) } else { Vec::new() };
            let mut label = subject_label(text, &runs);
            if subjects.iter().any(|known| known.label == label) {
                label = format!("{label} ({})", runs.first().map(|run| run.id.short()).unwrap_or_default());
            }
            let runs = runs
                .into_iter()
                .enumerate()
                .map(|(at, run)| self.load_measured(run, at < MAX_RUNS_WITH_SERIES));
            subjects.push(ReportSubject { label, runs: runs.collect::<anyhow::Result<_>>()?, history });
        }
        Ok(subjects)
    }

    fn load_measured(&self, run: Run, with_series: bool) -> anyhow::Result<ReportedRun> {
        let verdict = run.verdict.clone().unwrap_or_else(|| metier_measure::verdict(&run));
        let known = self.store.as_ref().filter(|_| with_series);
        // This store may not contain a run from a file; the report then uses its record alone.
        let store = match known {
            Some(store) if store.run(run.id)?.is_some() => store,
            _ => return Ok(ReportedRun { run, verdict, series: Vec::new(), tree: None, stacks: None }),
        };
        let mut series = store.series(run.id, None)?;
        series.iter_mut().for_each(Series::mask_infinities);
        let tree = show::load_process_tree(store, &run)?;
        let stacks = flame::run_stacks(store, &run)?;
        Ok(ReportedRun { run, verdict, series, tree, stacks })
    }
}

/// Label of a subject: as typed, or the workload and run if that is not specific.
fn subject_label(text: &str, runs: &[Run]) -> String {
    let says_nothing = text.starts_with("last") || text.contains(',') || text.contains('/') || {
        let digits = text.chars().filter(|c| *c != '-');
        digits.clone().count() >= 4 && digits.clone().all(|c| c.is_ascii_hexdigit())
    };
    match runs {
        [one, ..] if says_nothing && runs.len() == 1 => format!("{} {}", one.workload.name, one.id.short()),
        [one, rest @ ..] if says_nothing && rest.iter().all(|run| run.batch == one.batch) => {
            format!("{} {}", one.workload.name, one.batch.short())
        }
        [one, rest @ ..] if says_nothing => format!("{} and {} more runs", one.workload.name, rest.len()),
        _ => match std::path::Path::new(text).file_stem() {
            Some(stem) if std::path::Path::new(text).is_file() => stem.to_string_lossy().into_owned(),
            _ => text.to_string(),
        },
    }
}
