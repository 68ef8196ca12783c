//! `metier place`: chooses the cluster node for a graph and deploys its service. Nothing is
//! written without `--apply` or `--rollback`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use metier_cluster::deployer::{self, ClusterAccess, ClusterDeployer, ServingImage};
use metier_cluster::inventory::prometheus::{self, PrometheusSnapshot};
use metier_cluster::{inventory, node_choice};
use metier_device::identity;
use metier_linux::KernelRoots;
use metier_onnx::{GraphAnalysis, OnnxLimits};
use metier_place::{
    AppliedDeployment, Placement, PlacementCandidate, PlacementDemand, PlacementStanding, place,
};
use metier_predict::latency::conditions::{MAX_LOAD, REPLICA_THREADS};
use metier_predict::latency::{InferenceConditions, LatencyPredictor};
use metier_predict::node_predictor::NodePredictor;
use metier_predict::passport_resolver::{LocalNode, PassportResolver};
use metier_prom::query::PromEndpoint;
use metier_store::digest;
use metier_types::{Bytes, Prediction, Seconds};

use super::CommandContext;
use super::inspect::BindingArgs;
use super::predict::parse_share;
use super::up;
use crate::config::data_folder;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, TableCell, TextTable, csv_cell, serialised_word};
use crate::time::parse_duration_flag;

const EXAMPLES: &str = "Examples:
  metier place --graph net.onnx                        every node with its predicted time, and the choice
  metier place --graph net.onnx --prometheus http://prometheus:9090
                                                       with the current load of each node
  metier place --graph net.onnx --image serve:1 -o yaml
                                                       print the Deployment
  metier place --graph net.onnx --image serve:1 --port 8080 --apply
                                                       create it, and wait until it is available
  metier place --name net --rollback                   restore the previous Deployment";

