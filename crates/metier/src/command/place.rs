//! `metier place`: which node of a cluster a graph goes to, and its service there. Nothing is
//! written without `--apply` or `--rollback`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use metier_cluster::deployer::{self, ClusterAccess, ClusterDeployer, ServingImage};
use metier_cluster::inventory::prometheus::{self, PrometheusSnapshot};
use metier_cluster::{inventory, node};
use metier_device::identity;
use metier_linux::Roots;
use metier_onnx::{Analysis, Limits};
use metier_place::{
    AppliedDeployment, Placement, PlacementCandidate, PlacementDemand, PlacementStanding, place,
};
use metier_predict::latency::conditions::MOST_LOAD;
use metier_predict::latency::{Conditions, Latency};
use metier_predict::node_predictor::NodePredictor;
use metier_predict::passport_resolver::{LocalNode, PassportResolver};
use metier_prom::query::Endpoint;
use metier_store::digest;
use metier_types::{Bytes, Prediction, Seconds};

use super::Room;
use super::inspect::Binding;
use super::predict::{share, threads};
use super::up;
use crate::config::data_folder;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Table, plain, word_of};

const EXAMPLES: &str = "Examples:
  metier place --graph net.onnx                        every node with its predicted time, and the choice
  metier place --graph net.onnx --prometheus http://prometheus:9090
                                                       beside what runs on each node now
  metier place --graph net.onnx --image serve:1 -o yaml
                                                       the Deployment that would be made
  metier place --graph net.onnx --image serve:1 --port 8080 --apply
                                                       make it, and wait until it is available
  metier place --name net --rollback                   what was there before";

