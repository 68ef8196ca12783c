//! `metier predictors`: what was learned.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use metier_linux::Roots;
use metier_power::stored::{self, PowerKind};
use metier_predict::latency::{LatencyKind, MemoryKind};
use metier_predict::lifecycle::{PredictorKind, portable, standing};
use metier_store::Store;
use metier_types::{Digest, Predictor, Standing};
use serde_json::json;

use super::Room;
use super::train::sheet;
use crate::config::{data_folder, pipeline_folder};
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
  metier predictors import pi.json     what was learned elsewhere
  metier predictors export 9c01 --format kepler --file mine.zip
                                       a predictor of power as Kepler's zip, or as a folder
  metier predictors import ec2-0.7.11.zip
                                       a pipeline of kepler-model-db
  metier predictors use 3f2a           lets an earlier one answer again";

/// All kinds of predictors that this program has.
const KINDS: [&dyn PredictorKind; 3] = [&LatencyKind, &MemoryKind, &PowerKind];

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
    /// Forget one; with the one in use gone, the best of those kept aside answers
    Remove(Which),
    /// Let one answer that was kept aside
    Use(Which),
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
    /// metier writes record and file in one; kepler writes a pipeline: a zip where FILE ends so or
    /// is `-`, else a folder
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExportFormat::Metier)]
    format: ExportFormat,
}

/// How a predictor is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Metier,
    Kepler,
}

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct Import {
    /// What `metier predictors export` wrote, or a pipeline of Kepler as folder or zip; `-` is
    /// stdin
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
                let heir = standing::remove(&store, &KINDS, &one)?;
                stored_pipelines(&store);
                console.note(format!("removed {}", one.id));
                if let Some(heir) = heir {
                    console.note(format!("{} answers from now on ({})", heir.id.short(), heir.name));
                }
            }
            Some(What::Use(which)) => {
                let store = room.writable_store()?;
                let one = standing::put_in_use(&store, which.find(&store)?)?;
                stored_pipelines(&store);
                console.note(format!("{} answers from now on ({})", one.id.short(), one.name));
            }
            Some(What::Export(asked)) => asked.run(room)?,
            Some(What::Import(asked)) => {
                let store = room.writable_store()?;
                let taken = asked.import(&store).with_context(|| asked.file.display().to_string())?;
                stored_pipelines(&store);
                console.note(match taken.standing {
                    Standing::InUse => format!("{} answers from now on ({})", taken.id.short(), taken.name),
                    _ => format!("{} is kept aside: a newer one of {} is here", taken.id.short(), taken.name),
                });
            }
        }
        Ok(Code::OK)
    }
}

impl Export {
    fn run(&self, room: &Room) -> anyhow::Result<()> {
        let store = room.store()?;
        let one = self.which.find(&store)?;
        let is_stdout = self.file.as_os_str() == "-";
        let bytes = match self.format {
            ExportFormat::Metier => portable::export(&store, &one.id)?,
            ExportFormat::Kepler if one.kind == stored::KIND => portable::find(&store, &one.id)?.1,
            ExportFormat::Kepler => {
                return Err(usage(format!(
                    "--format is kepler, and {} predicts {}; only predictors of power have that format",
                    one.id.short(),
                    one.kind
                )));
            }
        };
        let is_zip = self.file.extension().is_some_and(|end| end == "zip");
        if is_stdout {
            return room.console.data(|out| Ok(out.write_all(&bytes)?));
        }
        if self.format == ExportFormat::Kepler && !is_zip {
            return Ok(stored::export_folder(bytes, &self.file)?);
        }
        let mut file = Destination::open("--file", &self.file)?;
        file.write_all(&bytes).with_context(|| format!("--file: cannot write {}", self.file.display()))?;
        file.commit()?;
        Ok(())
    }
}

impl Import {
    fn import(&self, store: &Store) -> anyhow::Result<Predictor> {
        if self.file.is_dir() {
            return Ok(stored::import(store, &self.file)?);
        }
        let mut bytes = Vec::new();
        let most = portable::LARGEST + 1;
        let read = match self.file.as_os_str() == "-" {
            true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
            false => std::fs::File::open(&self.file).and_then(|file| file.take(most).read_to_end(&mut bytes)),
        };
        read.context("cannot read it")?;
        anyhow::ensure!(
            bytes.len() as u64 <= portable::LARGEST,
            "it is larger than {}",
            metier_types::Bytes(portable::LARGEST)
        );
        Ok(match bytes.starts_with(b"PK") {
            true => stored::import_zip(store, &bytes, &self.file)?,
            false => portable::import(store, &KINDS, &bytes)?,
        })
    }
}

/// Writes the pipelines of the store that are in use to where `metier up` reads them; `None` where
/// there are none. Each store has a folder of its own. What goes wrong is logged: predictors that
/// are shipped still answer.
pub fn stored_pipelines(store: &Store) -> Option<PathBuf> {
    let place = metier_store::digest::of_bytes(store.location().to_string().as_bytes());
    let folder = pipeline_folder()?.join("stored").join(place.short());
    let written = write_stored(store, &folder).inspect_err(|error| {
        tracing::warn!(%error, "pipelines of the store do not answer");
    });
    written.ok().filter(|count| *count > 0).map(|_| folder)
}

fn write_stored(store: &Store, folder: &Path) -> anyhow::Result<usize> {
    let device = metier_device::identity::this(&Roots::default(), data_folder().as_deref())?;
    Ok(stored::write_in_use(store, &device.id, folder)?)
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

const HEADER: [&str; 8] = ["id", "kind", "name", "standing", "made", "rows", "mean_error_ratio", "device"];

fn error(one: &Predictor) -> Option<metier_types::Ratio> {
    one.held_out.first().and_then(|held| held.mean_absolute_error_ratio)
}

fn device(one: &Predictor) -> &str {
    one.device.as_ref().map_or("", |device| device.name.as_str())
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
        device(one).to_string(),
    ]
}

/// The digits of an id, without what says how they were made.
fn digits(id: &Digest) -> String {
    id.to_string().trim_start_matches("sha256:").to_string()
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
            let mut table = Table::with_header(&[
                "ID",
                "KIND",
                "NAME",
                "DEVICE",
                "STANDING",
                "POINTS",
                "MEAN ERROR",
                "MADE",
            ]);
            for one in all {
                table.row(vec![
                    Cell::text(one.id.short()),
                    Cell::text(&one.kind),
                    Cell::text(&one.name).at_most(40),
                    Cell::text(device(one)).at_most(24),
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
