//! `metier report`: what runs say, as one file for people or programs.

mod gather;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use metier_report::flame::{Against, standalone};
use metier_report::{Report as Written, Subject};
use metier_types::Timestamp;

use super::Room;
use crate::exit::{Code, usage};
use crate::output::{self, Destination, Form, Format};

pub use gather::Gather;

const EXAMPLES: &str = "Examples:
  metier report last --file run.html       the latest run as one HTML file
  metier report sort                       the latest batch of a workload, as Markdown
  metier report before after -o html > comparison.html
                                           two batches side by side
  metier report sort -o json               verdict, spread and advice for programs (metier.report/1)";

/// Write what runs say as one file
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "A RUN is a run, a batch, a workload's name (its latest batch; name~1 the one before) or a file of --save-json; several are compared with the first.\nForms (-o): html, md (default), json, yaml; with --file as its name ends.")]
pub struct Report {
    /// What to report on
    #[arg(value_name = "RUN", required = true, num_args = 1..=metier_report::MOST_SUBJECTS)]
    runs: Vec<String>,
    /// Write it there instead of to stdout
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write its flame graph there as well, as SVG; of two, that of the second against the first
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
}

impl Report {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let form = self.form(room)?;
        let destination = self.file.as_deref().map(|path| Destination::open("--file", path)).transpose()?;
        let flame = self.flame.as_deref().map(|path| Destination::open("--flame", path)).transpose()?;
        let subjects = Gather::new(room).subjects(&self.runs)?;
        if let Some(mut file) = flame {
            file.write_all(picture(&subjects)?.as_bytes())?;
            file.commit()?;
        }
        let made_by = format!("metier {}", env!("CARGO_PKG_VERSION"));
        let report = Written::new(&subjects, Timestamp::now(), &made_by)?;
        let write = |out: &mut dyn Write| -> anyhow::Result<()> {
            match form {
                Form::Html => out.write_all(report.html()?.as_bytes())?,
                Form::Json => output::json(out, report.record())?,
                Form::Yaml => output::yaml(out, report.record())?,
                _ => out.write_all(report.markdown().as_bytes())?,
            }
            Ok(())
        };
        room.console.data_to(destination, write)?;
        Ok(Code::OK)
    }

    fn form(&self, room: &Room) -> anyhow::Result<Form> {
        let ending = self.file.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        match (room.form, room.console.format, ending) {
            (Some(form @ (Form::Html | Form::Md)), ..) => Ok(form),
            (Some(form), ..) => {
                Err(usage(format!("-o is {:?}; want html, md, json or yaml", output::word(&form))))
            }
            (None, Format::Json, _) => Ok(Form::Json),
            (None, Format::Yaml, _) => Ok(Form::Yaml),
            (None, Format::Csv, _) => {
                Err(usage("-o is \"csv\"; a report has the forms html, md, json and yaml"))
            }
            (None, Format::Table, Some("html" | "htm")) => Ok(Form::Html),
            (None, Format::Table, Some("json")) => Ok(Form::Json),
            (None, Format::Table, Some("yaml" | "yml")) => Ok(Form::Yaml),
            (None, Format::Table, _) => Ok(Form::Md),
        }
    }
}

/// The flame graph of the only subject, or of the second against the first.
fn picture(subjects: &[Subject]) -> anyhow::Result<String> {
    let of = |subject: &Subject| {
        let shown = subject.shown();
        let none = || format!("{} has no stacks; `metier run --stacks` samples them", subject.label);
        shown.and_then(|shown| shown.stacks.clone()).with_context(none)
    };
    Ok(match subjects {
        [first, second, ..] => {
            let (before, after) = (of(first)?, of(second)?);
            standalone(&after, &second.label, Some(Against { stacks: &before, label: &first.label }))
        }
        [one] => standalone(&of(one)?, &one.label, None),
        [] => String::new(),
    })
}
