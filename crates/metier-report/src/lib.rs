//! Reports and flame graphs: one file each that needs nothing else to be read.
//!
//! - [`Report`]: what runs say, for people (HTML, Markdown) and programs (JSON, `metier.report/1`): verdict, how far to
//!   trust it, recommended requests and limits, comparison, charts, stages, processes.
//! - [`flame`]: where the time goes, function by function, and where two runs differ, as SVG.
//! - [`figure`]: panels of lines, dots and bars, as SVG or PNG.
//! - [`advice`]: what to ask a scheduler for, with the reason for each figure.
//!
//! Invariants: no input or output, no clock; the same material gives the same bytes. Every text of a run is hostile
//! until escaped: names may hold `<script>`. A file refers to nothing outside of itself. What is not there is said to
//! be missing and why, never drawn as 0. Lists and pictures are bounded, and say what they leave out.

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

/// Most subjects of a report.
pub const MOST_SUBJECTS: usize = 8;

/// A run with what was kept beside its record.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub run: Run,
    /// How it went, in one sentence.
    pub verdict: String,
    pub series: Vec<Series>,
    pub tree: Option<ProcessTree>,
    /// Its stacks, where they were sampled.
    pub stacks: Option<flame::Stacks>,
}

/// What a report is about: a run, or repetitions that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// What people call it.
    pub label: String,
    /// Its runs; at least one.
    pub runs: Vec<Measured>,
}

impl Subject {
    /// The run that stands for it in charts and tables: the one with the middle wall time.
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

/// A report, ready to be written in any form.
#[derive(Debug)]
pub struct Report {
    record: ReportRecord,
    sections: Vec<blocks::Section>,
    title: String,
}

impl Report {
    /// What these subjects say, alone and beside the first of them. `made_by` names program and version.
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
                    // A side that failed is still worth a report; it only cannot be compared.
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

    /// For a browser: one file without anything outside of it.
    pub fn html(&self) -> Result<String, Error> {
        html::page(&self.title, &self.record, &self.sections)
    }

    /// For a merge request or a terminal.
    pub fn markdown(&self) -> String {
        markdown::page(&self.title, &self.record, &self.sections)
    }
}
