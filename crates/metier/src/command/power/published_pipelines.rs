//! `metier power specpower`, `ec2`: retrain the two published pipelines from their measurements.

use std::path::{Path, PathBuf};

use clap::Args;
use metier_power::kepler_terms::{EnergySource as Energy, PowerTrainer};
use metier_power::training::published::{self, EC2_IMAGE, EC2_INSTANCES};
use metier_power::training::{self, MeasuredMachine, PipelinePlan, PowerTables, TrainingKnowledge};
use metier_session::dataset::{self, DatasetCacheFolder, FetchWatch};
use metier_session::runfile::{CheckedDataset, DATASET_TARGET, DatasetSource};
use metier_types::{PageCacheState, UtcTimestamp};

use super::power_files::DataFolder;
use super::shared_args::{self, PathArgs};
use super::train::{pack_and_print, with_progress};
use crate::command::CommandContext;
use crate::command::run::fetch_progress::FetchProgress;
use crate::config::dataset_folder;
use crate::exit::{CliExitCode, usage_error};

const EXAMPLES: &str = "Examples:
  metier power specpower --from http://localhost:8080 -p specpower        index.json and the tables that it lists
  metier power specpower --from ./spec_power_db -p specpower --abs-trainers auto --dyn-trainers auto
  metier power ec2 --from s3://kepler-power-model/ -p ec2                 <machine>/data/kepler_query.json and machine_spec
  metier power ec2 --from ./kepler-power-model --instance m5.metal,c5.metal";

/// Source of the measurements, and trainers.
#[derive(Debug, Args)]
struct MeasurementSourceArgs {
    /// Folder, http(s):// or s3:// address of the measurements
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Trainers of power with idle [default: all ten of Kepler]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = shared_args::parse_trainer)]
    abs_trainers: Option<Vec<PowerTrainer>>,
    /// Trainers of power without idle [default: all ten of Kepler]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = shared_args::parse_trainer)]
    dyn_trainers: Option<Vec<PowerTrainer>>,
    #[command(flatten)]
    paths: PathArgs,
}

impl MeasurementSourceArgs {
    fn training_plan(&self, name: &str, source: Energy) -> anyhow::Result<PipelinePlan> {
        let every = || PowerTrainer::KEPLER.to_vec();
        let plan = PipelinePlan {
            sources: vec![source],
            abs_trainers: self.abs_trainers.clone().unwrap_or_else(every),
            dyn_trainers: self.dyn_trainers.clone().unwrap_or_else(every),
            ..PipelinePlan::new(name, UtcTimestamp::now())
        };
        plan.check().map_err(|error| usage_error(error.to_string()))?;
        Ok(plan)
    }

    /// Reads a file below the source.
    fn read_file(&self, context: &CommandContext, name: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.fetch_path(context, name)?;
        std::fs::read(&path)
            .map_err(|error| usage_error(format!("--from {}: {}: {error}", self.from, path.display())))
    }