/// Choose the cluster node for a graph, and deploy it there
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PlaceArgs {
    /// ONNX file of the graph
    #[arg(long, value_name = "FILE", required_unless_present = "rollback")]
    graph: Option<PathBuf>,
    #[command(flatten)]
    binding: BindingArgs,
    /// Runtime: rten, onnxruntime
    #[arg(long, value_name = "NAME", default_value = "rten")]
    runtime: String,
    /// Threads of each replica, for which its time is predicted and as many cores are requested
    #[arg(long, value_name = "N", default_value_t = REPLICA_THREADS, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Load of the nodes' processors by other programs, as 50%; above 100% their threads queue
    #[arg(long, value_name = "SHARE", conflicts_with = "prometheus")]
    load: Option<String>,
    /// Prometheus with the current load of each node
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// File of the only certificate authority to accept for that Prometheus
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_ca: Option<PathBuf>,
    /// File with the token for that Prometheus
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_token_file: Option<PathBuf>,
    /// Accept any certificate of that Prometheus
    #[arg(long, requires = "prometheus")]
    prometheus_insecure: bool,
    /// Number of replicas, all on one node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    replicas: u32,
    /// Only nodes of this architecture, as Kubernetes calls it: amd64, arm64
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Only nodes with this label; can be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    selector: Vec<String>,
    /// Container image that serves the graph
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Argument of the container; can be repeated
    #[arg(long = "arg", value_name = "WORD", requires = "image", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// Environment variable of the container; can be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "image")]
    env: Vec<String>,
    /// Port of the container; the Deployment is available when the first port is open
    #[arg(long = "port", value_name = "PORT", requires = "image")]
    ports: Vec<u16>,
    /// Name of the Deployment [default: that of the graph's file]
    #[arg(long, value_name = "NAME", required_unless_present = "graph")]
    name: Option<String>,
    /// Create or replace the Deployment, after a dry run
    #[arg(long, requires = "image", conflicts_with = "rollback")]
    apply: bool,
    /// Replace a Deployment of that name that metier did not make; --rollback restores it
    #[arg(long, requires = "apply")]
    replace: bool,
    /// Restore the Deployment from before the last --apply
    #[arg(long)]
    rollback: bool,
    /// Longest time to wait until the Deployment is available: 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_wait)]
    wait: Duration,
    /// Kubeconfig [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of the Deployment [default: that of the context]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

/// Parses `--wait`: a duration from 1s to 1h.
fn parse_wait(text: &str) -> Result<Duration, String> {
    parse_duration_flag(text)
        .ok()
        .filter(|wait| (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(wait))
        .ok_or_else(|| "want a duration from 1s to 1h".to_string())
}

impl PlaceArgs {
    /// Chooses the node, and applies or rolls back on request.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        super::sweep_jobs();
        let access = ClusterAccess {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            namespace: self.namespace.clone(),
        };
        let serving = self.serving_spec()?;
        let patience = self.wait;
        if self.rollback {
            let name = serving.name.as_str();
            let applied = ClusterDeployer::connect(&access)?.rollback(name, patience)?;
            return print_applied(context, &applied);
        }
        let Some(path) = &self.graph else {
            return Err(usage_error("--graph is missing; want an ONNX file"));
        };
        let bytes = self.binding.read_graph(path)?;
        let graph = self.analyse_graph(path, &bytes)?;
        let demand = PlacementDemand {
            workload: serving.name.clone(),
            threads: self.threads,
            replicas: self.replicas,
            architecture: self.arch.clone(),
            labels: parse_name_values("--selector", &self.selector)?.into_iter().collect::<BTreeMap<_, _>>(),
        };
        let conditions = InferenceConditions {
            runtime: self.runtime.clone(),
            threads: self.threads,
            cpu_load: parse_share("--load", self.load.as_ref(), MAX_LOAD)?,
            ..InferenceConditions::default()
        };
        conditions.check().map_err(|error| usage_error(format!("--{error}")))?;
        let snapshot = self.prometheus_endpoint()?.map(load_snapshot);
        let cluster = ClusterDeployer::connect(&access);
        let survey = cluster.as_ref().map_err(ToString::to_string).and_then(|cluster| {
            cluster.survey(self.image.as_ref().map(|_| serving.name.as_str())).map_err(|e| e.to_string())
        });
        // Nodes come from Prometheus or Kubernetes; only Kubernetes accepts a Deployment.
        if let Err(why) = &survey
            && (self.apply || !matches!(snapshot, Some(Ok(_))))
        {
            match &snapshot {
                Some(Err(silent)) => anyhow::bail!("{silent}; {why}"),
                _ => anyhow::bail!("{why}"),
            }
        }
        // Without a store, only shipped passports are known, and no trained predictor.
        let store = match context.store() {
            Ok(store) => Some(store),
            Err(error) => {
                context
                    .console
                    .note(format!("{error:#}; so the shipped passports answer, and nothing learned"));
                None
            }
        };
        let latency = match &store {
            Some(store) => LatencyPredictor::open(store)?,
            None => LatencyPredictor::from_passports(),
        };
        let roots = KernelRoots::default();
        let device = identity::identify_device(&roots, data_folder().as_deref()).ok();
        let local = device.map(|device| LocalNode { device, boot: node_choice::own_boot_id(&roots) });
        let passports = PassportResolver::read(store.as_ref(), local);
        let predictor = NodePredictor::new(&latency, &passports, (&graph).into(), conditions);
        let inventory = inventory::join_sources(
            Some(survey.as_ref().map_err(String::clone)),
            snapshot.as_ref().map(|snapshot| snapshot.as_ref().map_err(String::clone)),
        );
        let mut placement = place(&inventory, &demand, &|node| predictor.on_node(node));
        let service =
            deployer::graph_service(&placement, &demand, &serving, Some(&digest::digest_bytes(&bytes)));
        let service = service.filter(|_| self.image.is_some());
        let mut manifest = None;
        if let (Some(service), Ok(cluster)) = (&service, &cluster) {
            match self.apply {
                true => placement.applied = Some(cluster.apply(service, patience)?),
                false => manifest = Some(deployer::manifest(service, cluster.namespace())),
            }
        }
        print_placement(context, &placement, manifest.as_ref())?;
        Ok(match &placement.applied {
            _ if placement.chosen().is_none() => CliExitCode::INFEASIBLE,
            Some(applied) if !applied.is_available => CliExitCode::FAILED,
            _ => CliExitCode::OK,
        })
    }

    /// The Prometheus with the nodes' load, if named.
    fn prometheus_endpoint(&self) -> anyhow::Result<Option<PromEndpoint>> {
        let Some(address) = &self.prometheus else { return Ok(None) };
        let (authority, token) = (self.prometheus_ca.clone(), self.prometheus_token_file.clone());
        let mut endpoint = up::prometheus_endpoint(address, authority, token)?;
        endpoint.accept_any_certificate = self.prometheus_insecure;
        Ok(Some(endpoint))
    }

    fn analyse_graph(&self, path: &std::path::Path, bytes: &[u8]) -> anyhow::Result<GraphAnalysis> {
        let limits = OnnxLimits::default();
        let bindings = self.binding.bindings()?;
        let read = metier_onnx::read_onnx(bytes, &limits);
        self.binding.name_file_in_error(
            path,
            read.and_then(|model| metier_onnx::analyse_graph(&model, &bindings, &limits)),
        )
    }

    /// The Deployment's specification; without --image it has a stand-in that is never deployed.
    fn serving_spec(&self) -> anyhow::Result<ServingImage> {
        let name = match (&self.name, &self.graph) {
            (Some(name), _) => name.clone(),
            (None, Some(path)) => {
                deployer::object_name(&path.file_stem().unwrap_or_default().to_string_lossy())
            }
            (None, None) => String::new(),
        };
        let serving = ServingImage {
            name,
            image: self.image.clone().unwrap_or_else(|| "none".into()),
            arguments: self.arguments.clone(),
            environment: parse_name_values("--env", &self.env)?,
            ports: self.ports.clone(),
            replaces_foreign: self.replace,
        };
        match serving.defect() {
            Some((field, got, want)) => Err(usage_error(format!("--{field} is {got}; want {want}"))),
            None => Ok(serving),
        }
    }
}

/// The load of the nodes, or why Prometheus does not give it.
fn load_snapshot(endpoint: PromEndpoint) -> Result<PrometheusSnapshot, String> {
    let named = endpoint.to_string();
    prometheus::take_snapshot_blocking(endpoint).map_err(|error| {
        // The queries are long and do not help the reader.
        let why = error.failure().map_or_else(|| error.to_string(), ToString::to_string);
        format!("--prometheus {named} does not tell how busy the nodes are: {why}")
    })
}

fn parse_name_values(flag: &str, given: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let one = |text: &String| {
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let pair = pair.map(|(name, value)| (name.to_string(), value.to_string()));
        pair.ok_or_else(|| usage_error(format!("{flag} is {text:?}; want NAME=VALUE")))
    };
    given.iter().map(one).collect()
}

/// Prints the applied change.
fn print_applied(context: &CommandContext, applied: &AppliedDeployment) -> anyhow::Result<CliExitCode> {
    let console = &context.console;
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, applied))?,
        DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, applied))?,
        DataFormat::Csv => console.write_data(|out| {
            let row = vec![applied.namespace.clone(), applied.name.clone(), applied.action.to_string()];
            output::write_csv(out, ["namespace", "name", "action"], std::iter::once(row))
        })?,
        DataFormat::Table => console.print(&applied_text(applied))?,
    }
    Ok(if applied.because.is_some() { CliExitCode::FAILED } else { CliExitCode::OK })
}

