//! `metier predictors`: lists, exports, imports and selects trained predictors.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use metier_linux::KernelRoots;
use metier_power::stored_pipelines::{self, PowerKind};
use metier_predict::latency::{LatencyKind, MemoryKind};
use metier_predict::lifecycle::{PredictorKind, portable, standing};
use metier_store::RecordStore;
use metier_types::{ContentDigest, Predictor, PredictorStanding};
use serde_json::json;

use super::CommandContext;
use super::train::predictor_sheet;
use crate::config::{data_folder, pipeline_folder};
use crate::exit::{CliExitCode, usage_error};
use crate::output::{
    self, DataFormat, OutputFile, StreamPaint, TableCell, TextTable, csv_cell, serialised_word,
};
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

/// All kinds of predictors.
const PREDICTOR_KINDS: [&dyn PredictorKind; 3] = [&LatencyKind, &MemoryKind, &PowerKind];

/// List and manage predictors
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PredictorsArgs {
    #[command(subcommand)]
    what: Option<PredictorsCommand>,
}

#[derive(Debug, Subcommand)]
enum PredictorsCommand {
    /// Show everything about a predictor
    Show(PredictorIdArgs),
    /// Print a predictor's file
    File(PredictorIdArgs),
    /// Delete a predictor; if it was in use, the best remaining one replaces it
    Remove(PredictorIdArgs),
    /// Use a predictor that is kept aside
    Use(PredictorIdArgs),
    /// Export a predictor with its record, for another host
    Export(PredictorExportArgs),
    /// Import an exported predictor
    Import(PredictorImportArgs),
}

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct PredictorExportArgs {
    #[command(flatten)]
    which: PredictorIdArgs,
    /// Target file; `-` is stdout
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// metier: record and file in one; kepler: a pipeline, as zip for `-` and names in .zip, else a
    /// folder
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExportFormat::Metier)]
    format: ExportFormat,
}

/// Export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Metier,
    Kepler,
}

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct PredictorImportArgs {
    /// File of `metier predictors export`, or a pipeline of Kepler as folder or zip; `-` is stdin
    file: PathBuf,
}

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct PredictorIdArgs {
    /// The start of its id
    id: String,
}

impl PredictorsArgs {
    /// Runs the subcommand.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let console = &context.console;
        match &self.what {
            None => print_list(context, &context.store()?.predictors(None)?)?,
            Some(PredictorsCommand::Show(which)) => {
                let predictor = which.find_predictor(&context.store()?)?;
                match console.format {
                    DataFormat::Json => console.write_data(|out| output::write_json(out, &predictor))?,
                    DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &predictor))?,
                    DataFormat::Csv => console
                        .write_data(|out| output::write_csv(out, CSV_COLUMNS, [predictor_row(&predictor)]))?,
                    DataFormat::Table => console.print(&predictor_sheet(&predictor, console.paint))?,
                }
            }
            Some(PredictorsCommand::File(which)) => {
                let store = context.store()?;
                let predictor = which.find_predictor(&store)?;
                let file = store.predictor_file(&predictor.id)?.unwrap_or_default();
                console.write_data(|out| Ok(out.write_all(&file)?))?;
            }
            Some(PredictorsCommand::Remove(which)) => {
                let store = context.writable_store()?;
                let predictor = which.find_predictor(&store)?;
                let heir = standing::remove(&store, &PREDICTOR_KINDS, &predictor)?;
                write_stored_pipelines(&store);
                console.note(format!("removed {}", predictor.id));
                if let Some(heir) = heir {
                    console.note(format!("{} answers from now on ({})", heir.id.short(), heir.name));
                }
            }
            Some(PredictorsCommand::Use(which)) => {
                let store = context.writable_store()?;
                let predictor = standing::put_in_use(&store, which.find_predictor(&store)?)?;
                write_stored_pipelines(&store);
                console.note(format!("{} answers from now on ({})", predictor.id.short(), predictor.name));
            }
            Some(PredictorsCommand::Export(asked)) => asked.run(context)?,
            Some(PredictorsCommand::Import(asked)) => {
                let store = context.writable_store()?;
                let taken = asked.import_file(&store).with_context(|| asked.file.display().to_string())?;
                write_stored_pipelines(&store);
                console.note(match taken.standing {
                    PredictorStanding::InUse => {
                        format!("{} answers from now on ({})", taken.id.short(), taken.name)
                    }
                    _ => format!("{} is kept aside: a newer one of {} is here", taken.id.short(), taken.name),
                });
            }
        }
        Ok(CliExitCode::OK)
    }
}

impl PredictorExportArgs {
    fn run(&self, context: &CommandContext) -> anyhow::Result<()> {
        let store = context.store()?;
        let predictor = self.which.find_predictor(&store)?;
        let is_stdout = self.file.as_os_str() == "-";
        let bytes = match self.format {
            ExportFormat::Metier => portable::export(&store, &predictor.id)?,
            ExportFormat::Kepler if predictor.kind == stored_pipelines::KIND => {
                portable::find(&store, &predictor.id)?.1
            }
            ExportFormat::Kepler => {
                return Err(usage_error(format!(
                    "--format is kepler, and {} predicts {}; only predictors of power have that format",
                    predictor.id.short(),
                    predictor.kind
                )));
            }
        };
        let is_zip = self.file.extension().is_some_and(|end| end == "zip");
        if is_stdout {
            return context.console.write_data(|out| Ok(out.write_all(&bytes)?));
        }
        if self.format == ExportFormat::Kepler && !is_zip {
            return Ok(stored_pipelines::export_folder(bytes, &self.file)?);
        }
        let mut file = OutputFile::open("--file", &self.file)?;
        file.write_all(&bytes).with_context(|| format!("--file: cannot write {}", self.file.display()))?;
        file.commit()?;
        Ok(())
    }
}

