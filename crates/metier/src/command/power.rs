//! `metier power`: Kepler's training pipeline by hand, from Prometheus to predictors of power. One file for each command; the work itself is metier-power's.

mod estimate;
mod export;
mod extract;
mod files;
mod flags;
mod isolate;
mod node;
mod plot;
mod profile;
mod published;
mod query;
mod spelling;
mod train;
mod validate;

use clap::{Args, Subcommand};

pub use spelling::spelled;

use metier_linux::Roots;
use metier_power::stored::PipelineRecorder;
use metier_store::Store;

use super::Room;
use crate::config::data_folder;
use crate::exit::{Code, usage};

const EXAMPLES: &str = "Examples:
  metier power node                                       who this machine is, and which node type it is like
  metier power query -s http://127.0.0.1:9090 -o load     Kepler's series of the last 300 s, in load.json
  metier power train -i load -p mine --id node1           every predictor that they allow, in mine/ and mine.zip
  metier power estimate -i other -p mine -o tried         how wrong they are on other rows
  metier serve estimator --models mine.zip                what Kepler's exporter asks";

/// Learn and try predictors of power from Kepler's series
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Power {
    /// Metrics beside Kepler's, by name: saved by `query`, the feature group ThirdParty of the others [PROM_THIRDPARTY_METRICS]
    #[arg(long, value_name = "NAME", value_delimiter = ',', global = true)]
    thirdparty_metrics: Vec<String>,
    #[command(subcommand)]
    what: What,
}

/// Records pipelines that are learned on this device in a store.
pub fn recorder(store: Store) -> anyhow::Result<PipelineRecorder> {
    let device = metier_device::identity::this(&Roots::default(), data_folder().as_deref())?;
    store.put_device(&device)?;
    Ok(PipelineRecorder { device: device.reference(), store })
}

/// Says which metrics there are beside Kepler's: those that are given, else those of the environment; and which job's series are of virtual machines.
pub fn third_party(given: &[String]) -> anyhow::Result<Vec<String>> {
    if let Some(job) = std::env::var("VM_JOB_NAME").ok().filter(|job| !job.is_empty()) {
        metier_power::extract::set_vm_job(&job);
    }
    let (whose, names) = match given {
        [] => ("PROM_THIRDPARTY_METRICS", std::env::var("PROM_THIRDPARTY_METRICS").unwrap_or_default()),
        given => ("--thirdparty-metrics", given.join(",")),
    };
    let names: Vec<String> =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect();
    metier_power::third_party::set(&names).map_err(|error| usage(format!("{whose}: {error}")))?;
    Ok(names)
}

#[derive(Debug, Subcommand)]
enum What {
    /// Save Kepler's series of a time, from Prometheus
    Query(query::Query),
    /// Count what a query response holds
    Validate(validate::Validate),
    /// Make a table of features and watts from a query response
    Extract(extract::Extract),
    /// The same without idle and background power
    Isolate(isolate::Isolate),
    /// Take idle and background power out of a table of `extract`
    #[command(alias = "isolate_from_data")]
    IsolateFromData(isolate::FromData),
    /// Learn a pipeline from query responses: every source, group and trainer
    Train(train::Train),
    /// Learn predictors of one group from one table
    #[command(alias = "train_from_data")]
    TrainFromData(train::FromData),
    /// Try predictors on a query response whose power is known
    Estimate(estimate::Estimate),
    /// Draw tables, predictions and errors
    Plot(plot::Plot),
    /// Publish a pipeline's good predictors as kepler-model-db has them
    Export(export::Export),
    /// Profile a node from a query response of its idle time
    Profile(profile::Profile),
    /// Say who this machine is, and which node type it is like
    Node(node::Node),
    /// Learn the SPECpower pipeline from its tables
    Specpower(published::Specpower),
    /// Learn the EC2 pipeline from its query responses
    Ec2(published::Ec2),
}

impl Power {
    /// Does what was asked for.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let others = third_party(&self.thirdparty_metrics)?;
        match &self.what {
            What::Query(query) => query.run(room, others),
            What::Validate(validate) => validate.run(room),
            What::Extract(extract) => extract.run(room),
            What::Isolate(isolate) => isolate.run(room),
            What::IsolateFromData(isolate) => isolate.run(room),
            What::Train(train) => train.run(room),
            What::TrainFromData(train) => train.run(room),
            What::Estimate(estimate) => estimate.run(room),
            What::Plot(plot) => plot.run(room),
            What::Export(export) => export.run(room),
            What::Profile(profile) => profile.run(room),
            What::Node(node) => node.run(room),
            What::Specpower(specpower) => specpower.run(room),
            What::Ec2(ec2) => ec2.run(room),
        }
    }
}