fn applied_text(applied: &AppliedDeployment) -> String {
    let AppliedDeployment { namespace, name, action, is_available, because } = applied;
    let standing = match because {
        Some(why) => format!(
            ", and it is not available: {why}\n`metier place --name {name} --namespace {namespace} --rollback` brings back what was there before"
        ),
        None if *is_available => ", and it is available".into(),
        None => String::new(),
    };
    format!("Deployment {name} in namespace {namespace} was {action}{standing}\n")
}

fn print_placement(
    context: &CommandContext,
    placement: &Placement,
    manifest: Option<&serde_json::Value>,
) -> anyhow::Result<()> {
    let console = &context.console;
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, placement)),
        DataFormat::Yaml => match manifest {
            Some(manifest) => console.write_data(|out| output::write_yaml(out, manifest)),
            None => console.write_data(|out| output::write_yaml(out, placement)),
        },
        DataFormat::Csv => console.write_data(|out| {
            let head = ["device", "status", "seconds", "low", "high", "memory_bytes", "because"];
            output::write_csv(out, head, placement.candidates.iter().map(candidate_row))
        }),
        DataFormat::Table => {
            let mut table = TextTable::with_header(&[
                "DEVICE", "", "TIME", "INTERVAL", "MEMORY", "FREE", "PASSPORT", "WHY",
            ]);
            for candidate in &placement.candidates {
                let interval = candidate.prediction.as_ref().map(|prediction| {
                    let interval = prediction.interval();
                    format!("{} to {}", Seconds(interval.low()), Seconds(interval.high()))
                });
                let passport = match &candidate.passport {
                    Some(used) => format!("{} ({})", used.name, serialised_word(&used.origin)),
                    // Estimated from its cores and instruction set alone.
                    None if candidate.prediction.is_some() => "generic".to_string(),
                    None => String::new(),
                };
                table.add_row(vec![
                    TableCell::text(candidate.device.clone()),
                    TableCell::text(if candidate.status == PlacementStanding::Chosen {
                        "chosen"
                    } else {
                        ""
                    }),
                    TableCell::quantity(
                        candidate.prediction.as_ref().map(|prediction| Seconds(prediction.value())),
                    ),
                    TableCell::text(interval.unwrap_or_default()),
                    TableCell::quantity(
                        candidate.memory.as_ref().map(|prediction| Bytes(prediction.value() as u64)),
                    ),
                    TableCell::quantity(candidate.free_memory_bytes),
                    TableCell::text(passport),
                    TableCell::text(candidate.because.clone()),
                ]);
            }
            let mut text = table.render(console.paint);
            for note in
                placement.notes.iter().chain(placement.unplaced.iter().map(|workload| &workload.because))
            {
                text.push_str(&format!("\n{note}\n"));
            }
            if let Some(applied) = &placement.applied {
                text.push_str(&format!("\n{}", applied_text(applied)));
            }
            console.print(&text)
        }
    }
}

fn candidate_row(candidate: &PlacementCandidate) -> Vec<String> {
    let latency = candidate.prediction.as_ref();
    vec![
        candidate.device.clone(),
        serialised_word(&candidate.status),
        csv_cell(latency.map(Prediction::value)),
        csv_cell(latency.map(|prediction| prediction.interval().low())),
        csv_cell(latency.map(|prediction| prediction.interval().high())),
        csv_cell(candidate.memory.as_ref().map(Prediction::value)),
        candidate.because.clone(),
    ]
}
