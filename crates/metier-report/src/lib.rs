//! Reports and flame graphs, each as one self-contained file.
//!
//! - [`Report`]: the results of runs as HTML, Markdown and JSON (`metier.report/1`): verdict,
//!   reliability, recommended requests and limits, comparison, charts, stages, processes.
//! - [`flame`]: time by function, and the differences between two runs, as SVG.
//! - [`figure`]: panels of lines, dots and bars, as SVG or PNG.
//! - [`advice`]: recommended requests and limits for a scheduler, with reasons.
//!
//! Invariants: no I/O, no clock; the same input gives the same bytes. All texts of a run are
//! untrusted and escaped: names may contain `<script>`. A file refers to nothing outside itself.
//! Absent values are reported as missing with the reason, never drawn as 0. Lists and pictures are
//! bounded and report their omissions.

pub mod advice;
pub mod blocks;
mod chart;
mod error;
pub mod figure;
pub mod flame;
mod html;
mod lines;
mod markdown;
pub mod record;
mod sections;
mod words;

use metier_stats::{CompareOptions, batch_spread, compare};
use metier_types::{Exit, Extra, ProcessTree, Run, Schema, Series, Timestamp};

pub use advice::{Advice, Firmness};
pub use error::Error;
pub use record::{ReportRecord, SubjectRecord};
pub use words::shell_words;

/// Maximum number of subjects in a report.
pub const MOST_SUBJECTS: usize = 8;

/// A run with its series, stacks and other data.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub run: Run,
    /// The verdict of the run, in one sentence.
    pub verdict: String,
    pub series: Vec<Series>,
    pub tree: Option<ProcessTree>,
    /// Sampled stacks, if there are any.
    pub stacks: Option<flame::Stacks>,
}

/// A subject of a report: a run, or repetitions of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// Display name.
    pub label: String,
    /// The runs; at least one.
    pub runs: Vec<Measured>,
}

impl Subject {
    /// The representative run for charts and tables: the one with the median wall time.
    pub fn shown(&self) -> Option<&Measured> {
        let is_good = |measured: &&Measured| {
            let exit = measured.run.exit.as_ref();
            !measured.run.context.warmup && exit.is_some_and(Exit::is_complete)
        };
        let wall = |measured: &&Measured| measured.run.summary.wall_seconds.map_or(0.0, |wall| wall.get());
        let mut candidates: Vec<&Measured> = self.runs.iter().filter(is_good).collect();
        if candidates.is_empty() {
            candidates = self.runs.iter().collect();
        }
        candidates.sort_by(|l, r| wall(l).total_cmp(&wall(r)).then(l.run.id.cmp(&r.run.id)));
        candidates.get(candidates.len().saturating_sub(1) / 2).copied()
    }

    fn records(&self) -> Vec<Run> {
        self.runs.iter().map(|measured| measured.run.clone()).collect()
    }
}

/// A report that can be rendered in several forms.
#[derive(Debug)]
pub struct Report {
    record: ReportRecord,
    sections: Vec<blocks::Section>,
    title: String,
}

impl Report {
    /// Builds a report on the subjects and compares the first with each of the others. `made_by`
    /// names program and version.
    pub fn new(subjects: &[Subject], made: Timestamp, made_by: &str) -> Result<Self, Error> {
        if subjects.is_empty() || subjects.iter().any(|subject| subject.runs.is_empty()) {
            return Err(Error::Empty);
        }
        if subjects.len() > MOST_SUBJECTS {
            return Err(Error::TooMany { given: subjects.len(), most: MOST_SUBJECTS });
        }
        let mut comparisons = Vec::new();
        let mut refusals = Vec::new();
        if let [first, others @ ..] = subjects {
            for other in others {
                let options = CompareOptions {
                    label_a: first.label.clone(),
                    label_b: other.label.clone(),
                    ..CompareOptions::default()
                };
                match compare(&first.records(), &other.records(), &options) {
                    Ok(comparison) => comparisons.push(comparison),
                    // A failed side can still be reported, but not compared.
                    Err(error) => refusals.push(format!("{} and {}: {error}", first.label, other.label)),
                }
            }
        }
        let mut records = Vec::new();
        for subject in subjects {
            let shown = subject.shown().ok_or(Error::Empty)?;
            records.push(SubjectRecord {
                label: subject.label.clone(),
                runs: subject.runs.iter().map(|measured| measured.run.id).collect(),
                shown: shown.run.id,
                verdict: shown.verdict.clone(),
                spread: batch_spread(&subject.records())?,
                advice: advice::advise(&subject.runs),
                extra: Extra::new(),
            });
        }
        let record = ReportRecord {
            schema: Schema::new(),
            made,
            made_by: made_by.to_string(),
            subjects: records,
            comparisons,
            refusals,
            extra: Extra::new(),
        };
        let labels: Vec<&str> = subjects.iter().map(|subject| subject.label.as_str()).collect();
        let title = labels.join(" · ");
        let sections = sections::all(subjects, &record);
        Ok(Self { record, sections, title })
    }

    pub fn record(&self) -> &ReportRecord {
        &self.record
    }

    /// Renders one self-contained HTML file.
    pub fn html(&self) -> Result<String, Error> {
        html::page(&self.title, &self.record, &self.sections)
    }

    /// Renders Markdown for merge requests and terminals.
    pub fn markdown(&self) -> String {
        markdown::page(&self.title, &self.record, &self.sections)
    }
}