impl PredictorImportArgs {
    fn import_file(&self, store: &RecordStore) -> anyhow::Result<Predictor> {
        if self.file.is_dir() {
            return Ok(stored_pipelines::import(store, &self.file)?);
        }
        let mut bytes = Vec::new();
        let most = portable::MAX_PORTABLE_BYTES + 1;
        let read = match self.file.as_os_str() == "-" {
            true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
            false => std::fs::File::open(&self.file).and_then(|file| file.take(most).read_to_end(&mut bytes)),
        };
        read.context("cannot read it")?;
        anyhow::ensure!(
            bytes.len() as u64 <= portable::MAX_PORTABLE_BYTES,
            "it is larger than {}",
            metier_types::Bytes(portable::MAX_PORTABLE_BYTES)
        );
        Ok(match bytes.starts_with(b"PK") {
            true => stored_pipelines::import_zip(store, &bytes, &self.file)?,
            false => portable::import(store, &PREDICTOR_KINDS, &bytes)?,
        })
    }
}

/// Writes the store's pipelines in use to a folder that `metier up` reads; `None` without any. Each
/// store has its own folder. Failures are logged: shipped predictors still work.
pub fn write_stored_pipelines(store: &RecordStore) -> Option<PathBuf> {
    let place = metier_store::digest::digest_bytes(store.location().to_string().as_bytes());
    let folder = pipeline_folder()?.join("stored").join(place.short());
    let written = write_stored(store, &folder).inspect_err(|error| {
        tracing::warn!(%error, "pipelines of the store do not answer");
    });
    written.ok().filter(|count| *count > 0).map(|_| folder)
}

fn write_stored(store: &RecordStore, folder: &Path) -> anyhow::Result<usize> {
    let device = metier_device::identity::identify_device(&KernelRoots::default(), data_folder().as_deref())?;
    Ok(stored_pipelines::write_in_use(store, &device.id, folder)?)
}

impl PredictorIdArgs {
    fn find_predictor(&self, store: &RecordStore) -> anyhow::Result<Predictor> {
        let all = store.predictors(None)?;
        let hex = self.id.trim_start_matches("sha256:");
        let mut fitting = all.into_iter().filter(|predictor| id_digits(&predictor.id).starts_with(hex));
        match (fitting.next(), fitting.next()) {
            (Some(predictor), None) if !hex.is_empty() => Ok(predictor),
            (None, _) => anyhow::bail!(
                "no predictor has an id that starts with {:?}; `metier predictors` lists them",
                self.id
            ),
            _ => Err(usage_error(format!("{:?} is the start of several ids; want more digits", self.id))),
        }
    }
}

const CSV_COLUMNS: [&str; 8] =
    ["id", "kind", "name", "standing", "made", "rows", "mean_error_ratio", "device"];

fn mean_error(predictor: &Predictor) -> Option<metier_types::Ratio> {
    predictor.held_out.first().and_then(|held| held.mean_absolute_error_ratio)
}

fn device_name(predictor: &Predictor) -> &str {
    predictor.device.as_ref().map_or("", |device| device.name.as_str())
}

fn predictor_row(predictor: &Predictor) -> Vec<String> {
    vec![
        predictor.id.to_string(),
        predictor.kind.clone(),
        predictor.name.clone(),
        serialised_word(&predictor.standing),
        predictor.made.to_string(),
        predictor.rows.to_string(),
        csv_cell(mean_error(predictor).map(|ratio| ratio.get())),
        device_name(predictor).to_string(),
    ]
}

/// The digits of an id, without its prefix.
fn id_digits(id: &ContentDigest) -> String {
    id.to_string().trim_start_matches("sha256:").to_string()
}

fn print_list(context: &CommandContext, all: &[Predictor]) -> anyhow::Result<()> {
    let console = &context.console;
    let record = || json!({ "schema": "metier.predictors/1", "predictors": all });
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, &record())),
        DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &record())),
        DataFormat::Csv => {
            console.write_data(|out| output::write_csv(out, CSV_COLUMNS, all.iter().map(predictor_row)))
        }
        DataFormat::Table if all.is_empty() => {
            console.note("nothing was learned yet; `metier train latency` learns how long graphs take here");
            Ok(())
        }
        DataFormat::Table => {
            let mut table = TextTable::with_header(&[
                "ID",
                "KIND",
                "NAME",
                "DEVICE",
                "STANDING",
                "POINTS",
                "MEAN ERROR",
                "MADE",
            ]);
            for predictor in all {
                table.add_row(vec![
                    TableCell::text(predictor.id.short()),
                    TableCell::text(&predictor.kind),
                    TableCell::text(&predictor.name).truncated(40),
                    TableCell::text(device_name(predictor)).truncated(24),
                    TableCell::text(serialised_word(&predictor.standing)),
                    TableCell::number(predictor.rows.to_string()),
                    TableCell::quantity(mean_error(predictor)),
                    TableCell::text(time::local_time(predictor.made)).styled(StreamPaint::dim),
                ]);
            }
            console.print(&table.render(console.paint))
        }
    }
}