    fn fetch_path(&self, context: &CommandContext, name: &str) -> anyhow::Result<PathBuf> {
        let base = self.from.trim_end_matches('/');
        let source = match base.split_once("://") {
            None => return Ok(PathBuf::from(&self.from).join(name)),
            Some(("http" | "https", _)) => DatasetSource::Http(format!("{base}/{name}")),
            Some(("s3", rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
                DatasetSource::S3 { bucket: bucket.to_string(), key, endpoint: None, region: None }
            }
            Some((scheme, _)) => {
                return Err(usage_error(format!(
                    "--from is {scheme}://…; want a folder, http://, https:// or s3://"
                )));
            }
        };
        let dataset = CheckedDataset {
            source,
            digest: None,
            target: DATASET_TARGET.to_string(),
            page_cache: PageCacheState::Untouched,
        };
        let fetching = FetchProgress::new(&context.console);
        let go_on = || false;
        let watch = FetchWatch::new(&dataset.source, &fetching, &go_on);
        let cache = || match dataset_folder() {
            Some(folder) => DatasetCacheFolder::open(&folder),
            None => Err(dataset::DatasetError::Unfit {
                source_name: dataset::display_source(&dataset.source),
                what: "has no place to go: neither XDG_CACHE_HOME nor HOME is an absolute path".into(),
                want: "HOME, or a folder that was fetched before",
            }),
        };
        let obtained = dataset::obtain(&dataset, &cache, &watch);
        fetching.finish();
        Ok(obtained?.path)
    }
}

/// Train the SPECpower pipeline from its tables
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct SpecpowerArgs {
    /// Name of the pipeline
    #[arg(short, long, value_name = "NAME", default_value = "specpower-0.7.11")]
    pipeline_name: String,
    #[command(flatten)]
    from: MeasurementSourceArgs,
}

impl SpecpowerArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data: DataFolder = self.from.paths.data_folder();
        let mut plan = self.from.training_plan(&self.pipeline_name, Energy::Acpi)?;
        plan.groups = vec![metier_power::kepler_terms::FeatureGroup::BpfOnly];
        let names = published::index(&self.from.read_file(context, "index.json")?)
            .map_err(|error| usage_error(format!("--from {}: {error}", self.from.from)))?;
        let folder = data.0.join(&plan.name);
        let mut tables = PowerTables::default();
        let mut missing = Vec::new();
        for name in &names {
            let id = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".csv");
            let text = match self.from.read_file(context, name) {
                Ok(text) => text,
                // A missing file does not stop the others.
                Err(error) => {
                    missing.push(format!("{name} was left out: {error:#}"));
                    continue;
                }
            };
            match published::specpower(id, &text) {
                Ok(machine) => {
                    let node_type = training::join(&folder, Some(&machine.machine))?;
                    tables.append(published::specpower_tables(&machine, &plan, node_type)?)?;
                }
                // An incomplete machine does not stop the others.
                Err(error) => tables.warnings.push(format!("{error}; left out")),
            }
        }
        tables.warnings.extend(missing.iter().cloned());
        if tables.list.is_empty() {
            return Err(usage_error(format!(
                "--from {}: no table can be learned from: {}",
                self.from.from,
                tables.warnings.join("; ")
            )));
        }
        let outcome =
            with_progress(context, |progress| training::train_pipeline(&tables, &plan, &data.0, progress))?;
        let code = pack_and_print(context, &outcome)?;
        Ok(if missing.is_empty() { code } else { CliExitCode::PARTIAL })
    }
}

/// Train the EC2 pipeline from its query responses
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Ec2PipelineArgs {
    /// Name of the pipeline
    #[arg(short, long, value_name = "NAME", default_value = "ec2-0.7.11")]
    pipeline_name: String,
    /// Only these instances [default: the six published ones]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    instance: Vec<String>,
    #[command(flatten)]
    from: MeasurementSourceArgs,
}

impl Ec2PipelineArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.from.paths.data_folder();
        let plan = self.from.training_plan(&self.pipeline_name, Energy::RaplSysfs)?;
        let folder = data.0.join(&plan.name);
        let published: Vec<String> = EC2_INSTANCES.iter().map(ToString::to_string).collect();
        let instances = if self.instance.is_empty() { &published } else { &self.instance };
        let mut tables = PowerTables::default();
        let mut missing = Vec::new();
        for instance in instances {
            match self.instance_tables(context, instance, &plan, &folder) {
                Ok(of) => tables.append(of)?,
                // A missing file does not stop the others.
                Err(error) => missing.push(format!("{instance} was left out: {error:#}")),
            }
        }
        if tables.list.is_empty() {
            let why = missing.join("; ");
            return Err(usage_error(format!(
                "--from {}: nothing can be learned from: {why}",
                self.from.from
            )));
        }
        tables.warnings.extend(missing.iter().cloned());
        let outcome =
            with_progress(context, |progress| training::train_pipeline(&tables, &plan, &data.0, progress))?;
        let code = pack_and_print(context, &outcome)?;
        Ok(if missing.is_empty() { code } else { CliExitCode::PARTIAL })
    }

    /// The tables of one instance.
    fn instance_tables(
        &self,
        context: &CommandContext,
        instance: &str,
        plan: &PipelinePlan,
        folder: &Path,
    ) -> anyhow::Result<PowerTables> {
        let id = format!("{instance}-{EC2_IMAGE}");
        let (spec_name, query_name) =
            (format!("{id}/data/machine_spec/{id}.json"), format!("{id}/data/kepler_query.json"));
        let wrong =
            |name: &str, why: String| usage_error(format!("--from {}: {name}: {why}", self.from.from));
        let spec = serde_json::from_slice(&self.from.read_file(context, &spec_name)?)
            .map_err(|error| wrong(&spec_name, error.to_string()))?;
        let machine = MeasuredMachine { id, spec };
        let response =
            metier_power::response::KeplerResponse::read(&self.from.read_file(context, &query_name)?)
                .map_err(|error| wrong(&query_name, error.to_string()))?;
        let node_type = training::join(folder, Some(&machine))?;
        training::tables(&response, TrainingKnowledge::default(), plan, node_type)
            .map_err(|error| wrong(&query_name, error.to_string()))
    }
}