/// Choose the node of a cluster that a graph goes to, and put it there
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Place {
    /// The graph's file
    #[arg(long, value_name = "FILE", required_unless_present = "rollback")]
    graph: Option<PathBuf>,
    #[command(flatten)]
    binding: Binding,
    /// Runtime that will run it: rten, onnxruntime
    #[arg(long, value_name = "NAME", default_value = "rten")]
    runtime: String,
    /// Threads of each replica, and cores that it asks for [default: all of the node, and one core
    /// is asked for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// How busy the nodes' processors are with something else, as 50%; above 100% others wait in a
    /// queue
    #[arg(long, value_name = "SHARE", conflicts_with = "prometheus")]
    load: Option<String>,
    /// Prometheus that knows how busy each node is now
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// File of the certificate authority that alone vouches for that Prometheus
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_ca: Option<PathBuf>,
    /// File that holds the token that Prometheus wants
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_token_file: Option<PathBuf>,
    /// Believe whoever answers in the place of that Prometheus
    #[arg(long, requires = "prometheus")]
    prometheus_insecure: bool,
    /// How many of it, all on one node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    replicas: u32,
    /// Only nodes of this architecture, as Kubernetes calls it: amd64, arm64
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Only nodes with this label; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    selector: Vec<String>,
    /// The image that serves the graph
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// An argument of its program; may be given again
    #[arg(long = "arg", value_name = "WORD", requires = "image", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// A variable of its environment; may be given again
    #[arg(long, value_name = "NAME=VALUE", requires = "image")]
    env: Vec<String>,
    /// A port that it listens at; it is available when the first one is open
    #[arg(long = "port", value_name = "PORT", requires = "image")]
    ports: Vec<u16>,
    /// Name of the Deployment [default: that of the graph's file]
    #[arg(long, value_name = "NAME", required_unless_present = "graph")]
    name: Option<String>,
    /// Make or replace the Deployment, after a dry run
    #[arg(long, requires = "image", conflicts_with = "rollback")]
    apply: bool,
    /// Bring back what was there before the last --apply
    #[arg(long)]
    rollback: bool,
    /// How long it may take until it is available, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    within: u64,
    /// The cluster's file [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in that file
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace of the Deployment [default: that of the context]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

impl Place {
    /// Chooses, and does what was asked for.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let access = ClusterAccess {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            namespace: self.namespace.clone(),
        };
        let serving = self.serving()?;
        let patience = Duration::from_secs(self.within);
        if self.rollback {
            let name = serving.name.as_str();
            let applied = ClusterDeployer::connect(&access)?.rollback(name, patience)?;
            return say_applied(room, &applied);
        }
        let Some(path) = &self.graph else { return Err(usage("--graph is missing; want an ONNX file")) };
        let bytes = self.binding.bytes(path)?;
        let graph = self.graph(path, &bytes)?;
        let demand = PlacementDemand {
            workload: serving.name.clone(),
            threads: self.threads.unwrap_or(1),
            replicas: self.replicas,
            architecture: self.arch.clone(),
            labels: pairs("--selector", &self.selector)?.into_iter().collect::<BTreeMap<_, _>>(),
        };
        let conditions = Conditions {
            runtime: self.runtime.clone(),
            threads: threads(self.threads)?,
            cpu_load: share("--load", self.load.as_ref(), MOST_LOAD)?,
            ..Conditions::default()
        };
        conditions.check().map_err(|error| usage(format!("--{error}")))?;
        let snapshot = self.endpoint()?.map(snapshot);
        let cluster = ClusterDeployer::connect(&access);
        let survey = cluster.as_ref().map_err(ToString::to_string).and_then(|cluster| {
            cluster.survey(self.image.as_ref().map(|_| serving.name.as_str())).map_err(|e| e.to_string())
        });
        // Nodes come from either source, and only Kubernetes takes a Deployment.
        if let Err(why) = &survey
            && (self.apply || !matches!(snapshot, Some(Ok(_))))
        {
            match &snapshot {
                Some(Err(silent)) => anyhow::bail!("{silent}; {why}"),
                _ => anyhow::bail!("{why}"),
            }
        }
        // Without a store there are the passports that are shipped, and nothing learned.
        let store = match room.store() {
            Ok(store) => Some(store),
            Err(error) => {
                room.console.note(format!("{error:#}; so the shipped passports answer, and nothing learned"));
                None
            }
        };
        let latency = match &store {
            Some(store) => Latency::open(store)?,
            None => Latency::from_passports(),
        };
        let roots = Roots::default();
        let device = identity::this(&roots, data_folder().as_deref()).ok();
        let local = device.map(|device| LocalNode { device, boot: node::own_boot(&roots) });
        let passports = PassportResolver::read(store.as_ref(), local);
        let predictor = NodePredictor::new(&latency, &passports, (&graph).into(), conditions);
        let inventory = inventory::join(
            Some(survey.as_ref().map_err(String::clone)),
            snapshot.as_ref().map(|snapshot| snapshot.as_ref().map_err(String::clone)),
        );
        let mut placement = place(&inventory, &demand, &|node| predictor.on_node(node));
        let service = deployer::service(&placement, &demand, &serving, Some(&digest::of_bytes(&bytes)));
        let service = service.filter(|_| self.image.is_some());
        let mut manifest = None;
        if let (Some(service), Ok(cluster)) = (&service, &cluster) {
            match self.apply {
                true => placement.applied = Some(cluster.apply(service, patience)?),
                false => manifest = Some(deployer::manifest(service, cluster.namespace())),
            }
        }
        say(room, &placement, manifest.as_ref())?;
        Ok(match &placement.applied {
            _ if placement.chosen().is_none() => Code::INFEASIBLE,
            Some(applied) if !applied.is_available => Code::FAILED,
            _ => Code::OK,
        })
    }

    /// The Prometheus that says how busy the nodes are, where one was named.
    fn endpoint(&self) -> anyhow::Result<Option<Endpoint>> {
        let Some(address) = &self.prometheus else { return Ok(None) };
        let (authority, token) = (self.prometheus_ca.clone(), self.prometheus_token_file.clone());
        let mut endpoint = up::endpoint(address, authority, token)?;
        endpoint.accept_any_certificate = self.prometheus_insecure;
        Ok(Some(endpoint))
    }

    fn graph(&self, path: &std::path::Path, bytes: &[u8]) -> anyhow::Result<Analysis> {
        let limits = Limits::default();
        let bindings = self.binding.bindings()?;
        let read = metier_onnx::read(bytes, &limits);
        self.binding.named(path, read.and_then(|model| metier_onnx::analyse(&model, &bindings, &limits)))
    }

    /// What serves it; the image is a stand-in where none was given, and then nothing is made of
    /// it.
    fn serving(&self) -> anyhow::Result<ServingImage> {
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
            environment: pairs("--env", &self.env)?,
            ports: self.ports.clone(),
        };
        match serving.defect() {
            Some((field, got, want)) => Err(usage(format!("--{field} is {got}; want {want}"))),
            None => Ok(serving),
        }
    }
}

