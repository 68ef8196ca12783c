//! `metier predictors`: what was learned.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use metier_predict::latency::{better, portable};
use metier_store::Store;
use metier_types::{Digest, Predictor, Standing};
use serde_json::json;

use super::Room;
use super::train::sheet;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Destination, Format, Paint, Table, plain, word_of};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier predictors                    what was learned, newest first
  metier predictors show 3f2a          everything about one, by the start of its id
  metier predictors file 3f2a > x.json its file
  metier predictors remove 3f2a        forget it
  metier predictors export 3f2a --file pi.json
                                       for another host
  metier predictors import pi.json     what was learned elsewhere";

/// List what was learned
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Predictors {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Everything about one
    Show(Which),
    /// Print its file
    File(Which),
    /// Forget one
    Remove(Which),
    /// Write one with its record, for another host
    Export(Export),
    /// Take one that was exported elsewhere
    Import(Import),
}

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct Export {
    #[command(flatten)]
    which: Which,
    /// Where to; `-` is stdout
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct Import {
    /// What `metier predictors export` wrote; `-` is stdin
    file: PathBuf,
}

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct Which {
    /// The start of its id
    id: String,
}

impl Predictors {
    /// Does what was asked for.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let console = &room.console;
        match &self.what {
            None => list(room, &room.store()?.predictors(None)?)?,
            Some(What::Show(which)) => {
                let one = which.find(&room.store()?)?;
                match console.format {
                    Format::Json => console.data(|out| output::json(out, &one))?,
                    Format::Yaml => console.data(|out| output::yaml(out, &one))?,
                    Format::Csv => console.data(|out| output::csv(out, &HEADER, [row(&one)]))?,
                    Format::Table => console.print(&sheet(&one, console.paint))?,
                }
            }
            Some(What::File(which)) => {
                let store = room.store()?;
                let one = which.find(&store)?;
                let file = store.predictor_file(&one.id)?.unwrap_or_default();
                console.data(|out| Ok(out.write_all(&file)?))?;
            }
            Some(What::Remove(which)) => {
                let store = room.writable_store()?;
                let one = which.find(&store)?;
                store.remove_predictor(&one.id)?;
                promote(&store, &one)?;
                console.note(format!("removed {}", one.id));
            }
            Some(What::Export(asked)) => {
                let store = room.store()?;
                let bytes = portable::export(&store, &asked.which.find(&store)?.id)?;
                match asked.file.as_os_str() == "-" {
                    true => console.data(|out| Ok(out.write_all(&bytes)?))?,
                    false => {
                        let mut file = Destination::open("--file", &asked.file)?;
                        file.write_all(&bytes)
                            .with_context(|| format!("--file: cannot write {}", asked.file.display()))?;
                        file.commit()?;
                    }
                }
            }
            Some(What::Import(asked)) => {
                let bytes = asked.read()?;
                let taken = portable::import(&room.writable_store()?, &bytes)
                    .with_context(|| asked.file.display().to_string())?;
                console.note(match taken.standing {
                    Standing::InUse => format!("{} answers from now on ({})", short(&taken.id), taken.name),
                    _ => format!("{} is kept aside: a newer one of {} is here", short(&taken.id), taken.name),
                });
            }
        }
        Ok(Code::OK)
    }
}

impl Import {
    fn read(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let most = portable::LARGEST + 1;
        let read = match self.file.as_os_str() == "-" {
            true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
            false => std::fs::File::open(&self.file).and_then(|file| file.take(most).read_to_end(&mut bytes)),
        };
        read.with_context(|| format!("cannot read {}", self.file.display()))?;
        anyhow::ensure!(
            bytes.len() as u64 <= portable::LARGEST,
            "{}: it is larger than {}",
            self.file.display(),
            metier_types::Bytes(portable::LARGEST)
        );
        Ok(bytes)
    }
}

impl Which {
    fn find(&self, store: &Store) -> anyhow::Result<Predictor> {
        let all = store.predictors(None)?;
        let hex = self.id.trim_start_matches("sha256:");
        let mut fitting = all.into_iter().filter(|one| digits(&one.id).starts_with(hex));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) if !hex.is_empty() => Ok(one),
            (None, _) => anyhow::bail!(
                "no predictor has an id that starts with {:?}; `metier predictors` lists them",
                self.id
            ),
            _ => Err(usage(format!("{:?} is the start of several ids; want more of it", self.id))),
        }
    }
}

/// With the one in use gone, the best of those that were kept aside answers again, if any is fit to.
fn promote(store: &Store, gone: &Predictor) -> anyhow::Result<()> {
    if gone.standing != Standing::InUse {
        return Ok(());
    }
    let all = store.predictors(Some(&gone.kind))?;
    if let Some(heir) = better::heir(&all, gone) {
        store.update_predictor(&Predictor { standing: Standing::InUse, ..heir.clone() })?;
    }
    Ok(())
}

const HEADER: [&str; 7] = ["id", "kind", "name", "standing", "made", "rows", "mean_error_ratio"];

fn error(one: &Predictor) -> Option<metier_types::Ratio> {
    one.held_out.first().and_then(|held| held.mean_absolute_error_ratio)
}

fn row(one: &Predictor) -> Vec<String> {
    vec![
        one.id.to_string(),
        one.kind.clone(),
        one.name.clone(),
        word_of(&one.standing),
        one.made.to_string(),
        one.rows.to_string(),
        plain(error(one).map(|ratio| ratio.get())),
    ]
}

/// The digits of an id, without what says how they were made.
fn digits(id: &Digest) -> String {
    id.to_string().trim_start_matches("sha256:").to_string()
}

fn short(id: &Digest) -> String {
    digits(id).chars().take(12).collect()
}

fn list(room: &Room, all: &[Predictor]) -> anyhow::Result<()> {
    let console = &room.console;
    let record = || json!({ "schema": "metier.predictors/1", "predictors": all });
    match console.format {
        Format::Json => console.data(|out| output::json(out, &record())),
        Format::Yaml => console.data(|out| output::yaml(out, &record())),
        Format::Csv => console.data(|out| output::csv(out, &HEADER, all.iter().map(row))),
        Format::Table if all.is_empty() => {
            console.note("nothing was learned yet; `metier train latency` learns how long graphs take here");
            Ok(())
        }
        Format::Table => {
            let mut table =
                Table::with_header(&["ID", "KIND", "NAME", "STANDING", "POINTS", "MEAN ERROR", "MADE"]);
            for one in all {
                table.row(vec![
                    Cell::text(short(&one.id)),
                    Cell::text(&one.kind),
                    Cell::text(&one.name).at_most(40),
                    Cell::text(word_of(&one.standing)),
                    Cell::number(one.rows.to_string()),
                    Cell::quantity(error(one)),
                    Cell::text(time::local(one.made)).styled(Paint::dim),
                ]);
            }
            console.print(&table.render(console.paint))
        }
    }
}
