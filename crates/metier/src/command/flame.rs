//! `metier flame`: draws the flame graph of a run, or the difference between two runs.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_measure::stacks::FOLDED_ARTEFACT;
use metier_report::flame::{CollapsedStacks, FlameBaseline, standalone_svg};
use metier_store::RecordStore;
use metier_types::Run;

use super::{CommandContext, find_run, read_run_file};
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, OutputFile, OutputForm};

const EXAMPLES: &str = "Examples:
  metier run --stacks -- ./train             sample stacks while measuring
  metier flame last --file last.svg          the latest run as a picture for a browser
  metier flame last --against last~1 --file difference.svg
                                             red: a larger share of the time than before
  metier flame last -o folded | grep malloc  the stacks as text
  metier flame --folded perf.folded > x.svg  stacks that another tool collapsed";

/// Largest file of collapsed stacks.
const MAX_STACKS_BYTES: u64 = 256 << 20;

/// Draw a flame graph of a run
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "Forms (-o): svg (default), folded.")]
pub struct FlameArgs {
    /// A run: id, first or last digits of one, last, last~N, or a workload's name
    #[arg(value_name = "RUN", required_unless_present = "folded")]
    run: Option<String>,
    /// Baseline: a run, or a file of collapsed stacks
    #[arg(long, value_name = "RUN|FILE")]
    against: Option<String>,
    /// Read collapsed stacks (`frame;frame COUNT` per line) from this file instead of from a run
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    folded: Option<PathBuf>,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl FlameArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let form = match (context.form, context.console.format) {
            (Some(form @ (OutputForm::Svg | OutputForm::Folded)), _) => form,
            (Some(form), _) => {
                return Err(usage_error(format!("-o is {:?}; want svg or folded", output::enum_word(&form))));
            }
            (None, DataFormat::Table) => OutputForm::Svg,
            (None, form) => {
                return Err(usage_error(format!("-o is {:?}; want svg or folded", output::enum_word(&form))));
            }
        };
        let destination = self.file.as_deref().map(|path| OutputFile::open("--file", path)).transpose()?;
        let (label, stacks) = match (&self.folded, &self.run) {
            (Some(file), _) => read_stacks_file(file)?,
            (None, Some(text)) => load_stacks(context, text)?,
            (None, None) => return Err(usage_error("neither a run nor --folded FILE is given")),
        };
        let against = self.against.as_deref().map(|text| load_stacks(context, text)).transpose()?;
        let text = match form {
            OutputForm::Folded if against.is_some() => {
                return Err(usage_error(
                    "-o folded has no form for a difference; want -o svg, or no --against",
                ));
            }
            OutputForm::Folded => stacks.to_folded_text(),
            _ => {
                let against = against.as_ref().map(|(label, stacks)| FlameBaseline { stacks, label });
                standalone_svg(&stacks, &label, against)
            }
        };
        let write = |out: &mut dyn Write| -> anyhow::Result<()> { Ok(out.write_all(text.as_bytes())?) };
        context.console.write_data_to(destination, write)?;
        Ok(CliExitCode::OK)
    }
}

/// Loads the stacks of a file or a run.
fn load_stacks(context: &CommandContext, text: &str) -> anyhow::Result<(String, CollapsedStacks)> {
    if Path::new(text).is_file() {
        return read_stacks_file(Path::new(text));
    }
    let store = context.store()?;
    let run = find_run(&store, text)?;
    let stacks = run_stacks(&store, &run)?.with_context(|| {
        let why = run
            .missing
            .get("stacks")
            .map_or_else(|| "it was measured without --stacks".to_string(), ToString::to_string);
        format!("run {} has no stacks: {why}; `metier run --stacks` samples them", run.id.short())
    })?;
    Ok((format!("{} {}", run.workload.name, run.id.short()), stacks))
}

/// The stacks of a run; `None` where none were sampled.
pub fn run_stacks(store: &RecordStore, run: &Run) -> anyhow::Result<Option<CollapsedStacks>> {
    let Some(content) = read_run_file(store, run, FOLDED_ARTEFACT, "the file of stacks")? else {
        return Ok(None);
    };
    // A run without samples has an empty file; that is no error.
    if content.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let stacks =
        CollapsedStacks::parse(&content).with_context(|| format!("the stacks of run {}", run.id.short()))?;
    Ok(Some(stacks))
}

fn read_stacks_file(path: &Path) -> anyhow::Result<(String, CollapsedStacks)> {
    let shown = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    if size > MAX_STACKS_BYTES {
        anyhow::bail!("{shown} has {size} bytes; want at most 256 MiB of collapsed stacks");
    }
    let content = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let label = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok((label, CollapsedStacks::parse(&content).with_context(|| format!("{shown}"))?))
}
