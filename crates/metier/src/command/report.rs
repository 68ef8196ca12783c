//! `metier report`: what runs say, as one file for people or programs.

mod gather;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use metier_report::Report as Written;
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
}

impl Report {
    /// Writes the report.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let form = self.form(room)?;
        let destination = self.file.as_deref().map(|path| Destination::open("--file", path)).transpose()?;
        let subjects = Gather::new(room).subjects(&self.runs)?;
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
        match destination {
            None => room.console.data(write)?,
            Some(mut file) => {
                write(&mut file)?;
                file.commit()?;
            }
        }
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
