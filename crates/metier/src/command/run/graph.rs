//! A command of ours that computes a graph, measured like any other run: what `metier bench` needs of `metier run`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use metier_types::{GraphUse, Run as Record};

use super::{Run, code_for, flags};
use crate::command::Room;
use crate::exit::Code;

/// What is measured, and how.
pub struct Measured<'a> {
    /// The graph and what computes it.
    pub graph: GraphUse,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it runs and leaves its files.
    pub folder: &'a Path,
    /// Files that are kept with the run.
    pub artefacts: Vec<String>,
    pub runs: u32,
    /// Files beside the graph that hold weights.
    pub beside: Vec<PathBuf>,
    /// The page cache before each of them, for the graph and what is beside it, where that matters: cold, warm.
    pub page_cache: Option<String>,
    pub interval: Option<String>,
    /// What it gets and what is beside it.
    pub surroundings: flags::Surroundings,
    /// How it is kept.
    pub keeping: flags::Keeping,
}

/// Measures; gives the records, and the first exit code that was not 0.
pub fn measure(room: &Room, measured: Measured<'_>) -> anyhow::Result<(Vec<Record>, Option<Code>)> {
    let mut measuring = flags::Measuring::default();
    (measuring.repeat, measuring.interval) = (Some(measured.runs), measured.interval);
    (measuring.listen, measuring.artefact) = (vec!["lines".to_string()], measured.artefacts);
    let mut surroundings = measured.surroundings;
    surroundings.workdir = Some(measured.folder.display().to_string());
    let mut datasets = flags::Datasets::default();
    if measured.page_cache.is_some() {
        (datasets.dataset, datasets.page_cache) = (Some(measured.graph.file.clone()), measured.page_cache);
    }
    let run = Run {
        file: None,
        check: false,
        measuring,
        surroundings,
        datasets,
        images: flags::Images::default(),
        keeping: measured.keeping,
        run_id: None,
        batch: None,
        company: None,
        company_log: None,
        paths_from: None,
        graph: Some(measured.graph),
        beside: measured.beside,
        command: measured.command,
    };
    let checked = run.checked(room)?;
    let batch = run.batch(room, &checked)?;
    let code = batch.failed.or_else(|| batch.runs.iter().map(code_for).find(|code| *code != Code::OK));
    Ok((batch.runs, code))
}
