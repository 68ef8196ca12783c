//! Reports and flame graphs, each as one self-contained file.
//!
//! - [`RunReport`]: the results of runs as HTML, Markdown and JSON (`metier.report/1`): verdict,
//!   reliability, recommended requests and limits, comparison, charts, stages, processes.
//! - [`flame`]: time by function, and the differences between two runs, as SVG.
//! - [`figure`]: panels of lines, dots and bars, as SVG or PNG.
//!
//! Invariants: no I/O, no clock; the same input gives the same bytes. All texts of a run are
//! untrusted and escaped: names may contain `<script>`. A file refers to nothing outside itself.
//! Absent values are reported as missing with the reason, never drawn as 0. Lists and pictures are
//! bounded and report their omissions.

pub mod blocks;
mod chart;
mod chart_lines;
mod error;
pub mod figure;
pub mod flame;
mod html;
mod markdown;
pub mod report_record;
mod sections;
mod value_format;

use metier_stats::{CompareOptions, UseHistory, batch_spread, compare, size_resources};
use metier_types::{ExtraFields, ProcessTree, RecordSchema, Run, Series, UtcTimestamp};

pub use error::Error;
pub use report_record::{ReportRecord, SubjectRecord};
pub use value_format::shell_words;

/// Maximum number of subjects in a report.
pub const MAX_SUBJECTS: usize = 8;

/// A run with its series, stacks and other data.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedRun {
    pub run: Run,
    /// The verdict of the run, in one sentence.
    pub verdict: String,
    pub series: Vec<Series>,
    pub tree: Option<ProcessTree>,
    /// Sampled stacks, if there are any.
    pub stacks: Option<flame::CollapsedStacks>,
}

/// A subject of a report: a run, or repetitions of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSubject {
    /// Display name.
    pub label: String,
    /// The runs; at least one.
    pub runs: Vec<ReportedRun>,
    /// Runs of earlier batches, for the drift between batches in comparisons.
    pub history: Vec<Run>,
}

impl ReportSubject {
    /// The representative run for charts and tables: the one with the median wall time.
    pub fn representative_run(&self) -> Option<&ReportedRun> {
        let wall = |measured: &&ReportedRun| measured.run.summary.wall_seconds.map_or(0.0, |wall| wall.get());
        let mut candidates: Vec<&ReportedRun> =
            self.runs.iter().filter(|measured| measured.run.is_counted()).collect();
        if candidates.is_empty() {
            candidates = self.runs.iter().collect();
        }
        candidates.sort_by(|l, r| wall(l).total_cmp(&wall(r)).then(l.run.id.cmp(&r.run.id)));
        candidates.get(candidates.len().saturating_sub(1) / 2).copied()
    }

    /// The use of its successful repetitions, from which requests and limits are derived.
    pub fn use_histories(&self) -> Vec<UseHistory> {
        self.runs.iter().filter_map(|measured| UseHistory::of_run(&measured.run, &measured.series)).collect()
    }

    /// The history of both, each run once.
    fn joined_history(&self, other: &Self) -> Vec<Run> {
        let mut runs = self.history.clone();
        runs.extend(
            other.history.iter().filter(|run| !self.history.iter().any(|own| own.id == run.id)).cloned(),
        );
        runs
    }

    fn run_records(&self) -> Vec<Run> {
        self.runs.iter().map(|measured| measured.run.clone()).collect()
    }
}

/// A report that can be rendered in several forms.
#[derive(Debug)]
pub struct RunReport {
    record: ReportRecord,
    sections: Vec<blocks::ReportSection>,
    title: String,
}

impl RunReport {
    /// Builds a report on the subjects and compares the first with each of the others. `made_by`
    /// names program and version.
    pub fn new(subjects: &[ReportSubject], made: UtcTimestamp, made_by: &str) -> Result<Self, Error> {
        if subjects.is_empty() || subjects.iter().any(|subject| subject.runs.is_empty()) {
            return Err(Error::Empty);
        }
        if subjects.len() > MAX_SUBJECTS {
            return Err(Error::TooMany { given: subjects.len(), most: MAX_SUBJECTS });
        }
        let mut comparisons = Vec::new();
        let mut refusals = Vec::new();
        if let [first, others @ ..] = subjects {
            for other in others {
                let options = CompareOptions {
                    label_a: first.label.clone(),
                    label_b: other.label.clone(),
                    history: first.joined_history(other),
                    ..CompareOptions::default()
                };
                match compare(&first.run_records(), &other.run_records(), &options) {
                    Ok(comparison) => comparisons.push(comparison),
                    // A failed side can still be reported, but not compared.
                    Err(error) => refusals.push(format!("{} and {}: {error}", first.label, other.label)),
                }
            }
        }
        let mut records = Vec::new();
        for subject in subjects {
            let shown = subject.representative_run().ok_or(Error::Empty)?;
            records.push(SubjectRecord {
                label: subject.label.clone(),
                runs: subject.runs.iter().map(|measured| measured.run.id).collect(),
                shown: shown.run.id,
                verdict: shown.verdict.clone(),
                spread: batch_spread(&subject.run_records())?,
                advice: size_resources(&subject.use_histories()),
                extra: ExtraFields::new(),
            });
        }
        let record = ReportRecord {
            schema: RecordSchema::new(),
            made,
            made_by: made_by.to_string(),
            subjects: records,
            comparisons,
            refusals,
            extra: ExtraFields::new(),
        };
        let labels: Vec<&str> = subjects.iter().map(|subject| subject.label.as_str()).collect();
        let title = labels.join(" · ");
        let sections = sections::report_sections(subjects, &record);
        Ok(Self { record, sections, title })
    }

    pub fn record(&self) -> &ReportRecord {
        &self.record
    }

    /// Renders one self-contained HTML file.
    pub fn to_html(&self) -> Result<String, Error> {
        html::render_html(&self.title, &self.record, &self.sections)
    }

    /// Renders Markdown for merge requests and terminals.
    pub fn to_markdown(&self) -> String {
        markdown::render_markdown(&self.title, &self.record, &self.sections)
    }
}
