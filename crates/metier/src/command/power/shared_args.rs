//! Flags that several commands share, with Kepler's names and defaults.

use std::path::PathBuf;

use clap::Args;
use metier_power::extract::TableExtractor;
use metier_power::frame::FeatureFrame;
use metier_power::isolate::{BackgroundHints, PowerIsolator};
use metier_power::kepler_terms::{EnergySource, FeatureGroup, PowerTrainer};
use metier_power::pipeline::PredictorPipeline;
use metier_power::profile::IdleProfile;
use metier_power::training::MeasuredMachine;
use metier_types::words::UnknownWord;

use super::power_files::DataFolder;
use crate::exit::usage_error;

/// Files and their folder.
#[derive(Debug, Args)]
pub struct PathArgs {
    /// Folder of relative file names [DATAPATH; default: the working directory]
    #[arg(long, value_name = "FOLDER")]
    data_path: Option<PathBuf>,
    /// Name of the output files; `-o NAME` is the same
    #[arg(long, value_name = "NAME", default_value = "output")]
    pub out: String,
}

impl PathArgs {
    pub fn data_folder(&self) -> DataFolder {
        let given = self.data_path.clone().or_else(|| std::env::var_os("DATAPATH").map(PathBuf::from));
        DataFolder(given.filter(|path| !path.as_os_str().is_empty()).unwrap_or_else(|| PathBuf::from(".")))
    }
}

/// Selects rows of a response.
#[derive(Debug, Args)]
pub struct RowArgs {
    /// Row method: default, or smooth (means of 30 rows)
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub extractor: TableExtractor,
    /// Use series of virtual machines and their processes
    #[arg(long)]
    pub vm_train: bool,
}

/// Selects the isolation of idle and background power.
#[derive(Debug, Args)]
pub struct IsolationArgs {
    /// Isolation method: none, min, profile, trainer, or joint
    #[arg(long, value_name = "NAME", default_value = "min")]
    pub isolator: PowerIsolator,
    /// Query response of the idle machine, or its profile: for `--isolator profile`
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Name parts of the workload's containers: for `--isolator trainer` and `joint`
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    target_hints: Vec<String>,
    /// Name parts of the background's containers
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    bg_hints: Vec<String>,
    /// Pipeline with AbsPower predictors of background power: for `--isolator trainer`
    #[arg(long, value_name = "NAME")]
    abs_pipeline_name: Option<String>,
}

impl IsolationArgs {
    pub fn hints(&self) -> BackgroundHints {
        BackgroundHints { target: self.target_hints.clone(), background: self.bg_hints.clone() }
    }

    /// Inputs of `profile`.
    pub fn load_idle(&self, data: &DataFolder) -> anyhow::Result<Option<IdleProfile>> {
        match (&self.profile, self.isolator) {
            (Some(name), _) => {
                let (path, text) = data.read_file("--profile", name, "json")?;
                Ok(Some(
                    IdleProfile::read(&text)
                        .map_err(|error| usage_error(format!("--profile {}: {error}", path.display())))?,
                ))
            }
            (None, PowerIsolator::Profile) => Err(usage_error(
                "--isolator profile: --profile is missing; want a query response of the idle machine, or its profile",
            )),
            (None, _) => Ok(None),
        }
    }

    /// Inputs of `trainer`.
    pub fn load_abs_pipeline(&self, data: &DataFolder) -> anyhow::Result<Option<PredictorPipeline>> {
        match (&self.abs_pipeline_name, self.isolator) {
            (Some(name), _) => Ok(Some(data.load_pipeline("--abs-pipeline-name", name)?)),
            (None, PowerIsolator::Trainer) => Err(usage_error(
                "--isolator trainer: --abs-pipeline-name is missing; want a pipeline with AbsPower predictors",
            )),
            (None, _) => Ok(None),
        }
    }
}

/// The measured machine.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Name of the measured machine; `machine_spec/ID.json` describes it
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// File that describes the machine, if stored elsewhere
    #[arg(long, value_name = "FILE")]
    machine_spec: Option<PathBuf>,
}

impl MachineArgs {
    /// The machine, if named.
    pub fn load_machine(&self, data: &DataFolder) -> anyhow::Result<Option<MeasuredMachine>> {
        let (flag, path) = match (&self.machine_spec, &self.id) {
            (Some(path), _) => ("--machine-spec", path.clone()),
            (None, Some(id)) => ("--id", data.machine_spec_path(id)?),
            (None, None) => return Ok(None),
        };
        let wrong = |why: String| usage_error(format!("{flag}: {}: {why}", path.display()));
        let text = std::fs::read(&path).map_err(|error| {
            wrong(format!("{error}; `metier power node --save --id NAME` on that machine writes one"))
        })?;
        let spec = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Some(MeasuredMachine { id: self.id.clone().or(stem).unwrap_or_default(), spec }))
    }
}

/// Parses an energy source; `rapl` means the one through sysfs.
pub fn parse_source(name: &str) -> Result<EnergySource, UnknownWord> {
    if name == "rapl" { Ok(EnergySource::RaplSysfs) } else { name.parse() }
}

pub fn parse_trainer(name: &str) -> Result<PowerTrainer, String> {
    PowerTrainer::named(name)
        .ok_or_else(|| format!("want {}, auto", PowerTrainer::KEPLER.map(PowerTrainer::name).join(", ")))
}

/// The named group; else the largest group whose features the table has.
pub fn choose_group(
    frame: &FeatureFrame,
    named: Option<FeatureGroup>,
    input: &str,
) -> anyhow::Result<FeatureGroup> {
    let names: Vec<&str> = frame.names().collect();
    let whole = FeatureGroup::ALL
        .into_iter()
        .filter(|group| !group.features().is_empty() && group.is_within(&names))
        .max_by_key(|group| group.features().len());
    named.or(whole).ok_or_else(|| {
        let want = FeatureGroup::BpfOnly.features().join(", ");
        usage_error(format!("--input {input}: has all features of no group; want some such as {want}"))
    })
}
