//! `metier report`: writes a report of runs as one file.

mod subject_loader;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_report::flame::{FlameBaseline, standalone_svg};
use metier_report::{ReportSubject, RunReport as Written};
use metier_types::UtcTimestamp;

use super::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, OutputFile, OutputForm};

pub use subject_loader::SubjectLoader;

const EXAMPLES: &str = "Examples:
  metier report last --file run.html       the latest run as one HTML file
  metier report sort                       the latest batch of a workload, as Markdown
  metier report before after -o html > comparison.html
                                           two batches side by side
  metier report sort -o json               verdict, spread and advice for programs (metier.report/1)";

/// Write a report of runs as one file: HTML, Markdown, JSON
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "A RUN is a run, a batch, a workload's name (its latest batch; name~1 the one before) or a file of --save-json; several are compared with the first.\nForms (-o): html, md (default), json, yaml; with --file as its name ends.")]
pub struct ReportArgs {
    /// Subjects of the report
    #[arg(value_name = "RUN", required = true, num_args = 1..=metier_report::MAX_SUBJECTS)]
    runs: Vec<String>,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write its flame graph to this file, as SVG; of two subjects, the second against the first
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
}

impl ReportArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let form = self.choose_form(context)?;
        let destination = self.file.as_deref().map(|path| OutputFile::open("--file", path)).transpose()?;
        let flame = self.flame.as_deref().map(|path| OutputFile::open("--flame", path)).transpose()?;
        let subjects = SubjectLoader::new(context).load_subjects(&self.runs)?;
        if let Some(mut file) = flame {
            file.write_all(flame_graph(&subjects)?.as_bytes())?;
            file.commit()?;
        }
        let made_by = format!("metier {}", env!("CARGO_PKG_VERSION"));
        let report = Written::new(&subjects, UtcTimestamp::now(), &made_by)?;
        let write = |out: &mut dyn Write| -> anyhow::Result<()> {
            match form {
                OutputForm::Html => out.write_all(report.to_html()?.as_bytes())?,
                OutputForm::Json => output::write_json(out, report.record())?,
                OutputForm::Yaml => output::write_yaml(out, report.record())?,
                _ => out.write_all(report.to_markdown().as_bytes())?,
            }
            Ok(())
        };
        context.console.write_data_to(destination, write)?;
        Ok(CliExitCode::OK)
    }

    fn choose_form(&self, context: &CommandContext) -> anyhow::Result<OutputForm> {
        let ending = self.file.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        match (context.form, context.console.format, ending) {
            (Some(form @ (OutputForm::Html | OutputForm::Md)), ..) => Ok(form),
            (Some(form), ..) => {
                Err(usage_error(format!("-o is {:?}; want html, md, json or yaml", output::enum_word(&form))))
            }
            (None, DataFormat::Json, _) => Ok(OutputForm::Json),
            (None, DataFormat::Yaml, _) => Ok(OutputForm::Yaml),
            (None, DataFormat::Csv, _) => {
                Err(usage_error("-o is \"csv\"; a report has the forms html, md, json and yaml"))
            }
            (None, DataFormat::Table, Some("html" | "htm")) => Ok(OutputForm::Html),
            (None, DataFormat::Table, Some("json")) => Ok(OutputForm::Json),
            (None, DataFormat::Table, Some("yaml" | "yml")) => Ok(OutputForm::Yaml),
            (None, DataFormat::Table, _) => Ok(OutputForm::Md),
        }
    }
}

/// The flame graph of the only subject, or of the second against the first.
fn flame_graph(subjects: &[ReportSubject]) -> anyhow::Result<String> {
    let of = |subject: &ReportSubject| {
        let shown = subject.representative_run();
        let none = || format!("{} has no stacks; `metier run --stacks` samples them", subject.label);
        shown.and_then(|shown| shown.stacks.clone()).with_context(none)
    };
    Ok(match subjects {
        [first, second, ..] => {
            let (before, after) = (of(first)?, of(second)?);
            standalone_svg(
                &after,
                &second.label,
                Some(FlameBaseline { stacks: &before, label: &first.label }),
            )
        }
        [subject] => standalone_svg(&of(subject)?, &subject.label, None),
        [] => String::new(),
    })
}