/// How busy the nodes are, or why that Prometheus does not say it.
fn snapshot(endpoint: Endpoint) -> Result<PrometheusSnapshot, String> {
    let named = endpoint.to_string();
    prometheus::once(endpoint).map_err(|error| {
        // The queries themselves are long, and of no use to the reader.
        let why = error.trouble().map_or_else(|| error.to_string(), ToString::to_string);
        format!("--prometheus {named} does not tell how busy the nodes are: {why}")
    })
}

fn pairs(flag: &str, given: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let one = |text: &String| {
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let pair = pair.map(|(name, value)| (name.to_string(), value.to_string()));
        pair.ok_or_else(|| usage(format!("{flag} is {text:?}; want NAME=VALUE")))
    };
    given.iter().map(one).collect()
}

/// Says what was done.
fn say_applied(room: &Room, applied: &AppliedDeployment) -> anyhow::Result<Code> {
    let console = &room.console;
    match console.format {
        Format::Json => console.data(|out| output::json(out, applied))?,
        Format::Yaml => console.data(|out| output::yaml(out, applied))?,
        Format::Csv => console.data(|out| {
            let row = vec![applied.namespace.clone(), applied.name.clone(), applied.action.to_string()];
            output::csv(out, &["namespace", "name", "action"], std::iter::once(row))
        })?,
        Format::Table => console.print(&sentence(applied))?,
    }
    Ok(if applied.because.is_some() { Code::FAILED } else { Code::OK })
}

fn sentence(applied: &AppliedDeployment) -> String {
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

fn say(room: &Room, placement: &Placement, manifest: Option<&serde_json::Value>) -> anyhow::Result<()> {
    let console = &room.console;
    match console.format {
        Format::Json => console.data(|out| output::json(out, placement)),
        Format::Yaml => match manifest {
            Some(manifest) => console.data(|out| output::yaml(out, manifest)),
            None => console.data(|out| output::yaml(out, placement)),
        },
        Format::Csv => console.data(|out| {
            let head = ["device", "status", "seconds", "low", "high", "memory_bytes", "because"];
            output::csv(out, &head, placement.candidates.iter().map(row))
        }),
        Format::Table => {
            let mut table =
                Table::with_header(&["DEVICE", "", "TIME", "INTERVAL", "MEMORY", "FREE", "PASSPORT", "WHY"]);
            for one in &placement.candidates {
                let interval = one.prediction.as_ref().map(|told| {
                    let interval = told.interval();
                    format!("{} to {}", Seconds(interval.low()), Seconds(interval.high()))
                });
                let passport = match &one.passport {
                    Some(used) => format!("{} ({})", used.name, word_of(&used.origin)),
                    // Judged by its cores and instruction set alone.
                    None if one.prediction.is_some() => "generic".to_string(),
                    None => String::new(),
                };
                table.row(vec![
                    Cell::text(one.device.clone()),
                    Cell::text(if one.status == PlacementStanding::Chosen { "chosen" } else { "" }),
                    Cell::quantity(one.prediction.as_ref().map(|told| Seconds(told.value()))),
                    Cell::text(interval.unwrap_or_default()),
                    Cell::quantity(one.memory.as_ref().map(|told| Bytes(told.value() as u64))),
                    Cell::quantity(one.free_memory_bytes),
                    Cell::text(passport),
                    Cell::text(one.because.clone()),
                ]);
            }
            let mut text = table.render(console.paint);
            for note in placement.notes.iter().chain(placement.unplaced.iter().map(|one| &one.because)) {
                text.push_str(&format!("\n{note}\n"));
            }
            if let Some(applied) = &placement.applied {
                text.push_str(&format!("\n{}", sentence(applied)));
            }
            console.print(&text)
        }
    }
}

fn row(one: &PlacementCandidate) -> Vec<String> {
    let latency = one.prediction.as_ref();
    vec![
        one.device.clone(),
        word_of(&one.status),
        plain(latency.map(Prediction::value)),
        plain(latency.map(|told| told.interval().low())),
        plain(latency.map(|told| told.interval().high())),
        plain(one.memory.as_ref().map(Prediction::value)),
        one.because.clone(),
    ]
}
