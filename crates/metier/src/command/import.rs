//! `metier import`: imports an archive into the store. All of it is checked before any of it is
//! written.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use metier_store::archive::{check, import};
use serde_json::json;

use super::CommandContext;
use crate::exit::CliExitCode;

const EXAMPLES: &str = "Examples:
  metier import runs.jsonl                       from a file
  ssh lab metier export --all | metier import -  from another machine
  metier import --check runs.jsonl               only look whether it could be imported";

/// Import an archive into the store
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "Runs that are there already are left as they are; a run of the same id with another content is an error, and nothing is written.")]
pub struct ImportArgs {
    /// Archive of `metier export`; - for stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// Only check the archive
    #[arg(long)]
    check: bool,
}

impl ImportArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let mut archive = self.open_archive()?;
        let name = if self.file == "-" { "stdin" } else { &self.file };
        let store = context.writable_store()?;
        let contents = check(BufReader::with_capacity(1 << 20, &archive), &store)
            .with_context(|| format!("{name} was not imported"))?;
        let known = contents.known_runs.len() as u64;
        if !self.check {
            archive.seek(SeekFrom::Start(0)).with_context(|| format!("cannot read {name} again"))?;
            let steps = context.console.step_progress(contents.new_runs + known, "runs", "imported");
            import(BufReader::with_capacity(1 << 20, &archive), &store, &contents, || steps.advance())
                .with_context(|| {
                    format!("{name} was imported only in part; import it again once this is put right")
                })?;
            steps.finish();
        }
        let record = json!({
            "schema": "metier.import/1", "imported": if self.check { 0 } else { contents.new_runs },
            "new": contents.new_runs, "already_there": known,
        });
        let row = vec![contents.new_runs.to_string(), known.to_string()];
        context.console.print_record(&record, ["new", "already_there"], [row], |_| {
            let verb = if self.check { "could be imported" } else { "imported" };
            context.console.note(format!("{} run(s) {verb}, {known} already there", contents.new_runs));
            String::new()
        })?;
        Ok(CliExitCode::OK)
    }

    /// The archive as a file that can be read twice; a pipe is copied to a temporary file.
    fn open_archive(&self) -> anyhow::Result<File> {
        if self.file != "-" {
            let path = Path::new(&self.file);
            let file = File::open(path)
                .with_context(|| format!("cannot read {}; name an archive of `metier export`", self.file))?;
            if file.metadata().is_ok_and(|meta| meta.is_file()) {
                return Ok(file);
            }
            if path.is_dir() {
                anyhow::bail!("{} is a folder; name an archive of `metier export`", self.file);
            }
            return spool_to_file(file);
        }
        spool_to_file(std::io::stdin().lock())
    }
}

fn spool_to_file(mut from: impl std::io::Read) -> anyhow::Result<File> {
    let mut file = tempfile::tempfile()
        .context("cannot make a temporary file; set TMPDIR to a folder with free space")?;
    std::io::copy(&mut from, &mut file)
        .context("cannot keep what comes in a temporary file; set TMPDIR to a folder with free space")?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}
