//! `metier power`: Kepler's training pipeline by hand, from Prometheus to power predictors. One
//! file per command; the work is in metier-power.

mod estimate;
mod export;
mod extract;
mod isolate;
mod kepler_spelling;
mod node;
mod plot;
mod power_files;
mod profile;
mod published_pipelines;
mod query;
mod shared_args;
mod train;
mod validate;

use clap::{Args, Subcommand};

pub use kepler_spelling::normalise_spelling;

use metier_linux::KernelRoots;
use metier_power::stored_pipelines::TrainedPipelineRecorder;
use metier_store::RecordStore;

use super::CommandContext;
use crate::config::data_folder;
use crate::exit::{CliExitCode, usage_error};

const EXAMPLES: &str = "Examples:
  metier power node                                       this machine and its nearest node type
  metier power query -s http://127.0.0.1:9090 -o load     Kepler's series of the last 300 s, in load.json
  metier power train -i load -p mine --id node1           every predictor that they allow, in mine/ and mine.zip
  metier power estimate -i other -p mine -o tried         how wrong they are on other rows
  metier serve estimator --models mine.zip                what Kepler's exporter asks";

/// Train and test power predictors from Kepler's metrics
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerArgs {
    /// Metrics besides Kepler's, by name: saved by `query`, the feature group ThirdParty of the
    /// others [PROM_THIRDPARTY_METRICS]
    #[arg(long, value_name = "NAME", value_delimiter = ',', global = true)]
    thirdparty_metrics: Vec<String>,
    #[command(subcommand)]
    what: PowerCommand,
}

/// Records pipelines trained on this device in a store.
pub fn pipeline_recorder(store: RecordStore) -> anyhow::Result<TrainedPipelineRecorder> {
    let device = metier_device::identity::identify_device(&KernelRoots::default(), data_folder().as_deref())?;
    store.put_device(&device)?;
    Ok(TrainedPipelineRecorder { device: device.reference(), store })
}

/// Sets the metrics besides Kepler's, from flags or the environment, and the job whose series are
/// of virtual machines.
pub fn set_third_party_metrics(given: &[String]) -> anyhow::Result<Vec<String>> {
    if let Some(job) = std::env::var("VM_JOB_NAME").ok().filter(|job| !job.is_empty()) {
        metier_power::extract::set_vm_job(&job);
    }
    let (whose, names) = match given {
        [] => ("PROM_THIRDPARTY_METRICS", std::env::var("PROM_THIRDPARTY_METRICS").unwrap_or_default()),
        given => ("--thirdparty-metrics", given.join(",")),
    };
    let names: Vec<String> =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect();
    metier_power::third_party::set(&names).map_err(|error| usage_error(format!("{whose}: {error}")))?;
    Ok(names)
}

#[derive(Debug, Subcommand)]
enum PowerCommand {
    /// Save Kepler's series from Prometheus
    Query(query::PowerQueryArgs),
    /// Count the samples of a query response
    Validate(validate::PowerValidateArgs),
    /// Make a table of features and watts from a query response
    Extract(extract::PowerExtractArgs),
    /// Like extract, without idle and background power
    Isolate(isolate::PowerIsolateArgs),
    /// Remove idle and background power from a table of `extract`
    #[command(alias = "isolate_from_data")]
    IsolateFromData(isolate::IsolateTableArgs),
    /// Train a pipeline from query responses: every source, group and trainer
    Train(train::PowerTrainArgs),
    /// Train predictors of one group from one table
    #[command(alias = "train_from_data")]
    TrainFromData(train::TrainTableArgs),
    /// Test predictors on a query response with measured power
    Estimate(estimate::PowerEstimateArgs),
    /// Plot tables, predictions and errors
    Plot(plot::PowerPlotArgs),
    /// Export a pipeline's accurate predictors in the form of kepler-model-db
    Export(export::PowerExportArgs),
    /// Profile a node from a query response of its idle time
    Profile(profile::PowerProfileArgs),
    /// Show this machine and its nearest node type
    Node(node::PowerNodeArgs),
    /// Train the SPECpower pipeline from its tables
    Specpower(published_pipelines::SpecpowerArgs),
    /// Train the EC2 pipeline from its query responses
    Ec2(published_pipelines::Ec2PipelineArgs),
}

impl PowerArgs {
    /// Runs the subcommand.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let others = set_third_party_metrics(&self.thirdparty_metrics)?;
        match &self.what {
            PowerCommand::Query(query) => query.run(context, others),
            PowerCommand::Validate(validate) => validate.run(context),
            PowerCommand::Extract(extract) => extract.run(context),
            PowerCommand::Isolate(isolate) => isolate.run(context),
            PowerCommand::IsolateFromData(isolate) => isolate.run(context),
            PowerCommand::Train(train) => train.run(context),
            PowerCommand::TrainFromData(train) => train.run(context),
            PowerCommand::Estimate(estimate) => estimate.run(context),
            PowerCommand::Plot(plot) => plot.run(context),
            PowerCommand::Export(export) => export.run(context),
            PowerCommand::Profile(profile) => profile.run(context),
            PowerCommand::Node(node) => node.run(context),
            PowerCommand::Specpower(specpower) => specpower.run(context),
            PowerCommand::Ec2(ec2) => ec2.run(context),
        }
    }
}
