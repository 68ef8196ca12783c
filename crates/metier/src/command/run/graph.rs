//! A command of ours that computes a graph, measured like any other run: what `metier bench` needs of `metier run`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use metier_session::runfile::{Dataset, Listen, Origins, RunFile};
use metier_session::{BatchOrder, run_exit_code};
use metier_types::{GraphUse, Run as Record};

use super::{MeasureJob, flags, settle_times};
use crate::command::Room;
use crate::exit::Code;

/// What is measured, and how.
pub struct Measured<'a> {
    /// The graph and what computes it.
    pub graph: GraphUse,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// A variable that it gets.
    pub variable: (String, String),
    /// Where it runs and leaves its files.
    pub folder: &'a Path,
    /// Files that are kept with the run.
    pub artefacts: Vec<String>,
    pub runs: u32,
    /// Files beside the graph that hold weights.
    pub beside: Vec<PathBuf>,
    /// The page cache before each of them, for the graph and what is beside it, where that matters: cold, warm.
    pub page_cache: Option<String>,
    /// What it gets and what is beside it.
    pub flags: &'a flags::RunFlags<flags::SurroundingGroups>,
    /// How it is kept.
    pub keeping: &'a flags::Keeping,
}

/// Measures; gives the records, and the first exit code that was not 0.
pub fn measure(room: &Room, measured: Measured<'_>) -> anyhow::Result<(Vec<Record>, Option<Code>)> {
    let source = measured.graph.file.clone();
    let page_cache = measured.page_cache;
    let mut file = RunFile {
        command: measured.command,
        repeats: Some(measured.runs),
        listen: Listen { lines: true, ..Listen::default() },
        artefacts: measured.artefacts,
        dataset: page_cache.map(|state| Dataset { source, page_cache: Some(state), ..Dataset::default() }),
        ..RunFile::default()
    };
    let mut origins = Origins::default();
    origins.flag("dataset.page_cache", "--page-cache");
    file.lay_over(&measured.flags.given, &mut origins);
    file.environment.extend([measured.variable]);
    file.working_directory = Some(measured.folder.display().to_string());
    settle_times(room, &mut file, &mut origins)?;
    let mut checked = file.check(&origins)?;
    checked.spec.graph = Some(measured.graph);
    let job = MeasureJob {
        checked: &checked,
        order: BatchOrder::default(),
        cache: None,
        weights: measured.beside,
        membership: None,
        keeping: measured.keeping,
    };
    let batch = job.measure(room)?;
    let code = batch.failure.or_else(|| batch.runs.iter().map(run_exit_code).find(|code| *code != 0));
    Ok((batch.runs, code.map(Code::of)))
}
