//! Measures a metier child that computes a graph: the part of `metier run` that `metier bench`
//! uses.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use metier_session::runfile::{Dataset, FieldOrigins, Listen, RunFile};
use metier_session::{BatchIdentity, run_exit_code};
use metier_types::{GraphUse, Run as Record};

use super::{MeasureJob, apply_time_settings, flags};
use crate::command::CommandContext;
use crate::exit::CliExitCode;

/// The measured child and its options.
pub struct GraphMeasurement<'a> {
    /// The graph and its runtime.
    pub graph: GraphUse,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// An environment variable.
    pub variable: (String, String),
    /// Working folder, with its output files.
    pub folder: &'a Path,
    /// Files that are stored with the run.
    pub artefacts: Vec<String>,
    pub runs: u32,
    /// External weight files.
    pub beside: Vec<PathBuf>,
    /// Page-cache state of the graph and its weights before each run: cold, warm.
    pub page_cache: Option<String>,
    /// Limits and co-runners.
    pub flags: &'a flags::RunFileFlags<flags::SetupFlagGroups>,
    /// Options of storing.
    pub keeping: &'a flags::RecordKeepingArgs,
}

/// Measures; returns the records and the first exit code other than 0.
pub fn measure_graph(
    context: &CommandContext,
    measured: GraphMeasurement<'_>,
) -> anyhow::Result<(Vec<Record>, Option<CliExitCode>)> {
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
    let mut origins = FieldOrigins::default();
    origins.flag("dataset.page_cache", "--page-cache");
    file.apply_flags(&measured.flags.given, &mut origins);
    file.environment.extend([measured.variable]);
    file.working_directory = Some(measured.folder.display().to_string());
    apply_time_settings(context, &mut file, &mut origins)?;
    let mut checked = file.check(&origins)?;
    checked.spec.graph = Some(measured.graph);
    let job = MeasureJob {
        checked: &checked,
        order: BatchIdentity::default(),
        cache: None,
        weights: measured.beside,
        membership: None,
        keeping: measured.keeping,
    };
    let batch = job.measure(context)?;
    let code = batch.failure.or_else(|| batch.runs.iter().map(run_exit_code).find(|code| *code != 0));
    Ok((batch.runs, code.map(CliExitCode::from_raw)))
}
