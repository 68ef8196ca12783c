//! The runs that a report is about, with what was kept beside their records.

use metier_report::{Measured, Subject};
use metier_store::Store;
use metier_types::{Run, Series};

use crate::command::Room;
use crate::command::compare::Sides;
use crate::command::{flame, show};

/// Most runs of a subject.
const MOST_RUNS: usize = 1000;
/// Runs of a subject whose time line is read: enough for advice and charts.
const WITH_SERIES: usize = 40;

/// Reads runs from the store and from files.
pub struct Gather<'a> {
    sides: Sides<'a>,
    store: Option<Store>,
}

impl<'a> Gather<'a> {
    /// The store is opened where it is there; runs from files need none.
    pub fn new(room: &'a Room) -> Self {
        Self { sides: Sides::new(room), store: room.store().ok() }
    }

    /// One subject for each text.
    pub fn subjects(&mut self, texts: &[String]) -> anyhow::Result<Vec<Subject>> {
        let mut subjects: Vec<Subject> = Vec::new();
        for text in texts {
            let mut runs = self.sides.runs(text)?;
            runs.truncate(MOST_RUNS);
            let mut label = label(text, &runs);
            if subjects.iter().any(|known| known.label == label) {
                label = format!("{label} ({})", runs.first().map(|run| run.id.short()).unwrap_or_default());
            }
            let runs = runs.into_iter().enumerate().map(|(at, run)| self.measured(run, at < WITH_SERIES));
            subjects.push(Subject { label, runs: runs.collect::<anyhow::Result<_>>()? });
        }
        Ok(subjects)
    }

    fn measured(&self, run: Run, with_series: bool) -> anyhow::Result<Measured> {
        let verdict = run.verdict.clone().unwrap_or_else(|| metier_measure::verdict(&run));
        let known = self.store.as_ref().filter(|_| with_series);
        // A run from a file may be unknown to this store; its record alone is then told.
        let store = match known {
            Some(store) if store.run(run.id)?.is_some() => store,
            _ => return Ok(Measured { run, verdict, series: Vec::new(), tree: None, stacks: None }),
        };
        let mut series = store.series(run.id, None)?;
        series.iter_mut().for_each(Series::mask_infinities);
        let tree = show::tree(store, &run)?;
        let stacks = flame::of_run(store, &run)?;
        Ok(Measured { run, verdict, series, tree, stacks })
    }
}

/// What people call it: as it was typed, or the workload and the run where that says nothing.
fn label(text: &str, runs: &[Run]) -> String {
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
